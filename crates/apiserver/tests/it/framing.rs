//! Tests of the framing of HTTP/1.1 requests: `Host` headers and transfer encodings.

use pintle_apiserver::{ApiServer, ApiServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::PATIENCE;

async fn answer(server: &ApiServer, request: &str) -> String {
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("it listens");
    socket.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await.expect("it ends").expect("text");
    answer
}

#[tokio::test]
async fn invalid_host_and_transfer_encoding_are_rejected() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let post = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nContent-Type: application/json\r\n";
    let body = "\r\n24\r\n{\"metadata\": {\"generateName\": \"a-\"}}\r\n0\r\n\r\n";
    let second = "GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let host = "Host: a\r\n";
    for (head, body, expected) in [
        ("GET /version HTTP/1.1\r\n".to_owned(), "\r\n", "400 Bad Request: missing required Host header"),
        (format!("GET /version HTTP/1.1\r\n{host}Host: b\r\n"), "\r\n", "400 Bad Request: too many Host headers"),
        (format!("GET /version HTTP/1.1\r\n{host}{host}"), "\r\n", "400 Bad Request: too many Host headers"),
        ("GET /version HTTP/1.1\r\nHost: a b\r\n".to_owned(), "\r\n", "400 Bad Request: malformed Host header"),
        (format!("{post}{host}Transfer-Encoding: gzip, chunked\r\n"), body, "Unsupported transfer encoding"),
        (format!("{post}{host}Transfer-Encoding: identity, chunked\r\n"), body, "Unsupported transfer encoding"),
        (format!("{post}{host}Transfer-Encoding: chunked, chunked\r\n"), body, "Unsupported transfer encoding"),
        (
            format!("{post}{host}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            body,
            "Unsupported transfer encoding",
        ),
    ] {
        let answer = answer(&server, &format!("{head}{body}{second}")).await;
        let code = if expected.starts_with("400") { "400" } else { "501" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")) && answer.ends_with(expected), "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "the connection is closed: {answer}");
    }
    // The connection must stay open after the response to a valid request.
    for head in [
        "GET /version HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
        format!("{post}{host}Transfer-Encoding: Chunked\r\n{body}"),
    ] {
        let answer = answer(&server, &format!("{head}{second}")).await;
        assert_eq!(answer.matches("HTTP/1.1 20").count(), 2, "{answer}");
    }
    let old = answer(&server, "GET /version HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200"), "{old}");
}
