//! The bodies of requests that are being read take no more than a server is told to give them, on all connections together; and who sends
//! half of one keeps nobody out.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

const ROOM: usize = 1_000_000;
const LARGE: usize = 90_000;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { body_bytes: ROOM, ..ApiServerConfig::default() }).await.expect("a server")
}

/// Makes a config map of so many bytes.
async fn post(server: &ApiServer, name: &str, bytes: usize) -> Answer {
    let map = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
    call(server, Method::POST, CONFIG_MAPS, map).await
}

/// The beginning of a request for a config map, and what it lacks.
async fn begin(server: &ApiServer, name: &str) -> (TcpStream, String) {
    let body = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(LARGE)}}).to_string();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("it listens");
    let (now, later) = body.split_at(body.len() - 1000);
    socket.write_all((head + now).as_bytes()).await.expect("a write");
    (socket, later.to_owned())
}

async fn answer(mut socket: TcpStream) -> String {
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    answer
}

#[tokio::test]
async fn who_sends_half_of_a_body_gives_way_to_those_who_send_theirs() {
    let server = server().await;
    let mut halves = Vec::new();
    for number in 0..40 {
        halves.push(begin(&server, &format!("half-{number}")).await);
    }
    for number in 0..3 {
        assert_eq!(post(&server, &format!("large-{number}"), 5 * LARGE).await.code, 201);
        assert_eq!(post(&server, &format!("small-{number}"), 100).await.code, 201);
    }
    let (first, _) = halves.swap_remove(0);
    let refused = answer(first).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    assert!(refused.contains(r#""reason":"TooManyRequests""#), "{refused}");
    // Who goes on is served, now that there is room.
    drop(halves);
    let (mut half, rest) = begin(&server, "half").await;
    half.write_all(rest.as_bytes()).await.expect("a write");
    let served = answer(half).await;
    assert!(served.starts_with("HTTP/1.1 201 "), "{served}");
}

#[tokio::test]
async fn a_body_for_which_there_is_no_room_at_all_is_to_come_again() {
    let server = server().await;
    let refused = post(&server, "too-large", ROOM).await;
    assert_eq!((refused.code, &refused.body["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(post(&server, "large", ROOM - 1000).await.code, 201);
}
