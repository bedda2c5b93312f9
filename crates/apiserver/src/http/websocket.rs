//! The handshake of watches over WebSocket. The handshake is the same as in kube-apiserver, including the checks of the
//! `Origin` header and of the subprotocols.

use bytes::Bytes;
use http::header::{
    CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method};
use pintle_apimachinery::request::is_websocket;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::call::{Call, Connection, RequestHead};
use super::encode::{self, Reply};
use super::socket::Socket;
use crate::watch::Watcher;

/// Creates the reply for a watch request. The reply uses a WebSocket if the client requests one. Only HTTP/1.1
/// connections can be upgraded to a WebSocket.
pub(super) fn reply(call: &mut Call, watcher: Box<Watcher>) -> Reply {
    let is_requested = call.head.method == Method::GET && is_websocket(&call.head.headers);
    match std::mem::replace(&mut call.connection, Connection::Http) {
        Connection::Upgradable(connection) if is_requested => {
            call.connection = Connection::WebSocket(Socket { connection, watcher });
            handshake(&call.head)
        }
        _ => Reply::Watch { watcher },
    }
}

fn handshake(head: &RequestHead) -> Reply {
    const NO_KEY: &str = "mismatch challenge/response";
    let key = head.header(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Reply::text(400, NO_KEY);
    }
    if head.header(SEC_WEBSOCKET_VERSION) != "13" {
        let mut headers = encode::text_headers();
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Reply::Raw { code: 400, headers, body: "missing or bad WebSocket Version".into() };
    }
    if !is_uri(head.header(ORIGIN)) {
        return Reply::text(403, "a WebSocket request needs an Origin header with a URI, such as https://localhost");
    }
    let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
        return Reply::text(400, NO_KEY);
    };
    let mut headers = HeaderMap::new();
    if head.header(SEC_WEBSOCKET_PROTOCOL).contains(',') {
        return Reply::text(400, "offer at most one subprotocol: a watch cannot choose between several");
    }
    let offered = head.headers.get(SEC_WEBSOCKET_PROTOCOL).filter(|protocol| !protocol.is_empty());
    headers.extend(offered.map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol.clone())));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    Reply::Raw { code: 101, headers, body: Bytes::new() }
}

/// Returns `true` if Go's `url.ParseRequestURI` would accept `text`, which can be an absolute URI or a path.
fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(":/").map_or("", |(scheme, _)| scheme);
    let is_absolute = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (is_absolute || text.starts_with('/')) && !text.contains(' ')
}
