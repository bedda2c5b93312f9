//! The WebSocket handshake, after which tungstenite handles the frames.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use pintle_meta::{ApiError, RequestLine};
use pintle_transport::Conn;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::error::unreadable;
use crate::request::Request;

pub(crate) type WebSocket = WebSocketStream<Conn>;

/// The maximum size of a received message in bytes, although kube-apiserver sends at most 32 KiB per message.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;
const BUFFER: usize = 64 << 10;

impl Request {
    /// Opens a WebSocket. Offers the given subprotocols to the server, in order of preference. Returns the
    /// WebSocket, the chosen subprotocol, and the request line, which appears in later errors.
    pub(crate) async fn websocket(
        self,
        protocols: &[&'static str],
    ) -> Result<(WebSocket, &'static str, Arc<RequestLine>), ApiError> {
        let key = generate_key();
        let request = self
            .header(CONNECTION.as_str(), "Upgrade")
            .header(UPGRADE.as_str(), "websocket")
            .header(SEC_WEBSOCKET_VERSION.as_str(), "13")
            .header(SEC_WEBSOCKET_KEY.as_str(), &key)
            .header(SEC_WEBSOCKET_PROTOCOL.as_str(), &protocols.join(", "))
            // Disable the timeout, because the client would send it as a query parameter, and the server would then
            // end the session at the timeout.
            .timeout(Duration::ZERO);
        let line = request.line();
        let (headers, upgraded) = request.upgrade(&line).await?;
        let unusable = |message: String| unreadable(&line, message);
        let protocol = check(&headers, &key, protocols).map_err(unusable)?;
        let upgraded = upgraded
            .ok_or_else(|| unusable("a layer around the transport dropped the response's extensions".into()))?;
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            // A write buffer of size 0 makes tungstenite send each message immediately.
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let received = upgraded.received.to_vec();
        let socket = WebSocketStream::from_partially_read(upgraded.io, received, Role::Client, Some(config)).await;
        Ok((socket, protocol, line))
    }
}

/// Validates the response headers of a WebSocket handshake, and returns the chosen subprotocol.
fn check(headers: &HeaderMap, key: &str, protocols: &[&'static str]) -> Result<&'static str, String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !text(UPGRADE).eq_ignore_ascii_case("websocket") {
        return Err("the server switched to a protocol other than WebSocket".into());
    }
    if text(SEC_WEBSOCKET_ACCEPT) != derive_accept_key(key.as_bytes()) {
        return Err("the server's Sec-WebSocket-Accept does not belong to this request".into());
    }
    let chosen = text(SEC_WEBSOCKET_PROTOCOL);
    let known = protocols.iter().find(|protocol| **protocol == chosen);
    known.copied().ok_or_else(|| match chosen {
        "" => format!("the server supports none of the subprotocols {}", protocols.join(", ")),
        _ => format!("the server chose the subprotocol {chosen:?}, but the client offered {}", protocols.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    /// Uses the headers of the example in RFC 6455, section 1.3.
    fn accepted(protocol: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, "WebSocket".parse().unwrap());
        headers.insert(SEC_WEBSOCKET_ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".parse().unwrap());
        if !protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        headers
    }

    #[test]
    fn handshake_of_the_standard_is_accepted() {
        assert_eq!(check(&accepted("v4"), KEY, &["v5", "v4"]), Ok("v4"));
    }

    #[test]
    fn wrong_handshake_is_rejected_with_its_reason() {
        for (change, expected) in [
            (accepted(""), "none of the subprotocols v5, v4"),
            (accepted("v3"), "chose the subprotocol \"v3\""),
            (HeaderMap::new(), "other than WebSocket"),
        ] {
            let error = check(&change, KEY, &["v5", "v4"]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = check(&accepted("v4"), "another", &["v4"]).unwrap_err();
        assert!(error.contains("Sec-WebSocket-Accept"), "{error}");
    }
}
