//! Tests of requests that succeed, are rejected, are retried, or lose their connection.

use std::error::Error as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use pintle_meta::{ErrorKind, Flow, Reason, Secret, Status};
use pintle_ratelimit::ThrottleError;
use pintle_restreq::{IgnoreWarnings, ResponseTooLarge, RestClient, RestClientConfig, Warning, WarningHandler};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{End, Reply, Seen, Server, closed_port, soon, steady_clock, until};

const REFUSAL: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"no pod a","code":404}"#;

#[tokio::test]
async fn round_trip_sends_path_query_headers_and_body() {
    let server = Server::start([Reply::json(201, r#"{"a":1}"#)]).await;
    let request = server
        .client()
        .post()
        .abs_path(["/api/v1"])
        .namespace("ns")
        .resource("pods")
        .name("a")
        .suffix(["x"])
        .param("labelSelector", "app=web")
        .timeout(std::time::Duration::from_secs(1))
        .header("x-extra", "1")
        .body("body");
    let answer = soon(request.send()).await.unwrap();
    assert!(answer.was_created());
    assert_eq!(answer.into::<Value>().unwrap(), json!({"a": 1}));
    let seen = &server.seen()[0];
    assert_eq!(seen.uri, "/api/v1/namespaces/ns/pods/a/x?labelSelector=app%3Dweb&timeout=1s");
    assert_eq!((seen.method.as_str(), &seen.body[..], seen.header("x-extra")), ("POST", &b"body"[..], Some("1")));
}

#[tokio::test]
async fn every_verb_is_sent_unchanged() {
    let server = Server::start([]).await;
    let client = server.client();
    for (request, method) in [
        (client.get(), "GET"),
        (client.post(), "POST"),
        (client.put(), "PUT"),
        (client.patch("application/json-patch+json"), "PATCH"),
        (client.delete(), "DELETE"),
        (client.verb(Method::OPTIONS), "OPTIONS"),
        (client.get().verb(Method::PUT), "PUT"),
    ] {
        soon(request.send()).await.unwrap();
        assert_eq!(server.seen().pop().unwrap().method.as_str(), method);
    }
}

#[tokio::test]
async fn successes_are_200_to_206() {
    for (status, created) in [(200, false), (201, true), (202, false), (206, false)] {
        let server = Server::start([Reply::json(status, "{}")]).await;
        let answer = soon(server.client().get().send()).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.was_created()), (status, created));
    }
    for status in [300, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503] {
        let server = Server::always(Reply::json(status, "{}")).await;
        let error = soon(server.client().get().send()).await.unwrap_err();
        assert_eq!(error.status().unwrap().code, status, "{error}");
        assert_eq!(server.seen().len(), 1, "{status} without Retry-After is final");
    }
}

#[tokio::test]
async fn rejection_returns_the_server_status_from_every_method() {
    let server = Server::always(Reply::json(404, REFUSAL)).await;
    let request = server.client().get().resource("pods").name("a");
    for error in [
        soon(request.send()).await.map(drop).unwrap_err(),
        soon(request.raw()).await.map(drop).unwrap_err(),
        soon(request.stream()).await.map(drop).unwrap_err(),
        soon(request.watch::<Value>()).await.map(drop).unwrap_err(),
    ] {
        let status = error.status().unwrap();
        assert_eq!((status.reason.clone(), status.message.as_str()), (Some(Reason::NotFound), "no pod a"));
        assert_eq!(error.response.as_ref().unwrap().body, REFUSAL);
        let shown = error.to_string();
        assert!(
            shown.contains("GET http://127.0.0.1") && shown.contains("/pods/a") && shown.contains("no pod a"),
            "{shown}"
        );
        assert!(error.is_not_found());
    }
}

#[tokio::test]
async fn failure_status_in_a_200_response_is_an_error() {
    let server = Server::start([
        Reply::json(200, REFUSAL),
        Reply::json(200, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        Reply::json(200, ""),
        Reply::json(200, "garbage"),
    ])
    .await;
    let request = server.client().get().resource("pods");
    let error = soon(request.object::<Value>()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::NotFound));
    assert_eq!(soon(request.object::<Status>()).await.unwrap().status, "Success");
    let empty = soon(request.object::<Value>()).await.unwrap_err();
    assert!(matches!(empty.kind, ErrorKind::Decode(_)) && empty.to_string().contains("0-length response"), "{empty}");
    let garbage = soon(request.object::<Value>()).await.unwrap_err();
    assert!(matches!(garbage.kind, ErrorKind::Decode(_)), "{garbage}");
}

#[tokio::test]
async fn into_list_names_the_invalid_item() {
    #[derive(Debug, serde::Deserialize)]
    struct Item {
        size: u8,
    }
    let list = r#"{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"size":1},{"size":2}]}"#;
    let bad = r#"{"kind":"ThingList","items":[{"size":1},{"metadata":{"name":"b","namespace":"a"},"size":"x"}]}"#;
    let server = Server::start([
        Reply::json(200, list),
        Reply::json(200, r#"{"kind":"ThingList","items":null}"#),
        Reply::json(200, bad),
        Reply::json(200, r#"{"kind":"Thing"}"#),
    ])
    .await;
    let next = || async { soon(server.client().get().send()).await.unwrap().into_list::<Item>() };
    let page = next().await.unwrap();
    assert_eq!(page.items.iter().map(|item| item.size).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((page.metadata.resource_version.as_str(), page.metadata.continue_token.as_str()), ("7", "c"));
    assert!(next().await.unwrap().items.is_empty());
    let error = next().await.unwrap_err().to_string();
    assert!(error.contains("item 1 (a/b)"), "{error}");
    let error = next().await.unwrap_err().to_string();
    assert!(error.contains("\"Thing\""), "{error}");
}

#[tokio::test]
async fn retry_after_is_honored_for_every_verb() {
    for status in [429, 500, 501, 503, 504] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let server = Server::start([Reply::later(status, 0), Reply::later(status, 0)]).await;
            let request = server.client().verb(method).max_retries(2).body(vec![b'x'; 4000]);
            soon(request.send()).await.unwrap();
            let seen = server.seen();
            assert_eq!(seen.len(), 3);
            assert!(seen.iter().all(|seen| seen.body.len() == 4000), "the whole body each time");
        }
    }
}

#[tokio::test]
async fn retries_end_with_the_last_response() {
    for (retries, sent) in [(0, 1), (1, 2), (2, 3)] {
        let server = Server::always(Reply::later(429, 0)).await;
        let client = server.client();
        let request = client.get().max_retries(retries);
        let error = soon(request.send()).await.unwrap_err();
        assert_eq!(error.reason(), Some(&Reason::TooManyRequests));
        assert_eq!(server.seen().len(), sent);
        soon(request.stream()).await.unwrap_err();
        soon(request.watch::<Value>()).await.unwrap_err();
        assert_eq!(server.seen().len(), 3 * sent, "all methods return the same error");
    }
}

#[tokio::test]
async fn retried_write_reports_that_earlier_attempt_may_have_acted() {
    const CONFLICT: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}"#;
    for (method, first, in_doubt) in [
        (Method::PUT, 504, true),
        (Method::PUT, 502, true),
        (Method::DELETE, 500, true),
        (Method::PUT, 503, true),
        (Method::PUT, 501, false),
        (Method::PUT, 429, false),
        (Method::GET, 504, false),
    ] {
        let server = Server::start([Reply::later(first, 0), Reply::json(409, CONFLICT)]).await;
        let error = soon(server.client().verb(method.clone()).send()).await.unwrap_err();
        assert_eq!(error.reason(), Some(&Reason::Conflict), "{method} {first}: the last response counts");
        assert!(error.is_conflict());
        let earlier = error.earlier.as_ref().map(|earlier| earlier.status().unwrap().code);
        let expected = (in_doubt, in_doubt.then_some(first));
        assert_eq!((error.may_have_acted(), earlier), expected, "{method} {first}: {error}");
    }
}

const VERSIONED: &str = r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#;
const GENERATED: &str = r#"{"metadata":{"generateName":"a-"}}"#;

/// The first attempt of the write may have caused the conflict in the second attempt.
#[tokio::test(start_paused = true)]
async fn guarded_write_is_retried_and_reports_doubt() {
    let _clock = steady_clock();
    let server = Server::start([Reply::Hang, Reply::json(409, "")]).await;
    let error = server.client().put().body(VERSIONED).send().await.unwrap_err();
    let earlier = error.earlier.as_ref().unwrap();
    assert!(matches!(earlier.kind, ErrorKind::Transport(_)) && error.status().unwrap().code == 409, "{error}");
    assert!(error.is_conflict() && error.may_have_acted(), "{error}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn generate_name_create_is_retried_only_if_rejected() {
    for (status, sent) in [(429, 2), (503, 2), (500, 1), (502, 1), (504, 1)] {
        let server = Server::start([Reply::later(status, 0)]).await;
        let created = soon(server.client().post().body(GENERATED).send()).await;
        assert_eq!((server.seen().len(), created.is_ok()), (sent, sent == 2), "{status}");
    }
}

#[tokio::test]
async fn post_to_unknown_subresource_is_not_repeated_after_502() {
    for (path, sent) in [
        ("/api/v1/namespaces/a/pods", 2),
        ("/api/v1/namespaces", 2),
        ("/apis/example.com/v1/widgets", 2),
        ("/api/v1/namespaces/a/pods/b/eviction", 2),
        ("/api/v1/namespaces/a/services/b/proxy/orders", 1),
        ("/api/v1/nodes/b/proxy/run", 1),
        ("/apis/example.com/v1/namespaces/a/widgets/b/restart", 1),
        ("/apis/example.com/v1/widgets/b/restart", 1),
    ] {
        let server = Server::start([Reply::later(502, 0)]).await;
        let mut config = server.config();
        config.server.push_str("/prefix");
        let request = RestClient::new(config).unwrap().post().abs_path([path]).body(r#"{"metadata":{"name":"c"}}"#);
        let outcome = soon(request.send()).await;
        assert_eq!((server.seen().len(), outcome.is_ok()), (sent, sent == 2), "{path}");
    }
}

#[tokio::test]
async fn write_to_a_proxy_is_not_repeated_after_502() {
    for (method, sent) in
        [(Method::GET, 2), (Method::PUT, 1), (Method::DELETE, 1), (Method::POST, 1), (Method::PATCH, 1)]
    {
        let server = Server::start([Reply::later(502, 0)]).await;
        let request = server.client().verb(method.clone()).abs_path(["/api/v1/namespaces/a/services/b/proxy/orders"]);
        let outcome = soon(request.send()).await;
        assert_eq!((server.seen().len(), outcome.is_ok()), (sent, sent == 2), "{method}");
    }
}

#[tokio::test]
async fn unsent_retry_keeps_the_doubt_about_a_write() {
    let server = Server::start([Reply::later(504, 0)]).await;
    let mut config = server.config();
    // The rate limiter admits only one request, because the time of the next permit does not fit into an `Instant`.
    (config.qps, config.burst) = (Some(f32::MIN_POSITIVE), Some(1));
    let client = RestClient::new(config).unwrap();
    let error = soon(client.put().send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Throttled(_)) && error.may_have_acted(), "{error}");
    assert_eq!(error.earlier.unwrap().status().unwrap().code, 504);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn derived_status_differs_from_server_status() {
    let server = Server::start([Reply::json(502, "bad gateway"), Reply::json(404, REFUSAL)]).await;
    let request = server.client().get();
    let [foreign, own] = [soon(request.send()).await, soon(request.send()).await].map(Result::unwrap_err);
    assert!(foreign.is_unexpected_server_error() && !own.is_unexpected_server_error(), "{foreign} {own}");
}

#[tokio::test]
async fn transport_error_names_its_request() {
    let server = Server::always(Reply::later(429, 0)).await;
    let error = soon(server.client().put().max_retries(0).abs_path(["/a/b"]).send()).await.unwrap_err();
    let line = error.request.as_ref().unwrap();
    assert_eq!((&*line.method, line.path()), ("PUT", "/a/b"));
    assert!(error.to_string().contains("PUT http://127.0.0.1"), "{error}");
}

#[tokio::test]
async fn unused_retry_after_reaches_the_caller() {
    let server = Server::always(Reply::later(429, 7)).await;
    let error = soon(server.client().post().max_retries(0).send()).await.unwrap_err();
    // The status must be in the source chain even if a wrapper hides the error itself.
    let source = error.source().and_then(|source| source.downcast_ref::<Status>()).unwrap();
    assert_eq!(source.details.as_ref().unwrap().retry_after_seconds, 7);
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
}

#[tokio::test]
async fn stream_body_is_sent_once() {
    let server = Server::always(Reply::later(429, 0)).await;
    let request = server.client().post().body_stream(futures_util::stream::iter([Ok("x".into())]));
    soon(request.send()).await.unwrap_err();
    assert_eq!(server.seen().len(), 1);
    let again = soon(request.send()).await.unwrap_err();
    assert!(matches!(again.kind, ErrorKind::InvalidRequest(_)), "{again}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_are_retried_after_lost_connections_unlike_writes() {
    let _clock = steady_clock();
    let server = Server::start([Reply::Hang, Reply::Hang]).await;
    server.client().get().send().await.unwrap();
    assert_eq!(server.seen().len(), 3);

    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let server = Server::always(Reply::Hang).await;
        let error = server.client().verb(method).body("x").send().await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error}");
        assert_eq!(server.seen().len(), 1);
    }

    let server = Server::always(Reply::Hang).await;
    let request = server.client().get().max_retries(2);
    request.send().await.unwrap_err();
    assert_eq!(server.seen().len(), 3);
    request.watch::<Value>().await.unwrap_err();
    assert_eq!(server.seen().len(), 6);
    request.stream().await.unwrap_err();
    assert_eq!(server.seen().len(), 7, "a stream is not retried");
}

#[tokio::test]
async fn refused_connection_is_returned_at_once() {
    let addr = closed_port().await;
    let client = RestClient::new(pintle_meta::ClientConfig::new(format!("http://{addr}"))).unwrap();
    let error = soon(client.get().send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Connect { refused: true, .. }), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains(&addr.to_string()) && shown.contains("refused"), "{shown}");
    assert!(error.is_connection_refused());
    let cause = error.cause::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn truncated_response_is_a_lost_connection() {
    let server = Server::always(Reply::json(200, "{\"a\":").end(End::Cut)).await;
    let error = soon(server.client().get().send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error}");
    assert!(error.to_string().contains("while reading the response"), "{error}");
}

#[tokio::test]
async fn too_large_response_is_rejected() {
    let server = Server::always(Reply::json(200, vec![b' '; 1000])).await;
    let request = server.client().get();
    soon(request.clone().max_body(1000).send()).await.unwrap();
    let error = soon(request.max_body(999).send()).await.unwrap_err();
    assert_eq!(error.cause(), Some(&ResponseTooLarge { limit: 999 }), "{error}");
    let client = RestClient::new(RestClientConfig { max_body: 10, ..server.config().into() }).unwrap();
    soon(client.get().send()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn request_can_be_sent_concurrently() {
    let _clock = steady_clock();
    let server = Server::always(Reply::later(500, 0)).await;
    let request = Arc::new(server.client().get().max_retries(9));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let request = request.clone();
        tasks.spawn(async move { request.send().await.unwrap_err() });
    }
    tasks.join_all().await;
    assert_eq!(server.seen().len(), 200, "each send counts its own retries");
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::start([Reply::later(429, 0), Reply::json(404, REFUSAL)]).await;
    let client = server.client();
    soon(client.get().send()).await.unwrap_err();
    for _ in 0..3 {
        soon(client.get().send()).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn every_caller_gets_its_own_response() {
    let server = Server::always(Reply::By(|seen, _| Reply::json(200, seen.uri.clone()))).await;
    let client = server.client();
    let answers = futures_util::future::join_all((0..40).map(|n| {
        let (request, path) = (client.get(), format!("/{n}"));
        async move { (request.abs_path([&path]).raw().await.unwrap(), path) }
    }));
    for (answer, path) in soon(answers).await {
        assert_eq!(answer, path);
    }
}

#[tokio::test]
async fn warnings_reach_handler_once_and_response() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);
    impl WarningHandler for Heard {
        fn warn(&self, warning: &Warning) {
            self.0.lock().unwrap().push(warning.text.clone());
        }
    }
    let warned =
        |status| Reply::json(status, "{}").header("warning", "299 - \"old\"").header("warning", "299 - \"older\"");
    let server = Server::start([warned(200), warned(400), warned(200), warned(200)]).await;
    let heard = Arc::new(Heard::default());
    let client =
        RestClient::new(RestClientConfig { warning_handler: heard.clone(), ..server.config().into() }).unwrap();
    let answer = soon(client.get().send()).await.unwrap();
    assert_eq!(answer.warnings().iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>(), ["old", "older"]);
    soon(client.get().send()).await.unwrap_err();
    soon(client.get().stream()).await.unwrap();
    assert_eq!(*heard.0.lock().unwrap(), ["old", "older"].repeat(3));
    soon(client.get().warning_handler(Arc::new(IgnoreWarnings)).send()).await.unwrap();
    assert_eq!(heard.0.lock().unwrap().len(), 6, "the request's handler replaces the client's");
}

#[tokio::test]
async fn request_credentials_replace_client_credentials() {
    let server = Server::start([]).await;
    let mut config = server.config();
    config.token = Some(Secret::new("mine"));
    let client = RestClient::new(config.clone()).unwrap();
    soon(client.get().send()).await.unwrap();
    soon(client.get().header("authorization", "Bearer own").send()).await.unwrap();
    config.token = None;
    config.basic = Some(pintle_meta::BasicAuth { username: "Aladdin".into(), password: Secret::new("open sesame") });
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    let sent: Vec<_> = server.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer mine", "Bearer own", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]);
}

#[tokio::test(start_paused = true)]
async fn read_on_dead_connection_is_retried_at_once() {
    // A paused clock does not advance while a blocking task is running, so the measured time must be zero. A request
    // that used a timer would therefore wait for the end of the blocking task.
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let still = tokio::task::spawn_blocking(move || is_done.recv_timeout(Duration::from_secs(10)));
    let server = Server::start([Reply::ok(), Reply::Hang]).await;
    let (client, started) = (server.client(), Instant::now());
    for _ in 0..2 {
        client.get().send().await.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
    drop(done);
    still.await.unwrap().unwrap_err();
}

/// No part of the first response has arrived, so a retry cannot deliver an event twice.
#[tokio::test]
async fn stream_or_watch_on_dead_connection_is_retried() {
    let server = Server::start([Reply::ok(), Reply::Hang, Reply::ok(), Reply::Hang]).await;
    let client = server.client();
    for _ in 0..2 {
        let mut stream = soon(client.get().stream()).await.unwrap();
        while let Some(chunk) = soon(stream.next()).await {
            chunk.unwrap();
        }
    }
    drop(soon(client.get().raw_watch()).await.unwrap());
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 1, 1, 2]);
}

/// The client cannot send this request again, because its body is a stream.
#[tokio::test]
async fn unrepeatable_request_with_401_renews_credentials_for_next() {
    let server = Server::start([Reply::ok(), Reply::json(401, "")]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one").unwrap();
    let mut config = server.config();
    config.token_file = Some(file.path().into());
    let client = RestClient::new(config).unwrap();
    soon(client.get().send()).await.unwrap();
    std::fs::write(file.path(), "two").unwrap();
    let once = client.post().body_stream(futures_util::stream::iter([Ok("x".into())]));
    let error = soon(once.send()).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401, "{error}");
    soon(client.get().send()).await.unwrap();
    let shown: Vec<_> = server.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(shown, ["Bearer one", "Bearer one", "Bearer two"]);
}

#[tokio::test]
async fn throttling_names_client_or_server() {
    let status = r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":10}}"#;
    let script = [
        Reply::json(429, "Too many requests")
            .header("content-type", "text/plain")
            .header("retry-after", "7")
            .header("x-kubernetes-pf-flowschema-uid", "schema")
            .header("x-kubernetes-pf-prioritylevel-uid", "level"),
        Reply::json(429, status),
        Reply::json(503, ""),
    ];
    let server = Server::start(script).await;
    let client = server.client();
    let flow = Flow { flow_schema: "schema".into(), priority_level: "level".into() };
    for (is_throttled, seconds, flow) in [(true, Some(7), Some(flow)), (true, Some(10), None), (false, None, None)] {
        let error = soon(client.get().max_retries(0).send()).await.unwrap_err();
        let found = (error.is_too_many_requests(), error.retry_after, &error.response.as_ref().unwrap().flow);
        assert_eq!(found, (is_throttled, seconds.map(Duration::from_secs), &flow), "{error}");
    }

    let mut config = server.config();
    (config.qps, config.burst) = (Some(f32::MIN_POSITIVE), Some(1));
    let slow = RestClient::new(config).unwrap();
    soon(slow.get().send()).await.unwrap();
    let error = soon(slow.get().send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Throttled(_)) && !error.is_too_many_requests(), "{error}");
    assert_eq!(error.cause(), Some(&ThrottleError::Never));
}

#[tokio::test]
async fn status_error_carries_the_audit_id() {
    let long = Reply::json(404, "{}").header("audit-id", "x".repeat(300));
    let script = [Reply::json(404, "{}").header("audit-id", "2f7d-1"), Reply::json(404, "{}"), long];
    let server = Server::start(script).await;
    for expected in [Some("2f7d-1"), None, None] {
        let error = soon(server.client().get().send()).await.unwrap_err();
        assert_eq!(error.response.unwrap().audit_id.as_deref(), expected);
    }
}

/// Each request waits for the `Retry-After` of its response, and does not delay other requests of the client.
#[tokio::test]
async fn hanging_request_blocks_no_other_after_429() {
    let refusal = Reply::json(429, "Too many requests").header("content-type", "text/plain");
    let refusal = refusal.header("x-kubernetes-pf-flowschema-uid", "schema");
    let answer = |seen: &Seen, _: usize| if seen.uri == "/hangs" { Reply::Silence } else { Reply::ok() };
    let server = Server::start_with([refusal], Reply::By(answer), None).await;
    let client = server.client();
    soon(client.get().send()).await.unwrap_err();
    let hanging = client.get().abs_path(["/hangs"]);
    let hanging = tokio::spawn(async move { hanging.send().await });
    soon(until(|| server.seen().len() == 2)).await;
    for _ in 0..3 {
        soon(client.get().send()).await.unwrap();
    }
    assert!(!hanging.is_finished());
    hanging.abort();
}
