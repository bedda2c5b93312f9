//! Detects requests that upgrade the connection, such as WebSocket handshakes.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// Returns `true` if the headers request an upgrade to WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let is_websocket = |upgrade: &HeaderValue| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket");
    headers.get(UPGRADE).is_some_and(is_websocket) && headers.get_all(CONNECTION).iter().any(names_upgrade)
}

fn names_upgrade(connection: &HeaderValue) -> bool {
    connection.to_str().is_ok_and(|options| options.to_ascii_lowercase().contains("upgrade"))
}
