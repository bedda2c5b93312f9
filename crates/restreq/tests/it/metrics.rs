//! Tests the client's metrics.

use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::{InMemoryProvider, MetricKind};
use pintle_restreq::{RestClient, RestClientConfig, Warning, WarningHandler};
use pintle_testing::PanickingProvider;
use serde_json::Value;
use tokio::time::Instant;

use crate::support::{End, Reply, Server, closed_port, soon, steady_clock};

fn client(server: &Server, memory: &InMemoryProvider) -> RestClient {
    RestClient::new(RestClientConfig { metrics: Some(Arc::new(memory.clone())), ..server.config().into() }).unwrap()
}

fn count(memory: &InMemoryProvider, name: &str, code: &str, method: &str) -> Option<f64> {
    let verb = if name == "requests_total" { "method" } else { "verb" };
    memory.value(&format!("rest_client_{name}"), &[("code", code), (verb, method)])
}

#[tokio::test]
async fn metrics_have_client_go_names_and_end_with_client() {
    const BYTES: [f64; 11] =
        [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];
    const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
    let server = Server::start([Reply::later(429, 0)]).await;
    let memory = InMemoryProvider::new();
    let client = client(&server, &memory);
    assert!(memory.samples().is_empty());
    soon(client.get().send()).await.unwrap();
    let host = server.addr.to_string();
    let found: Vec<_> = memory
        .samples()
        .into_iter()
        .map(|sample| (sample.metric.name, sample.metric.kind, sample.metric.labels, sample.labels))
        .collect();
    let expected = [
        ("rate_limiter_duration_seconds", MetricKind::Histogram(&BUCKETS), &["verb", "host"][..], &["GET"][..]),
        ("request_duration_seconds", MetricKind::Histogram(&BUCKETS), &["verb", "host"], &["GET"]),
        ("request_retries_total", MetricKind::Counter, &["code", "verb", "host"], &["200", "GET"]),
        ("request_size_bytes", MetricKind::Histogram(&BYTES), &["verb", "host"], &["GET"]),
        ("requests_total", MetricKind::Counter, &["code", "method", "host"], &["200", "GET"]),
        ("requests_total", MetricKind::Counter, &["code", "method", "host"], &["429", "GET"]),
        ("response_size_bytes", MetricKind::Histogram(&BYTES), &["verb", "host"], &["GET"]),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((name, kind, labels, values), expected) in found.iter().zip(expected) {
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        let of = [expected.3, &[&host]].concat();
        assert_eq!(
            (*name, *kind, *labels, &values),
            (&*format!("rest_client_{}", expected.0), expected.1, expected.2, &of)
        );
    }
    let other = client.clone();
    drop(client);
    assert_eq!(memory.samples().len(), found.len());
    drop(other);
    assert!(memory.samples().is_empty());
}

#[tokio::test]
async fn attempts_are_counted_by_outcome_and_as_retries() {
    let server = Server::start([Reply::later(503, 0), Reply::later(429, 0), Reply::json(404, "{}")]).await;
    let memory = InMemoryProvider::new();
    let client = client(&server, &memory);
    soon(client.put().body("x").send()).await.unwrap_err();
    soon(client.post().body("x").send()).await.unwrap();
    for (code, method, requests, retries) in [
        ("503", "PUT", Some(1.0), None),
        ("429", "PUT", Some(1.0), Some(1.0)),
        ("404", "PUT", Some(1.0), Some(1.0)),
        ("200", "POST", Some(1.0), None),
        ("200", "GET", None, None),
    ] {
        assert_eq!(count(&memory, "requests_total", code, method), requests, "{code} {method}");
        assert_eq!(count(&memory, "request_retries_total", code, method), retries, "{code} {method}");
    }
}

#[tokio::test]
async fn body_sizes_are_recorded_if_known() {
    let server = Server::start([Reply::later(429, 0), Reply::json(200, "[1234]"), Reply::json(404, "{}")]).await;
    let memory = InMemoryProvider::new();
    let client = client(&server, &memory);
    soon(client.put().body("12345").send()).await.unwrap();
    soon(client.get().send()).await.unwrap_err();
    let chunks = futures_util::stream::iter([Ok("x".into())]);
    soon(client.post().body_stream(chunks).send()).await.unwrap();
    let found = |name: &str, verb: &str| {
        let found = memory.distribution(&format!("rest_client_{name}_size_bytes"), &[("verb", verb)]);
        found.map(|found| (found.count(), found.sum()))
    };
    let sizes = |verb| (found("request", verb), found("response", verb));
    assert_eq!(sizes("PUT"), (Some((2, 10.0)), Some((1, 6.0))), "the bodies of each attempt and of the response");
    assert_eq!(sizes("GET"), (Some((1, 0.0)), None), "a rejection is not a success");
    assert_eq!(sizes("POST"), (None, Some((1, 2.0))), "the size of a stream is unknown");
}

#[test]
fn dashboard_uses_existing_metric_names() {
    let dashboard = include_str!("../../../../docs/grafana/rest-client.json");
    let parsed: Value = serde_json::from_str(dashboard).unwrap();
    assert_eq!(parsed["panels"].as_array().unwrap().len(), 12);
    let known = concat!(include_str!("../../src/metrics.rs"), include_str!("../../../transport/src/metrics.rs"));
    let words = dashboard.split(|c: char| !c.is_alphanumeric() && c != '_');
    let shown: std::collections::BTreeSet<_> =
        words.filter(|word| word.starts_with("rest_client_")).map(|word| word.trim_end_matches("_bucket")).collect();
    for series in &shown {
        assert!(known.contains(&format!("\"{series}\"")), "{series}");
    }
    assert_eq!(shown.len(), known.matches("\"rest_client_").count(), "each metric has its panel: {shown:?}");
}

#[tokio::test]
async fn dns_lookup_of_host_name_is_measured() {
    const LOOKED_UP: &str = "rest_client_dns_resolution_duration_seconds";
    let server = Server::start([]).await;
    let memory = InMemoryProvider::new();
    soon(client(&server, &memory).get().send()).await.unwrap();
    assert_eq!(memory.distribution(LOOKED_UP, &[]), None, "an address is not looked up");
    let mut config = server.config();
    config.server = format!("http://localhost:{}", server.addr.port());
    let client =
        RestClient::new(RestClientConfig { metrics: Some(Arc::new(memory.clone())), ..config.into() }).unwrap();
    for _ in 0..2 {
        soon(client.get().send()).await.unwrap();
    }
    let found = memory.distribution(LOOKED_UP, &[("host", "localhost")]).unwrap();
    assert_eq!(found.count(), 1, "the second request reuses the connection");
}

#[tokio::test]
async fn missing_response_is_counted_as_error() {
    let memory = InMemoryProvider::new();
    let mut config = Server::start([]).await.config();
    config.server = format!("http://{}", closed_port().await);
    let client =
        RestClient::new(RestClientConfig { metrics: Some(Arc::new(memory.clone())), ..config.into() }).unwrap();
    soon(client.get().send()).await.unwrap_err();
    assert_eq!(count(&memory, "requests_total", "<error>", "GET"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn request_duration_spans_call_to_end() {
    let _clock = steady_clock();
    let server = Server::start([Reply::later(429, 3), Reply::ok(), Reply::Silence]).await;
    let memory = InMemoryProvider::new();
    let client = client(&server, &memory);
    let check = |verb, least, start: Instant| {
        let found = memory.distribution("rest_client_request_duration_seconds", &[("verb", verb)]).unwrap();
        let most = start.elapsed().as_secs_f64();
        assert!(found.count() == 1 && (least..=most).contains(&found.sum()), "{verb}: {found:?} within {most}");
    };
    let start = Instant::now();
    client.get().send().await.unwrap();
    check("GET", 3.0, start);
    let start = Instant::now();
    assert!(tokio::time::timeout(Duration::from_secs(5), client.put().send()).await.is_err());
    check("PUT", 5.0, start);
}

#[tokio::test]
async fn streams_and_watches_are_counted_but_not_timed() {
    let server = Server::start([]).await;
    let memory = InMemoryProvider::new();
    let client = client(&server, &memory);
    drop(soon(client.get().stream()).await.unwrap());
    drop(soon(client.get().watch::<Value>()).await.unwrap());
    assert_eq!(count(&memory, "requests_total", "200", "GET"), Some(2.0));
    assert_eq!(memory.distribution("rest_client_request_duration_seconds", &[]), None);
}

#[tokio::test(start_paused = true)]
async fn rate_limiter_waits_are_measured() {
    let _clock = steady_clock();
    let server = Server::start([]).await;
    let memory = InMemoryProvider::new();
    let mut config = server.config();
    // With a limit of one request per 100 s, other delays are negligible.
    (config.qps, config.burst) = (Some(0.01), Some(1));
    let start = Instant::now();
    let client =
        RestClient::new(RestClientConfig { metrics: Some(Arc::new(memory.clone())), ..config.into() }).unwrap();
    for _ in 0..3 {
        client.get().send().await.unwrap();
    }
    let found = memory.distribution("rest_client_rate_limiter_duration_seconds", &[("verb", "GET")]).unwrap();
    let most = start.elapsed().as_secs_f64();
    assert!(found.count() == 3 && (100.0..=most).contains(&found.sum()), "{found:?} within {most}");
}

fn with_panicking_metrics(server: &Server) -> RestClientConfig {
    RestClientConfig { metrics: Some(Arc::new(PanickingProvider)), ..server.config().into() }
}

#[tokio::test]
async fn panicking_metrics_do_not_fail_requests() {
    let server = Server::start([
        Reply::later(429, 0),
        Reply::json(201, r#"{"a":1}"#),
        Reply::json(404, "{}"),
        Reply::json(200, r#"{"kind":"PodList","items":[{}]}"#),
        Reply::watch(&[r#"{"type":"ADDED","object":{}}"#], End::Proper),
        Reply::Silence,
    ])
    .await;
    let client = RestClient::new(with_panicking_metrics(&server)).unwrap();
    assert!(soon(client.post().body("x").send()).await.unwrap().was_created());
    assert_eq!(soon(client.get().send()).await.unwrap_err().status().unwrap().code, 404);
    let mut list = soon(client.get().list()).await.unwrap();
    assert!(soon(list.next()).await.unwrap().is_ok());
    let mut watch = soon(client.get().watch::<Value>()).await.unwrap();
    assert!(soon(watch.next()).await.unwrap().is_ok());
    // Cancelling a request also calls the panicking metrics provider.
    let request = client.get();
    assert!(tokio::time::timeout(Duration::from_millis(1), request.send()).await.is_err());
}

#[tokio::test]
async fn metrics_panic_during_unwinding_does_not_abort() {
    struct Bad;
    impl WarningHandler for Bad {
        fn warn(&self, _: &Warning) {
            panic!("the handler fell over")
        }
    }
    let server = Server::start([Reply::ok().header("warning", r#"299 - "old""#)]).await;
    let config = RestClientConfig { warning_handler: Arc::new(Bad), ..with_panicking_metrics(&server) };
    let client = RestClient::new(config).unwrap();
    let panic = soon(tokio::spawn(async move { client.get().send().await })).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"the handler fell over"));
}
