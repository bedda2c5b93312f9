//! Tests of the server's audit, and of `eventually` and `consistently`.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Frame};
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig, RequestVerb, consistently, eventually};
use pintle_json::json;
use tokio::time::Instant;
use tower_service::Service;

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

#[tokio::test]
async fn audit_finds_writes_after_the_end_of_a_term() {
    let server = server().await;
    let agent = [("user-agent", "elector-a/1.0")];
    let post = async |name: &str| {
        let object = json!({"metadata": {"name": name}}).to_string();
        send(&server, Method::POST, CONFIG_MAPS, &agent, &object).await.status().as_u16()
    };
    assert_eq!(post("before").await, 201);
    let end_of_term = Instant::now();
    let late = || server.audit().writes().by_user_agent("elector-a/").committed_after(end_of_term);
    assert!(late().is_empty());
    send(&server, Method::GET, CONFIG_MAPS, &agent, "").await;
    assert_eq!(post("before").await, 409, "a failed request is not a write");
    create_map(&server, "of-another", json!({})).await;
    assert!(late().is_empty(), "{:?}", late());
    assert_eq!(post("after").await, 201);
    let late = late();
    assert_eq!((late.len(), late.lost()), (1, 0));
    let record = &late.records()[0];
    let target = [&record.group, &record.resource, &record.namespace, &record.user].map(String::as_str);
    assert_eq!(
        (record.verb, target, record.code),
        (Some(RequestVerb::Create), ["", "configmaps", "default", "admin"], 201)
    );
}

#[tokio::test]
async fn lists_are_counted_by_resource_and_namespace() {
    let server = server().await;
    for path in [CONFIG_MAPS, "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces/default/secrets/a"] {
        get(&server, path).await;
    }
    assert_eq!(server.audit().most_lists_of_a_resource(), 1);
    get(&server, CONFIG_MAPS).await;
    assert_eq!(server.audit().most_lists_of_a_resource(), 2);
    assert_eq!(server.audit().of("", "secrets").most_lists_of_a_resource(), 1);
    assert_eq!(server.audit().of("", "secrets").len(), 2);
}

#[tokio::test]
async fn oldest_records_are_dropped_and_counted_as_lost() {
    let server = ApiServer::start(ApiServerConfig { audit: 2, ..ApiServerConfig::default() }).await.expect("a server");
    for path in ["/a", "/api/v1/nodes", "/api/v1/pods"] {
        get(&server, path).await;
    }
    let audit = server.audit();
    assert_eq!(audit.lost(), 1);
    let silent = std::panic::catch_unwind(|| audit.of("", "secrets").is_empty());
    assert!(silent.is_err(), "unknown because records were lost");
    let audit = server.audit().despite_loss();
    let resources: Vec<_> = audit.records().iter().map(|record| record.resource.as_str()).collect();
    assert_eq!(resources, ["nodes", "pods"]);
    let now = Instant::now();
    get(&server, "/api/v1/secrets").await;
    assert_eq!(server.audit().received_after(now).len(), 1);
    assert!(server.audit().committed_after(now).is_empty());
}

async fn post(server: &ApiServer, body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static) -> u16 {
    let request = Request::post(CONFIG_MAPS).header("content-type", "application/json").body(body).expect("a request");
    server.in_process().call(request).await.expect("an answer").status().as_u16()
}

fn map(name: &str) -> Bytes {
    json!({"metadata": {"name": name}}).to_string().into()
}

#[tokio::test(start_paused = true)]
async fn commits_after_a_term_are_found_for_earlier_requests() {
    let (half, whole) = (Duration::from_secs(5), Duration::from_secs(10));
    for slow_body in [false, true] {
        let server = server().await;
        let body = futures_util::stream::once(async move {
            if slow_body {
                tokio::time::sleep(whole).await;
            }
            Ok(Frame::data(map("a")))
        });
        if !slow_body {
            server.faults().add(Rule::new(Fault::Delay(whole)));
        }
        let end = async {
            tokio::time::sleep(half).await;
            Instant::now()
        };
        let (code, end_of_term) = tokio::join!(post(&server, StreamBody::new(Box::pin(body))), end);
        assert_eq!(code, 201);
        assert!(server.audit().received_after(end_of_term).is_empty());
        let late = server.audit().writes().committed_after(end_of_term);
        let commit = late.records()[0].committed.expect("it was written");
        let map = get(&server, &format!("{CONFIG_MAPS}/a")).await.body;
        assert_eq!((late.len(), commit.revision), (1, version(&map)), "slow body: {slow_body}");
    }
}

#[tokio::test]
async fn lost_responses_count_as_writes_but_no_ops_not() {
    let server = server().await;
    server.faults().add(Rule::new(Fault::LoseAnswer(Answer::new(500))));
    assert_eq!(post(&server, Full::new(map("a"))).await, 500);
    let writes = server.audit().writes();
    assert_eq!((writes.len(), writes.records()[0].code), (1, 500));
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(call(&server, Method::POST, &path, json!({"metadata": {"name": "b"}})).await.code, 201);
    patch_map(&server, "a", json!({})).await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(call(&server, Method::POST, review, json!({})).await.code, 201);
    assert_eq!(server.audit().writes().len(), 1, "{:?}", server.audit());
    assert_eq!(delete(&server, CONFIG_MAPS).await.code, 200);
    let writes = server.audit().writes();
    let commits: Vec<_> = writes.records().iter().flat_map(|write| write.committed).collect();
    assert!(commits.len() == 2 && commits[0].revision < commits[1].revision, "{commits:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_requests_are_recorded_with_code_zero() {
    let server = server().await;
    server.faults().add(Rule::new(Fault::Delay(Duration::from_secs(10))));
    let request = Request::get(CONFIG_MAPS).body(Full::new(Bytes::new())).expect("a request");
    let mut service = server.in_process();
    assert!(tokio::time::timeout(Duration::from_secs(1), service.call(request)).await.is_err());
    let listed = server.audit().of("", "configmaps");
    assert_eq!((listed.most_lists_of_a_resource(), listed.records()[0].code), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn eventually_and_consistently_respect_their_duration() {
    const WHILE: Duration = Duration::from_secs(5);
    let began = Instant::now();
    let since = || began.elapsed();
    assert!(eventually(WHILE, async || since() >= Duration::from_secs(3)).await);
    assert!(since() < Duration::from_secs(4), "it ends as soon as it holds");
    assert!(!eventually(WHILE, async || false).await);
    assert!(since() >= Duration::from_secs(8));
    let began = Instant::now();
    assert!(consistently(WHILE, async || true).await);
    assert!(began.elapsed() >= WHILE);
    assert!(!consistently(WHILE, async || began.elapsed() < Duration::from_secs(7)).await);
}
