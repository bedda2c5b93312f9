//! Requests for another protocol on their connection.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// Whether these headers ask for a WebSocket.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let names_it = |upgrade: &HeaderValue| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket");
    headers.get(UPGRADE).is_some_and(names_it) && headers.get_all(CONNECTION).iter().any(names_upgrade)
}

fn names_upgrade(connection: &HeaderValue) -> bool {
    connection.to_str().is_ok_and(|options| options.to_ascii_lowercase().contains("upgrade"))
}
