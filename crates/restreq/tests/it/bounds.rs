//! Tests of deadlines and limits that a typical server never reaches.

use std::io::{Read, Write};
use std::time::Duration;

use pintle_meta::{ApiResource, ClientConfig, DynamicObject, ErrorKind, ListOptions, Scope};
use pintle_restreq::{Api, DeadlineExceeded, Phase, RestClient, RestClientConfig, Timeouts};
use tokio::time::Instant;

use crate::support::{Reply, Seen, Server, soon, steady_clock};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn headers_deadline_starts_when_a_reused_connection_sends() {
    let _clock = steady_clock();
    let server = Server::start_with([Reply::ok()], Reply::Silence, None).await;
    let timeouts = Timeouts { headers: Some(2 * SECOND), ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
    client.get().send().await.unwrap();
    let started = Instant::now();
    let error = client.get().send().await.unwrap_err();
    assert_eq!(error.cause(), Some(&DeadlineExceeded { phase: Phase::Headers, after: 2 * SECOND }), "{error}");
    assert!(started.elapsed() < 5 * SECOND, "{error} took {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn headers_deadline_holds_without_a_connect_deadline() {
    let _clock = steady_clock();
    let server = Server::always(Reply::Silence).await;
    let timeouts = Timeouts { connect: Duration::MAX, headers: Some(2 * SECOND), ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
    let sent = tokio::time::timeout(600 * SECOND, client.get().send()).await;
    assert!(sent.is_ok(), "no deadline within 10 minutes");
}

/// Starts a server that sends an endless list, but stops after 15 s.
fn flood() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"kind\":\"PodList\",\"items\":[{}")
            .unwrap();
        let items = ",{}".repeat(20_000);
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(15) && stream.write_all(items.as_bytes()).is_ok() {}
    });
    addr
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline_of_a_list_holds_while_data_arrives() {
    let client = RestClient::new(ClientConfig::new(format!("http://{}", flood()))).unwrap();
    let mut list = client.get().timeout(SECOND).list().await.unwrap();
    let started = Instant::now();
    let mut items = 0;
    let end = loop {
        match list.next().await {
            Some(Ok(_)) => items += 1,
            Some(Err(error)) => break format!("{error}"),
            None => break "the end".into(),
        }
        if started.elapsed() > 8 * SECOND {
            break "no deadline".into();
        }
    };
    assert!(started.elapsed() < 4 * SECOND, "{items} items in {:?}: {end}", started.elapsed());
}

#[tokio::test]
async fn text_of_the_server_forges_no_log_line() {
    let text = "no\n2026-11-28 ERROR forged\u{1b}[2J";
    let reply = Reply::json(403, text).header("content-type", "text/plain");
    let server = Server::always(reply).await;
    let error = soon(server.client().get().send()).await.unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn unguarded_write_is_sent_once_on_a_reused_connection() {
    let _clock = steady_clock();
    for method in [http::Method::POST, http::Method::PUT, http::Method::PATCH, http::Method::DELETE] {
        let answer = |seen: &Seen, _: usize| if seen.uri == "/hangs" { Reply::Hang } else { Reply::ok() };
        let server = Server::start_with([], Reply::By(answer), None).await;
        let client = server.client();
        client.get().send().await.unwrap();
        client.verb(method.clone()).abs_path(["/hangs"]).body("x").send().await.unwrap_err();
        assert_eq!(server.seen().iter().filter(|seen| seen.uri == "/hangs").count(), 1, "{method}");
    }
}

#[tokio::test]
async fn pages_end_if_the_server_repeats_an_earlier_token() {
    let page = |seen: &Seen, _: usize| {
        let next = if seen.uri.contains("continue=one") { "two" } else { "one" };
        Reply::json(
            200,
            format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":[]}}"#),
        )
    };
    let server = Server::start_with([], Reply::By(page), None).await;
    let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let pods: Api<DynamicObject> = Api::dynamic(server.client(), resource, None).unwrap();
    let mut pages = pods.pages(&ListOptions::default());
    for _ in 0..20 {
        if soon(pages.next()).await.unwrap().is_err() {
            return;
        }
    }
    panic!("20 pages: {:?}", server.seen().iter().map(|seen| seen.uri.clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn server_that_went_away_is_reported_at_once() {
    let server = Server::start([]).await;
    let client = server.client();
    soon(client.get().send()).await.unwrap();
    drop(server);
    let started = std::time::Instant::now();
    let requests = (0..5).map(|_| {
        let request = client.get();
        tokio::spawn(async move { request.send().await })
    });
    for sent in soon(futures_util::future::join_all(requests)).await {
        let error = sent.unwrap().unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Connect { refused: true, .. }), "{error}");
    }
    assert!(started.elapsed() < 5 * SECOND);
}
