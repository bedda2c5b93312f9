//! Clients that do not do their part are left after a while; time is paused, so that it passes at once where all wait.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{CONFIG_MAPS, call};

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn connect(server: &ApiServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("the server listens")
}

/// Reads until the server closes the connection, or for a quarter of an hour.
async fn to_end(socket: &mut TcpStream) -> (String, Duration) {
    let (began, mut text) = (Instant::now(), Vec::new());
    let read = tokio::time::timeout(Duration::from_secs(900), socket.read_to_end(&mut text)).await;
    // A close in the middle of what was sent is a reset.
    assert!(read.is_ok(), "the connection is open after {:?}: {}", began.elapsed(), String::from_utf8_lossy(&text));
    (String::from_utf8_lossy(&text).into_owned(), began.elapsed())
}

fn seconds(range: std::ops::Range<u64>) -> std::ops::Range<Duration> {
    Duration::from_secs(range.start)..Duration::from_secs(range.end)
}

#[tokio::test(start_paused = true)]
async fn who_sends_nothing_is_left() {
    let server = server().await;
    let (text, took) = to_end(&mut connect(&server).await).await;
    assert!(text.is_empty() && seconds(32..34).contains(&took), "{took:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn who_sends_a_head_byte_by_byte_is_left() {
    let server = server().await;
    let (mut reader, mut writer) = connect(&server).await.into_split();
    let began = Instant::now();
    let sending = tokio::spawn(async move {
        for byte in std::iter::repeat(b"GET /version HTTP/1.1\r\nHost: a\r\nX-A: b").flatten() {
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let mut text = Vec::new();
    let _ = reader.read_to_end(&mut text).await;
    assert!(seconds(32..36).contains(&began.elapsed()), "{:?}", began.elapsed());
    sending.abort();
}

#[tokio::test(start_paused = true)]
async fn who_sends_nothing_more_is_left() {
    let server = server().await;
    let mut socket = connect(&server).await;
    for _ in 0..2 {
        socket.write_all(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("a request");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") && !answer.ends_with(b"}") {
            socket.read_buf(&mut answer).await.expect("an answer");
        }
        // Between requests there is more time than within one.
        tokio::time::sleep(Duration::from_secs(80)).await;
    }
    let (text, took) = to_end(&mut socket).await;
    assert!(text.is_empty() && seconds(9..12).contains(&took), "{took:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_waited_for_as_long_as_the_request_may_take() {
    let server = server().await;
    for (query, range) in [("", seconds(60..68)), ("?timeout=5s", seconds(5..13)), ("?timeout=5m", seconds(60..68))] {
        let (mut reader, mut writer) = connect(&server).await.into_split();
        let head = format!("POST {CONFIG_MAPS}{query} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        writer.write_all(head.as_bytes()).await.expect("a head");
        let began = Instant::now();
        let sending = tokio::spawn(async move {
            while writer.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut answer = [0; 4096];
        let length = reader.read(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(range.contains(&began.elapsed()), "{query}: {:?}", began.elapsed());
        assert!(answer.starts_with("HTTP/1.1 504 "), "{query}: {answer}");
        assert!(
            answer.contains(r#""message":"Timeout: request did not complete within the allotted timeout""#),
            "{answer}"
        );
        // And the connection does not outlive it.
        let ended = tokio::time::timeout(Duration::from_secs(100), sending).await;
        assert!(ended.is_ok(), "{query}: the connection is open after {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_an_answer_is_left() {
    let server = server().await;
    const OBJECTS: usize = 16;
    let filler = "x".repeat(1_000_000);
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("a{number}")}, "data": {"k": filler}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    }
    let mut socket = connect(&server).await;
    let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("a request");
    tokio::time::sleep(Duration::from_secs(70)).await;
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes).await;
    assert!(bytes.len() < OBJECTS * filler.len(), "the rest was not kept for it: {}", bytes.len());
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_no_request_that_takes_too_long() {
    let server = server().await;
    let mut watch = crate::support::Watch::start(&server, "timeout=1s&timeoutSeconds=600").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").expect("a config map");
    assert!(watch.told().await.starts_with("ADDED a "));
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_is_silent_for_long_is_told_to_go() {
    let server = server().await;
    let (sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(connect(&server).await),
    )
    .await
    .expect("HTTP/2");
    let began = Instant::now();
    let ended = tokio::spawn(connection);
    let mut sender: hyper::client::conn::http2::SendRequest<http_body_util::Full<bytes::Bytes>> = sender;
    let request = http::Request::get(format!("{}/version", server.url())).body(Default::default()).expect("a request");
    assert_eq!(sender.send_request(request).await.expect("an answer").status(), 200);
    ended.await.expect("the connection's task").expect("an end in good order");
    assert!(seconds(89..95).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_connections_that_do_nothing_hold_nobody_up() {
    let server = server().await;
    let mut idle = Vec::new();
    for number in 0..100 {
        let mut socket = connect(&server).await;
        if number % 2 == 0 {
            let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{{");
            socket.write_all(head.as_bytes()).await.expect("a head");
        }
        idle.push(socket);
    }
    assert_eq!(crate::support::get(&server, "/readyz").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_answer_nobody_reads_is_reset_and_the_others_go_on() {
    let server = server().await;
    let filler = "x".repeat(1_000_000);
    let object = json!({"metadata": {"name": "large"}, "data": {"k": filler}});
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(executor)
        // What is not read of one answer leaves room for others.
        .initial_stream_window_size(16_384)
        .initial_connection_window_size(1 << 20)
        .handshake(hyper_util::rt::TokioIo::new(connect(&server).await))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let get = |path: &str| {
        let body = http_body_util::Empty::<bytes::Bytes>::new();
        http::Request::get(format!("{}{path}", server.url())).body(body).expect("a request")
    };
    let unread = sender.send_request(get(&format!("{CONFIG_MAPS}?timeout=5s"))).await.expect("an answer");
    let mut watch =
        sender.send_request(get(&format!("{CONFIG_MAPS}?watch=1&timeout=5s"))).await.expect("a watch").into_body();
    assert_eq!(unread.status(), 200);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let read = http_body_util::BodyExt::collect(unread.into_body()).await;
    assert!(read.is_err(), "it was reset: what is left of it is kept for nobody");
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").expect("a config map");
    let event = http_body_util::BodyExt::frame(&mut watch).await;
    assert!(event.is_some_and(|event| event.is_ok()), "a watch is not overdue");
    let other = sender.send_request(get("/readyz")).await.expect("an answer");
    assert_eq!(other.status(), 200);
}
