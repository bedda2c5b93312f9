//! Tests of bodies and requests that an API server never sends.

use std::convert::Infallible;
use std::io::Seek;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use pintle_webhook::{Admission, Denial, Webhook, Webhooks};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower_service::Service;
use tracing_subscriber::filter::LevelFilter;

use crate::support::{Website, ask, post, review, site, text};

const PATH: &str = "/mutate/example.com/v1/websites";

fn webhooks() -> Webhooks {
    Webhooks::new().add(Webhook::mutate(async |request: Admission<Website>| Ok::<_, Denial>(request.object)))
}

#[tokio::test]
async fn invalid_review_is_a_bad_request() {
    let edit = |path: &str, value: Value| {
        let mut review = review("CREATE", site("a"), Value::Null);
        *review.pointer_mut(path).unwrap() = value;
        review.to_string()
    };
    for (body, expected) in [
        (String::new(), "EOF while parsing"),
        ("{".into(), "EOF while parsing"),
        ("[]".into(), "invalid length 0"),
        ("null".into(), "invalid type: null"),
        ("{} {}".into(), "missing field"),
        (edit("/apiVersion", json!("admission.k8s.io/v1beta1")), "it is admission.k8s.io/v1beta1 AdmissionReview"),
        (edit("/kind", json!("ConversionReview")), "expected admission.k8s.io/v1 AdmissionReview"),
        (edit("/request", Value::Null), "it has no request"),
        (edit("/request/uid", json!("")), "request.uid is empty"),
        (edit("/request/uid", json!("7".repeat(129))), "request.uid has more than 128 bytes"),
        (edit("/request/operation", json!("EXPLODE")), "unknown variant"),
        (edit("/request/object", json!({})).replace("{}", &"[".repeat(100_000)), "expected value"),
    ] {
        let (status, message) = text(post(&webhooks(), PATH, body.clone()).await).await;
        assert_eq!(status, 400, "{body}");
        assert!(message.starts_with("the body is no valid review: ") && message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn long_foreign_text_is_shortened_in_answers() {
    let long = "ü".repeat(100_000);
    for (path, value) in [
        ("/apiVersion", json!(long)),
        ("/kind", json!(long)),
        ("/request/object", json!({"metadata": {"labels": {&*long: 7}}, "spec": {"domain": ""}})),
        ("/request/resource/resource", json!(long)),
        ("/request/subResource", json!(long)),
    ] {
        let mut review = review("CREATE", site("a"), Value::Null);
        review["request"]["subResource"] = json!("");
        *review.pointer_mut(path).unwrap() = value;
        let (_, answer) = text(post(&webhooks(), PATH, review.to_string()).await).await;
        assert!(answer.len() < 3_000, "{path}: {} bytes", answer.len());
    }
}

#[tokio::test]
async fn foreign_text_forges_no_log_line() {
    let mut lines = tempfile::tempfile().unwrap();
    let writer = std::sync::Mutex::new(lines.try_clone().unwrap());
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(writer).finish();
    let logged = tracing::subscriber::set_default(subscriber);
    let mut review = review("CREATE", site("a"), Value::Null);
    review["request"]["subResource"] = json!("a\nWARN forged");
    assert_eq!(ask(&webhooks(), PATH, &review).await["allowed"], false);
    drop(logged);
    lines.rewind().unwrap();
    let lines = std::io::read_to_string(lines).unwrap();
    assert!(lines.contains("denied a request") && lines.lines().count() == 1, "{lines}");
}

#[tokio::test]
async fn deep_object_is_a_denial() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = review("CREATE", json!({"metadata": {}, "spec": {"domain": "HERE"}}), Value::Null).to_string();
    let (status, body) = text(post(&webhooks(), PATH, body.replace("\"HERE\"", &deep)).await).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status.as_u16(), &answer["response"]["allowed"]), (200, &json!(false)), "{body}");
    let mut review = review("CREATE", site("a"), Value::Null);
    review["request"]["object"]["deep"] = "HERE".into();
    let (_, body) = text(post(&webhooks(), PATH, review.to_string().replace("\"HERE\"", &deep)).await).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"]["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
}

#[tokio::test]
async fn large_user_and_options_are_rejected() {
    for path in ["/request/userInfo/groups", "/request/options"] {
        let mut review = review("CREATE", site("a"), Value::Null);
        *review.pointer_mut(path).unwrap() = json!(vec![""; 400_000]);
        let (status, message) = text(post(&webhooks(), PATH, review.to_string()).await).await;
        let expected = "the body is no valid review: it has more than 1048576 bytes without the objects\n";
        assert_eq!((status.as_u16(), &*message), (400, expected), "{path}");
    }
}

#[tokio::test]
async fn second_uid_in_the_body_is_rejected() {
    let body = review("CREATE", site("a"), Value::Null).to_string();
    let twice = body.replacen("\"uid\":", "\"uid\":\"other\",\"uid\":", 1);
    let (status, _) = text(post(&webhooks(), PATH, twice).await).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn unknown_path_and_method_are_rejected() {
    for path in ["/", "/mutate", "/mutate/example.com/v1/websites/", "/validate/example.com/v1/websites"] {
        let (status, _) = text(post(&webhooks(), path, "{}").await).await;
        assert_eq!(status, 404, "{path}");
    }
    let request = Request::get(PATH).body(http_body_util::Empty::<Bytes>::new()).unwrap();
    let response = webhooks().call(request).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"POST".parse().unwrap()));
}

/// A request body that sends `left` zeros, and does not end afterwards.
struct Unfinished {
    hint: u64,
    left: usize,
}

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.left.min(1 << 16);
        self.left -= frame;
        match frame {
            0 => Poll::Pending,
            _ => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1 << 16]).slice(..frame))))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.hint);
        hint
    }
}

#[tokio::test]
async fn large_body_is_rejected() {
    for body in [Unfinished { hint: 0, left: usize::MAX }, Unfinished { hint: 9 << 20, left: 0 }] {
        let response = webhooks().call(Request::post(PATH).body(body).unwrap()).await.unwrap();
        let (status, message) = text(response).await;
        assert_eq!((status.as_u16(), message.as_str()), (413, "the body has more than 8388608 bytes\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_never_arrives_is_rejected() {
    let body = Unfinished { hint: 0, left: 0 };
    let (status, _) = text(webhooks().call(Request::post(PATH).body(body).unwrap()).await.unwrap()).await;
    assert_eq!(status, 408);
}

#[tokio::test(start_paused = true)]
async fn reviews_pass_beside_many_unfinished_bodies() {
    let webhooks = webhooks();
    for _ in 0..500 {
        let mut webhooks = webhooks.clone();
        tokio::spawn(async move {
            loop {
                let request = Request::post(PATH).body(Unfinished { hint: 0, left: 1 }).unwrap();
                webhooks.call(request).await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let start = Instant::now();
    for length in [1, 1 << 17] {
        let site = site(&"a".repeat(length));
        for _ in 0..10 {
            assert_eq!(ask(&webhooks, PATH, &review("CREATE", site.clone(), Value::Null)).await["allowed"], true);
        }
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn oldest_slow_body_gives_way_to_others() {
    let webhooks = webhooks();
    // 28 bodies of 8 MiB use the whole memory budget for large bodies.
    let slow: Vec<_> = (0..28)
        .map(|_| {
            let mut webhooks = webhooks.clone();
            let request = Request::post(PATH).body(Unfinished { hint: 0, left: 8 << 20 }).unwrap();
            tokio::spawn(async move { webhooks.call(request).await.unwrap().status() })
        })
        .collect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    let response = ask(&webhooks, PATH, &review("CREATE", site("a"), Value::Null)).await;
    assert_eq!((&response["allowed"], start.elapsed()), (&json!(true), Duration::ZERO), "small bodies do not wait");
    let response = ask(&webhooks, PATH, &review("CREATE", site(&"a".repeat(1 << 20)), Value::Null)).await;
    assert_eq!(response["allowed"], true);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let mut ends = Vec::new();
    for call in slow {
        assert_eq!(call.await.unwrap(), 408);
        ends.push(start.elapsed());
    }
    assert!(
        ends[0] < Duration::from_secs(2) && ends[1] > Duration::from_secs(9),
        "only the oldest gives way: {ends:?}"
    );
}

#[tokio::test]
async fn concurrent_reviews_keep_their_uids() {
    let webhooks = webhooks();
    let calls = (0..200).map(|number| {
        let webhooks = webhooks.clone();
        tokio::spawn(async move {
            let mut review = review("CREATE", site("a"), Value::Null);
            review["request"]["uid"] = format!("uid-{number}").into();
            let response = ask(&webhooks, PATH, &review).await;
            assert_eq!(response["uid"], format!("uid-{number}"));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}
