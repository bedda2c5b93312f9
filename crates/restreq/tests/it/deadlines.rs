//! Tests of the timeouts for the phases of a request, with a paused clock. The clock only advances when no task can
//! make progress.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use pintle_meta::{ApiError, ApiResource, DynamicObject, ErrorKind, Scope, WatchOptions};
use pintle_ratelimit::ItemBackoffConfig;
use pintle_restreq::{Api, DeadlineExceeded, Http2Config, Phase, RestClient, RestClientConfig, Timeouts};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::{End, Reply, Server, soon, steady_clock};
use crate::tls::{Authority, settings, trusting};

const SECOND: Duration = Duration::from_secs(1);

fn phase(error: ApiError) -> (Phase, Duration) {
    let Some(DeadlineExceeded { phase, after }) = error.cause() else { panic!("{error}") };
    assert!(["GET http", "POST http"].iter().any(|start| error.to_string().starts_with(start)), "{error}");
    let is_unsent = matches!(error.kind, ErrorKind::Connect { refused: false, .. });
    assert_eq!(is_unsent, *phase == Phase::Connect);
    (*phase, *after)
}

#[tokio::test(start_paused = true)]
async fn request_timeout_bounds_the_whole_exchange() {
    let _clock = steady_clock();
    for reply in [Reply::Silence, Reply::json(200, "{").end(End::Stall)] {
        let server = Server::always(reply).await;
        let error = server.client().get().timeout(5 * SECOND).send().await.unwrap_err();
        assert_eq!(phase(error), (Phase::Total, 5 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn configured_timeout_applies_to_each_request() {
    let _clock = steady_clock();
    let server = Server::always(Reply::Silence).await;
    let mut config = server.config();
    config.timeout = Some(2 * SECOND);
    let error = RestClient::new(config).unwrap().get().send().await.unwrap_err();
    assert_eq!(phase(error), (Phase::Total, 2 * SECOND));
    assert_eq!(server.seen()[0].uri, "/?timeout=2s");
}

#[tokio::test(start_paused = true)]
async fn response_headers_and_pauses_have_deadlines() {
    let _clock = steady_clock();
    for (reply, expected) in [
        (Reply::Silence, (Phase::Headers, 7 * SECOND)),
        (Reply::json(200, "{").end(End::Stall), (Phase::Idle, 3 * SECOND)),
    ] {
        let server = Server::always(reply).await;
        let timeouts = Timeouts { headers: Some(7 * SECOND), idle: Some(3 * SECOND), ..Timeouts::default() };
        let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
        assert_eq!(phase(client.get().send().await.unwrap_err()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn default_deadlines_end_every_wait() {
    let _clock = steady_clock();
    for reply in [Reply::Silence, Reply::json(200, "{").end(End::Stall), Reply::json(500, "{").end(End::Stall)] {
        let server = Server::always(reply).await;
        let waited = tokio::time::timeout(600 * SECOND, server.client().get().send()).await;
        waited.expect("the test timed out").unwrap_err();
    }
}

/// Checks the header timeout of uploads, which is set to 7 s. An upload of 40 s must succeed. An upload that stalls
/// must end `limit` after its last chunk.
pub(crate) async fn check_header_timeout_of_uploads(config: RestClientConfig, limit: Duration) {
    let timeouts = Timeouts { headers: Some(7 * SECOND), ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..config }).unwrap();
    let chunks = |count: usize| {
        stream::iter(0..count).then(|_| async {
            tokio::time::sleep(5 * SECOND).await;
            Ok(Bytes::from_static(b"a"))
        })
    };
    let started = Instant::now();
    client.post().body_stream(chunks(8)).send().await.unwrap();
    assert!(started.elapsed() >= 40 * SECOND, "{:?}", started.elapsed());

    let started = Instant::now();
    let stalled = client.post().body_stream(chunks(1).chain(stream::pending()));
    assert_eq!(phase(stalled.send().await.unwrap_err()), (Phase::Headers, 7 * SECOND));
    let waited = started.elapsed() - 5 * SECOND;
    assert!(waited >= limit && waited < limit + SECOND, "{waited:?} after the last chunk");
}

#[tokio::test(start_paused = true)]
async fn header_timeout_runs_from_the_last_sent_chunk() {
    let _clock = steady_clock();
    let server = Server::always(Reply::ok()).await;
    check_header_timeout_of_uploads(server.config().into(), 7 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn connecting_has_a_deadline() {
    let _clock = steady_clock();
    // The server accepts connections, but never completes the TLS handshake.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let mut config = pintle_meta::ClientConfig::new(url);
    config.tls.insecure_skip_verify = true;
    let timeouts = Timeouts { connect: 4 * SECOND, ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..config.into() }).unwrap();
    assert_eq!(phase(client.get().send().await.unwrap_err()), (Phase::Connect, 4 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn retry_wait_beyond_the_deadline_is_not_started() {
    let _clock = steady_clock();
    let server = Server::always(Reply::later(429, 30)).await;
    let started = Instant::now();
    let error = server.client().get().timeout(10 * SECOND).send().await.unwrap_err();
    assert!(error.is_too_many_requests());
    assert!(started.elapsed() < 10 * SECOND);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_wait_for_retry_after() {
    let _clock = steady_clock();
    let server = Server::start([Reply::later(429, 3), Reply::later(503, 4)]).await;
    let started = Instant::now();
    server.client().post().send().await.unwrap();
    assert!(started.elapsed() >= 7 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn backoff_delays_all_requests_of_a_client() {
    let _clock = steady_clock();
    let server = Server::start([Reply::json(500, "{}"), Reply::json(503, "{}"), Reply::ok(), Reply::ok()]).await;
    let backoff = Some(ItemBackoffConfig { base: 20 * SECOND, cap: 60 * SECOND, ..ItemBackoffConfig::default() });
    let client = RestClient::new(RestClientConfig { backoff, ..server.config().into() }).unwrap();
    let started = Instant::now();
    client.get().send().await.unwrap_err();
    // An unthrottled request does not wait for the client's backoff, but its response still changes the backoff.
    client.put().unthrottled().send().await.unwrap_err();
    assert!(started.elapsed() < 20 * SECOND, "{:?}", started.elapsed());
    client.post().send().await.unwrap();
    let waited = started.elapsed();
    assert!(waited >= 40 * SECOND, "{waited:?}");
    client.get().send().await.unwrap();
    assert!(started.elapsed() < waited + 20 * SECOND, "the backoff is over: {:?}", started.elapsed());
    // A request waits for the client's backoff until its deadline.
    let server = Server::always(Reply::json(500, "{}")).await;
    let client = RestClient::new(RestClientConfig { backoff, ..server.config().into() }).unwrap();
    client.get().send().await.unwrap_err();
    let error = client.get().timeout(5 * SECOND).send().await.unwrap_err();
    assert_eq!(phase(error), (Phase::Total, 5 * SECOND));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_waits_without_deadline_total_one_minute() {
    let _clock = steady_clock();
    for (seconds, attempts) in [(60, 2), (25, 3)] {
        let server = Server::always(Reply::later(429, seconds)).await;
        let started = Instant::now();
        let error = server.client().get().raw_watch().await.unwrap_err();
        assert!(error.is_too_many_requests());
        assert!(started.elapsed() < 61 * SECOND, "{:?}", started.elapsed());
        assert_eq!(server.seen().len(), attempts);
        server.client().get().timeout(200 * SECOND).send().await.unwrap_err();
        assert!(server.seen().len() > 2 * attempts, "with a deadline, the request waits until then");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_failure_body_does_not_hide_the_failure() {
    let _clock = steady_clock();
    let server = Server::always(Reply::json(500, "{").end(End::Stall)).await;
    let timeouts = Timeouts { idle: None, ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
    for mode in ["watch", "stream", "send"] {
        let request = client.get();
        let failure = async {
            match mode {
                "watch" => request.raw_watch().await.map(drop),
                "stream" => request.stream().await.map(drop),
                _ => request.send().await.map(drop),
            }
        };
        let error = soon(failure).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Status(_)), "{mode}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_unthrottled_requests_skip_the_rate_limit() {
    let _clock = steady_clock();
    let server = Server::always(Reply::ok()).await;
    let mut config = server.config();
    (config.qps, config.burst) = (Some(0.001), Some(1));
    let client = RestClient::new(config).unwrap();
    client.get().send().await.unwrap();
    let started = Instant::now();
    client.get().unthrottled().send().await.unwrap();
    assert!(started.elapsed() < 500 * SECOND);
    client.get().send().await.unwrap();
    assert!(started.elapsed() >= 999 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn dropped_request_leaves_no_task() {
    let _clock = steady_clock();
    let server = Server::start([Reply::Silence]).await;
    let client = server.client();
    assert!(tokio::time::timeout(10 * SECOND, client.get().send()).await.is_err());
    client.get().send().await.unwrap();
    assert_eq!(server.connections(), 2, "an HTTP/1.1 connection closes with its cancelled request");
}

#[tokio::test]
async fn very_long_deadline_does_not_overflow() {
    let frames = [r#"{"type":"ADDED","object":{}}"#];
    let server = Server::start([
        Reply::later(429, 0),
        Reply::ok(),
        Reply::json(200, r#"{"items":[{}]}"#),
        Reply::watch(&frames, End::Proper),
        Reply::watch(&frames, End::Proper),
    ])
    .await;
    const MAX: Duration = Duration::MAX;
    let timeouts = Timeouts { connect: MAX, headers: Some(MAX), idle: Some(MAX), total: Some(MAX) };
    let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
    soon(client.put().body("x").timeout(MAX).idle_timeout(MAX).send()).await.unwrap();
    let mut list = soon(client.get().list()).await.unwrap();
    while let Some(part) = soon(list.next()).await {
        part.unwrap();
    }
    let mut watch = soon(client.get().idle_timeout(MAX).watch::<Value>()).await.unwrap();
    assert!(soon(watch.next()).await.unwrap().is_ok());

    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let pods: Api<DynamicObject> = Api::dynamic(client, pods, None).unwrap();
    let forever = WatchOptions { timeout: Some(MAX), ..WatchOptions::default() };
    let mut events = soon(pods.watch(&forever)).await.unwrap();
    assert!(soon(events.try_next()).await.unwrap().is_some());
    let asked = &server.seen()[4].uri;
    assert!(asked.contains("timeoutSeconds=2147483647"), "the server must be able to parse the timeout: {asked}");
}

#[tokio::test(start_paused = true)]
async fn very_long_ping_interval_does_not_overflow() {
    let _clock = steady_clock();
    let authority = Authority::new();
    for (ping_after, ping_timeout) in [(Duration::MAX, SECOND), (SECOND, Duration::MAX)] {
        let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
        let server = Server::start_with([], Reply::ok(), Some(tls)).await;
        let http2 = Http2Config { ping_after: Some(ping_after), ping_timeout, ..Http2Config::default() };
        let client = RestClient::new(RestClientConfig { http2, ..trusting(&server, &authority).into() }).unwrap();
        for _ in 0..2 {
            client.get().max_retries(0).send().await.unwrap();
            tokio::time::sleep(10 * SECOND).await;
        }
        assert_eq!(server.connections(), 1, "{ping_after:?} {ping_timeout:?}");
    }
}

#[tokio::test]
async fn request_outside_a_runtime_fails_without_blocking_others() {
    let server = Server::start([]).await;
    let client = server.client();
    let request = client.get();
    let outside = std::thread::spawn(move || request.stream().now_or_never().map(|sent| sent.map(drop))).join();
    let error = outside.unwrap().unwrap().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Connect { refused: false, .. }), "{error:?}");
    soon(client.get().stream()).await.unwrap();
}
