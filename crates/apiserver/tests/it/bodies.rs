//! The bodies of requests that are being read take no more than a server is told to give them, on all connections together.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

const ROOM: usize = 100_000;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { body_bytes: ROOM, ..ApiServerConfig::default() }).await.expect("a server")
}

/// Makes a config map of so many bytes.
async fn post(server: &ApiServer, name: &str, bytes: usize) -> Answer {
    let map = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
    call(server, Method::POST, CONFIG_MAPS, map).await
}

/// Asks until the answer is of that code.
async fn until(server: &ApiServer, code: u16, bytes: usize) -> Answer {
    let mut number = 0;
    let asked = async {
        loop {
            let answer = post(server, &format!("{code}-{bytes}-{number}"), bytes).await;
            if answer.code == code {
                return answer;
            }
            number += 1;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("that answer in time")
}

/// The beginning of a request for a config map, and what it lacks.
async fn begin(server: &ApiServer, name: &str, lacks: usize) -> (TcpStream, String) {
    let body = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(ROOM - 10_000)}}).to_string();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("it listens");
    let (now, later) = body.split_at(body.len() - lacks);
    socket.write_all((head + now).as_bytes()).await.expect("a write");
    (socket, later.to_owned())
}

#[tokio::test]
async fn what_does_not_fit_beside_the_bodies_of_others_is_to_come_again() {
    let server = server().await;
    assert_eq!(post(&server, "alone", ROOM - 1000).await.code, 201);
    let (mut half, rest) = begin(&server, "half", 1000).await;
    let refused = until(&server, 429, 50_000).await;
    assert_eq!(refused.body["reason"], "TooManyRequests", "{:?}", refused.body);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(post(&server, "small", 100).await.code, 201, "what fits is served");
    half.write_all(rest.as_bytes()).await.expect("a write");
    let mut answer = String::new();
    half.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(post(&server, "after", ROOM - 1000).await.code, 201, "there is room again");
}

#[tokio::test]
async fn who_goes_half_way_leaves_its_room_to_others() {
    let server = server().await;
    let (half, _) = begin(&server, "half", 1000).await;
    until(&server, 429, 50_000).await;
    drop(half);
    until(&server, 201, 50_001).await;
}
