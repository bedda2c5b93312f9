//! Tests of timeouts for idle and slow clients. The tokio clock is paused, so the tests do not wait in real time.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;

use crate::support::{CONFIG_MAPS, PATIENCE, call};

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn connect(server: &ApiServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("the server listens")
}

async fn to_end(socket: &mut TcpStream) -> (String, Duration) {
    let (began, mut text) = (Instant::now(), Vec::new());
    let read = tokio::time::timeout(Duration::from_secs(900), socket.read_to_end(&mut text)).await;
    // The server closes the connection before it has read the whole request, so the read may fail with a connection
    // reset.
    assert!(read.is_ok(), "the connection is open after {:?}: {}", began.elapsed(), String::from_utf8_lossy(&text));
    (String::from_utf8_lossy(&text).into_owned(), began.elapsed())
}

fn seconds(range: std::ops::Range<u64>) -> std::ops::Range<Duration> {
    Duration::from_secs(range.start)..Duration::from_secs(range.end)
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_request_times_out() {
    let server = server().await;
    let (text, took) = to_end(&mut connect(&server).await).await;
    assert!(text.is_empty() && seconds(32..34).contains(&took), "{took:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn slow_request_head_times_out() {
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
async fn idle_connection_times_out_between_requests() {
    let server = server().await;
    let mut socket = connect(&server).await;
    for _ in 0..2 {
        socket.write_all(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("a request");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") && !answer.ends_with(b"}") {
            socket.read_buf(&mut answer).await.expect("an answer");
        }
        // This pause is longer than the timeout for a request head, but shorter than the timeout between requests.
        tokio::time::sleep(Duration::from_secs(80)).await;
    }
    let (text, took) = to_end(&mut socket).await;
    assert!(text.is_empty() && seconds(9..12).contains(&took), "{took:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn incomplete_body_times_out_with_the_request() {
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
        let ended = tokio::time::timeout(Duration::from_secs(100), sending).await;
        assert!(ended.is_ok(), "{query}: the connection is open after {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn unread_response_is_cut_at_the_request_timeout() {
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
    assert!(bytes.len() < OBJECTS * filler.len(), "the rest was not sent: {}", bytes.len());
}

#[tokio::test(start_paused = true)]
async fn request_timeout_does_not_apply_to_watches() {
    let server = server().await;
    let mut watch = crate::support::Watch::start(&server, "timeout=1s&timeoutSeconds=600").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").expect("a config map");
    assert!(watch.next_event().await.starts_with("ADDED a "));
}

#[tokio::test(start_paused = true)]
async fn idle_http2_connection_is_closed_gracefully() {
    let server = server().await;
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(connect(&server).await)).await.expect("HTTP/2");
    let began = Instant::now();
    let ended = tokio::spawn(connection);
    let mut sender: SendRequest<Empty<Bytes>> = sender;
    assert_eq!(sender.send_request(get(&server, "/version")).await.expect("an answer").status(), 200);
    ended.await.expect("the connection's task").expect("the connection ends without an error");
    assert!(seconds(89..95).contains(&began.elapsed()), "{:?}", began.elapsed());
}

/// The runtime has only one blocking thread. The idle connections announce bodies with a total size of more than a
/// hundred times the body budget.
#[test]
fn idle_connections_do_not_block_other_requests() {
    const IDLE: usize = 300;
    const LARGE: usize = 1_000_000;
    // A body of this size is processed on another thread and treated as a large body.
    const SENT: usize = 100_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let config = ApiServerConfig { body_bytes: 2 * LARGE, ..ApiServerConfig::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let body = " ".repeat(SENT);
        let mut idle = Vec::new();
        for number in 0..IDLE {
            let mut socket = connect(&server).await;
            let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n");
            let sent = match number % 4 {
                0 => String::new(),
                1 => head,
                2 => format!("{head}\r\n{{"),
                _ => format!("{head}\r\n{body}"),
            };
            socket.write_all(sent.as_bytes()).await.expect("a write");
            idle.push(socket);
        }
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(LARGE)}});
        let made = tokio::time::timeout(PATIENCE, call(&server, Method::POST, CONFIG_MAPS, object)).await;
        assert_eq!(made.map(|answer| answer.code), Ok(201), "the oldest incomplete bodies give way");
        assert_eq!(crate::support::get(&server, "/readyz").await.code, 200);
    });
}

#[tokio::test]
async fn memory_of_unfinished_request_heads_is_bounded() {
    const LONG: usize = 1_000_000;
    // All request heads together can use 64 MiB, excluding the first 16 KiB of each head.
    const KEPT: usize = (64 << 20) / (LONG - (16 << 10));
    const MORE: usize = 12;
    // After 32 seconds, the server closes all connections with incomplete heads.
    const PATIENCE: Duration = Duration::from_secs(31);
    let server = server().await;
    let long = format!("GET /readyz HTTP/1.1\r\nHost: a\r\nX-A: {}", "b".repeat(LONG));
    let (begun, mut open) = (Instant::now(), Vec::new());
    for _ in 0..KEPT + MORE {
        let mut socket = connect(&server).await;
        // The server can close the connection before all bytes are sent, so the write may fail.
        let _ = socket.write_all(long.as_bytes()).await;
        open.push(socket);
    }
    let cut = async {
        loop {
            open.retain(|socket| socket.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
            if open.len() <= KEPT {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout_at(begun + PATIENCE, cut).await.expect("some connections are cut");
    assert_eq!(crate::support::get(&server, "/readyz").await.code, 200, "short heads have a budget of their own");
    let is_served = async || {
        let mut socket = connect(&server).await;
        let _ = socket.write_all(format!("{long}\r\nConnection: close\r\n\r\n").as_bytes()).await;
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        answer.starts_with(b"HTTP/1.1 200 ")
    };
    drop(open);
    let again = async {
        while !is_served().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, again).await.expect("closed connections release their budget");
}

/// Opens an HTTP/2 connection whose stream windows are small, so that an unread response does not block other streams.
async fn with_small_windows(server: &ApiServer) -> SendRequest<Empty<Bytes>> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16_384)
        .initial_connection_window_size(1 << 20)
        .handshake(TokioIo::new(connect(server).await))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn get(server: &ApiServer, path: &str) -> http::Request<Empty<Bytes>> {
    http::Request::get(format!("{}{path}", server.url())).body(Empty::new()).expect("a request")
}

#[tokio::test]
async fn connection_above_the_limit_waits_for_another_to_end() {
    let server = ApiServer::start(ApiServerConfig { connections: 3, ..ApiServerConfig::default() }).await;
    let server = server.expect("a server");
    let get_livez = async |socket: &mut TcpStream| {
        socket.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("a request");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            assert!(socket.read_buf(&mut answer).await.expect("an answer") > 0);
        }
    };
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&server).await;
        get_livez(&mut socket).await;
        open.push(socket);
    }
    let mut one_more = connect(&server).await;
    let waiting = tokio::spawn(async move { get_livez(&mut one_more).await });
    for _ in 0..20 {
        get_livez(&mut open[0]).await;
    }
    assert!(!waiting.is_finished(), "it is not accepted yet");
    open.pop();
    waiting.await.expect("it is served");
}

#[tokio::test(start_paused = true)]
async fn unread_http2_response_is_reset_and_other_streams_continue() {
    let server = server().await;
    let filler = "x".repeat(1_000_000);
    let object = json!({"metadata": {"name": "large"}, "data": {"k": filler}});
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    let mut sender = with_small_windows(&server).await;
    let unread = sender.send_request(get(&server, &format!("{CONFIG_MAPS}?timeout=5s"))).await.expect("an answer");
    let mut watch = sender
        .send_request(get(&server, &format!("{CONFIG_MAPS}?watch=1&timeout=5s")))
        .await
        .expect("a watch")
        .into_body();
    assert_eq!(unread.status(), 200);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let read = unread.into_body().collect().await;
    assert!(read.is_err(), "the stream was reset");
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").expect("a config map");
    let event = watch.frame().await;
    assert!(event.is_some_and(|event| event.is_ok()), "the timeout does not apply to the watch");
    let other = sender.send_request(get(&server, "/readyz")).await.expect("an answer");
    assert_eq!(other.status(), 200);
}

/// Starts a server whose list responses are larger than all buffers between the server and a client.
async fn full_server() -> ApiServer {
    let server = server().await;
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("a{number}")}, "data": {"k": "x".repeat(LARGE)}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    }
    server
}

const OBJECTS: usize = 16;
const LARGE: usize = 1_000_000;

#[tokio::test(start_paused = true)]
async fn unread_watch_ends_at_its_timeout() {
    let server = full_server().await;
    let websocket = "Connection: upgrade\r\nUpgrade: websocket\r\nOrigin: http://a\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    for headers in ["", websocket] {
        let mut socket = connect(&server).await;
        let request = format!("GET {CONFIG_MAPS}?watch=1&timeoutSeconds=20 HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).await.expect("a request");
        tokio::time::sleep(Duration::from_secs(30)).await;
        let mut bytes = Vec::new();
        let _ = socket.read_to_end(&mut bytes).await;
        assert!(bytes.len() < OBJECTS * LARGE, "the rest was not sent: {}", bytes.len());
    }
}

#[tokio::test(start_paused = true)]
async fn unread_http2_watch_is_reset_and_others_continue() {
    let server = full_server().await;
    let mut sender = with_small_windows(&server).await;
    let watch = |seconds: usize| get(&server, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={seconds}"));
    let unread = sender.send_request(watch(20)).await.expect("a watch").into_body();
    let read_later = sender.send_request(watch(600)).await.expect("a watch").into_body();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(unread.collect().await.is_err(), "the stream was reset");
    let mut frames = read_later;
    let first = frames.frame().await.expect("a frame").expect("this watch is not timed out");
    assert!(first.into_data().expect("data").starts_with(b"{\"type\":\"ADDED\""));
}

#[tokio::test(start_paused = true)]
async fn watch_with_pending_events_ends_at_its_timeout() {
    let server = server().await;
    let now = crate::support::version(&crate::support::get(&server, CONFIG_MAPS).await.body);
    let begin = async || {
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={now}&timeoutSeconds=20");
        let request = http::Request::get(path).body(Empty::<Bytes>::new()).expect("a request");
        server.in_process().call(request).await.expect("a watch").into_body()
    };
    let (mut read, unread) = (begin().await, begin().await);
    crate::support::create_map(&server, "a", json!({})).await;
    let event = read.frame().await.expect("an event").expect("it goes on").into_data().expect("data");
    assert!(event.starts_with(b"{\"type\":\"ADDED\""), "{event:?}");
    tokio::time::advance(Duration::from_secs(21)).await;
    assert_eq!(unread.collect().await.expect("the body ends without an error").to_bytes(), "");
}

#[tokio::test(start_paused = true)]
async fn http2_client_that_reads_nothing_fails_the_ping() {
    let server = full_server().await;
    let mut socket = connect(&server).await;
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=600");
    let text = |name: u8, value: &str| [&[name, u8::try_from(value.len()).expect("short")], value.as_bytes()].concat();
    // The header block encodes the method GET, the scheme http, the path and the authority with HPACK's static table.
    let head = [vec![0x82, 0x86], text(0x04, &path), text(0x01, "a")].concat();
    let bytes = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        // The flow control windows are large enough for the whole response, so only the buffer of the socket limits the
        // server.
        frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
        frame(8, 0, 0, &[0x7f, 0, 0, 0]),
        frame(1, 5, 1, &head),
    ];
    socket.write_all(&bytes.concat()).await.expect("a request");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut read = Vec::new();
    let _ = socket.read_to_end(&mut read).await;
    assert!((1_000..OBJECTS * LARGE).contains(&read.len()), "{} bytes", read.len());
}
