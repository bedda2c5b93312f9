//! Tests of watches over WebSockets: the handshake, events in text messages, and the end of a watch.

use futures_util::{SinkExt, StreamExt};
use http::HeaderValue;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

#[tokio::test]
async fn events_are_sent_as_text_messages() {
    let server = server().await;
    let mut watch = watch(&server, "labelSelector=app%3Dx").await;
    create_map(&server, "other", json!({"app": "y"})).await;
    let created = create_map(&server, "a", json!({"app": "x"})).await;
    let updated = patch_map(&server, "a", json!({"data": {"k": "w"}})).await;
    delete(&server, &format!("{CONFIG_MAPS}/a")).await;
    let text = text(&mut watch).await;
    assert!(text.starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","#), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(version(&serde_json::from_str::<Json>(&text).expect("JSON")["object"]), created);
    assert_eq!(event_line(&mut watch).await, format!("MODIFIED a {updated}"));
    assert_eq!(event_line(&mut watch).await, format!("DELETED a {}", updated + 1));
}

#[tokio::test]
async fn deprecated_watch_paths_support_websockets() {
    let server = server().await;
    let created = create_map(&server, "a", json!({})).await;
    let socket = connect(&server).await;
    let mut watch = upgrade(socket, "/api/v1/watch/namespaces/default/configmaps/a").await.expect("a watch");
    assert_eq!(event_line(&mut watch).await, format!("ADDED a {created}"));
}

#[tokio::test]
async fn streaming_list_ends_with_an_annotated_bookmark() {
    let server = server().await;
    let created = create_map(&server, "a", json!({})).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = watch(&server, query).await;
    assert_eq!(event_line(&mut watch).await, format!("ADDED a {created}"));
    let mark = event(&mut watch).await;
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn websocket_watch_works_over_tls() {
    let server = ApiServer::start(ApiServerConfig { tls: true, ..ApiServerConfig::default() }).await.expect("a server");
    server.load("{kind: ConfigMap, apiVersion: v1, metadata: {name: a}}").expect("a config map");
    let ca = server.client_config().tls.ca;
    let Some(pintle_meta::PemSource::Inline(pem)) = &ca else { panic!("a CA") };
    let socket = over_tls(pem, connect(&server).await).await;
    let mut watch = upgrade(socket, &format!("{CONFIG_MAPS}?watch=1")).await.expect("a watch");
    assert_eq!(event(&mut watch).await["object"]["metadata"]["name"], "a");
    server.shutdown().await;
    assert!(end(&mut watch).await.is_none());
}

const HOST: &str = "Host: x\r\nConnection: close, Upgrade\r\n";
const UPGRADE: &str = "Upgrade: WebSocket\r\n";
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";
const ORIGIN: &str = "Origin: https://127.0.0.1\r\n";

#[tokio::test]
async fn handshake_response_has_the_accept_key_and_subprotocol() {
    let server = server().await;
    let host = "Host: x\r\nConnection: keep-alive, upgrade\r\n";
    let headers = |more: &str| [host, UPGRADE, KEY, VERSION, ORIGIN, more].concat();
    let close = b"\x88\x80\0\0\0\0";
    let (head, _) = raw(&server, "1.1", &headers(""), close).await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for header in ["upgrade: websocket", "connection: upgrade", "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="] {
        assert!(head.to_lowercase().contains(&format!("\r\n{}\r\n", header.to_lowercase())), "{head}");
    }
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
    let (head, _) = raw(&server, "1.1", &headers("Sec-WebSocket-Protocol: v1.example\r\n"), close).await;
    assert!(head.contains("\r\nsec-websocket-protocol: v1.example\r\n"), "{head}");
}

#[tokio::test]
async fn invalid_handshakes_are_rejected() {
    let server = server().await;
    let refused = [
        (400, "mismatch challenge/response", [VERSION, ORIGIN].concat()),
        (400, "mismatch challenge/response", ["Sec-WebSocket-Key:\r\n", VERSION, ORIGIN].concat()),
        (400, "missing or bad WebSocket Version", [KEY, ORIGIN].concat()),
        (400, "missing or bad WebSocket Version", [KEY, "Sec-WebSocket-Version: 8\r\n", ORIGIN].concat()),
        (403, "Origin", [KEY, VERSION].concat()),
        (403, "Origin", [KEY, VERSION, "Origin: null\r\n"].concat()),
        (403, "Origin", [KEY, VERSION, "Origin: https://a b\r\n"].concat()),
        (403, "Origin", [KEY, VERSION, "Origin: https://evil.example\r\n"].concat()),
        (400, "subprotocol", [KEY, VERSION, ORIGIN, "Sec-WebSocket-Protocol: a, b\r\n"].concat()),
    ];
    for (code, why, headers) in refused {
        let (head, body) = raw(&server, "1.1", &[HOST, UPGRADE, &headers].concat(), b"").await;
        let answer = head + &String::from_utf8(body).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")) && answer.contains(why), "{headers}: {answer}");
        assert_eq!(answer.contains("\r\nsec-websocket-version: 13\r\n"), why.contains("Version"), "{answer}");
    }
}

#[tokio::test]
async fn requests_without_upgrade_get_plain_http() {
    let server = server().await;
    let handshake = [KEY, VERSION, ORIGIN].concat();
    let plain = [
        ("1.1", ["Host: x\r\nConnection: close\r\n", UPGRADE, &handshake].concat()),
        ("1.1", [HOST, "Upgrade: h2c, websocket\r\n", &handshake].concat()),
        ("1.1", [HOST, &handshake].concat()),
        ("1.0", [HOST, UPGRADE, &handshake].concat()),
    ];
    for (http, headers) in plain {
        let (answer, _) = raw(&server, http, &headers, b"").await;
        assert!(answer.starts_with(&format!("HTTP/{http} 200 OK\r\n")), "{http} {headers}: {answer}");
    }
}

#[tokio::test]
async fn errors_before_the_upgrade_are_plain_responses() {
    let path = std::env::temp_dir().join(format!("pintle-websocket-tokens-{}.csv", std::process::id()));
    std::fs::write(&path, "admin,root,1,\"system:masters\"\nweak,bob,2,users\n").expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(path.clone()), ..ApiServerConfig::default() };
    let started = ApiServer::start(config).await;
    std::fs::remove_file(&path).expect("the file");
    let server = started.expect("a server");
    let refusal = Fault::Answer(Answer::new(503));
    server.faults().add(Rule { resource: Some("secrets".into()), ..Rule::new(refusal) });
    let cases = [
        (401, "wrong", CONFIG_MAPS, ""),
        (403, "weak", CONFIG_MAPS, ""),
        (400, "admin", CONFIG_MAPS, "&labelSelector=a,,"),
        (503, "admin", "/api/v1/secrets", ""),
        (404, "admin", "/api/v1/nothings", ""),
    ];
    for (code, token, path, query) in cases {
        let mut request = format!("ws://x{path}?watch=1{query}").into_client_request().expect("a request");
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let refused = tokio_tungstenite::client_async(request, connect(&server).await).await;
        let Err(Error::Http(answer)) = refused else { panic!("a refusal: {path} {refused:?}") };
        assert_eq!(answer.status(), code, "{path}");
        let status: Json = serde_json::from_slice(answer.body().as_deref().unwrap_or_default()).expect("a Status");
        assert_eq!(status["code"], code, "{path}");
    }
}

#[tokio::test]
async fn server_closes_the_websocket_after_the_watch_timeout() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let mut watch = watch(&server, "timeoutSeconds=20").await;
    event_line(&mut watch).await;
    tokio::time::pause();
    let Some(Message::Close(Some(close))) = end(&mut watch).await else { panic!("a close frame") };
    assert_eq!(close.code, CloseCode::Normal);
    assert!(end(&mut watch).await.is_none());
}

#[tokio::test]
async fn pings_are_answered_and_data_is_ignored() {
    let server = server().await;
    let mut watch = watch(&server, "").await;
    watch.send(Message::text("hello")).await.expect("a write");
    watch.send(Message::binary(vec![0; 1000])).await.expect("a write");
    watch.send(Message::Ping("beat".into())).await.expect("a write");
    assert_eq!(message(&mut watch).await.expect("an answer"), Message::Pong("beat".into()));
    let created = create_map(&server, "a", json!({})).await;
    assert_eq!(event_line(&mut watch).await, format!("ADDED a {created}"));
}

#[tokio::test]
async fn large_or_unmasked_messages_cut_the_connection() {
    let server = server().await;
    let mut large = watch(&server, "").await;
    // The server can close the connection at the same time, so `send` may fail.
    let _ = large.send(Message::binary(vec![0; 1 << 20])).await;
    assert!(end(&mut large).await.is_none());
    let mut unmasked = watch(&server, "").await;
    unmasked.get_mut().write_all(b"\x81\x01a").await.expect("a write");
    assert!(end(&mut unmasked).await.is_none());
}

#[tokio::test]
async fn close_frame_is_answered_and_ends_the_connection() {
    let server = server().await;
    let mut watch = watch(&server, "").await;
    watch.close(None).await.expect("a write");
    assert!(matches!(end(&mut watch).await, Some(Message::Close(_))));
    assert!(end(&mut watch).await.is_none());
}

#[tokio::test]
async fn shutdown_ends_open_websockets() {
    let server = server().await;
    let mut watch = watch(&server, "").await;
    let done = tokio::time::timeout(PATIENCE, server.shutdown()).await;
    assert!(done.is_ok(), "the server shuts down although a WebSocket is open");
    assert!(end(&mut watch).await.is_none());
}

#[tokio::test]
async fn watch_faults_apply_to_websockets() {
    let server = server().await;
    let old = create_map(&server, "a", json!({})).await;
    for fault in [Fault::Expire, Fault::CutAfter(1), Fault::CutMidFrame(0)] {
        server.faults().add(Rule { resource: Some("configmaps".into()), ..Rule::new(fault) });
    }

    let mut expired = watch(&server, &format!("resourceVersion={old}")).await;
    assert_eq!(event(&mut expired).await["object"]["reason"], "Expired");
    assert!(matches!(end(&mut expired).await, Some(Message::Close(_))));

    let mut cut = watch(&server, "").await;
    assert_eq!(event_line(&mut cut).await, format!("ADDED a {old}"));
    create_map(&server, "b", json!({})).await;
    assert!(end(&mut cut).await.is_none(), "no close frame");

    let (_, torn) = raw(&server, "1.1", &[HOST, UPGRADE, KEY, VERSION, ORIGIN].concat(), b"").await;
    assert_eq!(torn[..2], [0x81, 126], "a text frame with its length in two bytes");
    let promised = 4 + usize::from(u16::from_be_bytes([torn[2], torn[3]]));
    assert_eq!(torn.len(), promised / 2);
}

#[tokio::test]
async fn slow_websocket_watcher_is_cut() {
    let server =
        ApiServer::start(ApiServerConfig { watch_buffer: 8, ..ApiServerConfig::default() }).await.expect("a server");
    let first = create_map(&server, "a", json!({})).await;
    let mut slow = watch(&server, &format!("resourceVersion={first}")).await;
    let filler = "x".repeat(400_000);
    let mut last = first;
    for number in 0..40 {
        last = patch_map(&server, "a", json!({"data": {"k": format!("{number}{filler}")}})).await;
    }
    let mut seen = first;
    while let Some(Message::Text(text)) = message(&mut slow).await {
        let event: Json = serde_json::from_str(&text).expect("JSON");
        assert_eq!(version(&event["object"]), seen + 1, "the events have no gap");
        seen += 1;
    }
    assert!(first < seen && seen < last, "it was served until it was cut: {first} {seen} {last}");
}

async fn connect(server: &ApiServer) -> TcpStream {
    let url = server.url();
    let (_, address) = url.split_once("://").expect("a URL");
    TcpStream::connect(address).await.expect("the server listens")
}

/// Opens a WebSocket with an `Origin` header, which browsers and the fabric8 client send.
async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(socket: S, path: &str) -> Result<WebSocketStream<S>, Error> {
    let mut request = format!("ws://localhost{path}").into_client_request()?;
    request.headers_mut().insert("origin", HeaderValue::from_static("http://localhost"));
    tokio_tungstenite::client_async(request, socket).await.map(|(socket, _)| socket)
}

async fn watch(server: &ApiServer, query: &str) -> WebSocketStream<TcpStream> {
    upgrade(connect(server).await, &format!("{CONFIG_MAPS}?watch=1&{query}")).await.expect("a watch")
}

/// Returns the next message, or `None` if the connection is closed before the message is complete.
async fn message<S: AsyncRead + AsyncWrite + Unpin>(watch: &mut WebSocketStream<S>) -> Option<Message> {
    let next = tokio::time::timeout(PATIENCE, watch.next()).await.expect("a message in time")?;
    match next {
        Ok(message) => Some(message),
        Err(Error::ConnectionClosed | Error::Io(_) | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
            None
        }
        Err(error) => panic!("a whole message: {error}"),
    }
}

async fn end<S: AsyncRead + AsyncWrite + Unpin>(watch: &mut WebSocketStream<S>) -> Option<Message> {
    let last = message(watch).await;
    assert!(matches!(last, None | Some(Message::Close(_))), "{last:?}");
    last
}

async fn text<S: AsyncRead + AsyncWrite + Unpin>(watch: &mut WebSocketStream<S>) -> Utf8Bytes {
    match message(watch).await {
        Some(Message::Text(text)) => text,
        other => panic!("a text expected: {other:?}"),
    }
}

async fn event<S: AsyncRead + AsyncWrite + Unpin>(watch: &mut WebSocketStream<S>) -> Json {
    serde_json::from_str(&text(watch).await).expect("JSON")
}

async fn event_line<S: AsyncRead + AsyncWrite + Unpin>(watch: &mut WebSocketStream<S>) -> String {
    let event = event(watch).await;
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name} {}", event["type"].as_str().unwrap_or("?"), version(&event["object"]))
}

/// Sends a raw watch request for ConfigMaps, followed by `after`. Returns the response head and the bytes after it.
async fn raw(server: &ApiServer, http: &str, headers: &str, after: &[u8]) -> (String, Vec<u8>) {
    let mut socket = connect(server).await;
    let request = format!("GET {CONFIG_MAPS}?watch=1&timeoutSeconds=-1 HTTP/{http}\r\n{headers}\r\n");
    socket.write_all(&[request.as_bytes(), after].concat()).await.expect("a write");
    let mut answer = Vec::new();
    let all = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    all.expect("an end in time").expect("an answer");
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let body = answer.split_off(head);
    (String::from_utf8(answer).expect("text"), body)
}
