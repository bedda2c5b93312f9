//! Tests of the body budget, which limits the total size of the request bodies on all connections.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

const BUDGET: usize = 1_000_000;
const LARGE: usize = 90_000;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { body_bytes: BUDGET, ..ApiServerConfig::default() }).await.expect("a server")
}

async fn post(server: &ApiServer, name: &str, bytes: usize) -> Answer {
    let map = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
    call(server, Method::POST, CONFIG_MAPS, map).await
}

/// Sends the first part of a request that creates a ConfigMap. Returns the unsent part of the request.
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
async fn incomplete_bodies_give_way_to_complete_ones() {
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
    // Disconnect the other clients, which releases enough of the budget for the next body.
    drop(halves);
    let (mut half, rest) = begin(&server, "half").await;
    half.write_all(rest.as_bytes()).await.expect("a write");
    let served = answer(half).await;
    assert!(served.starts_with("HTTP/1.1 201 "), "{served}");
}

#[tokio::test]
async fn body_above_the_budget_is_rejected_with_retry_after() {
    let server = server().await;
    let refused = post(&server, "too-large", BUDGET).await;
    assert_eq!((refused.code, &refused.body["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(post(&server, "large", BUDGET - 1000).await.code, 201);
}
