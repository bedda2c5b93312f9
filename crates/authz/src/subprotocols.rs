//! Extracts a bearer token from WebSocket subprotocols. Browser clients send the
//! token as a subprotocol, because they cannot set the `Authorization` header.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, HeaderValue};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::is_websocket;

const TOKEN_PREFIX: &[u8] = b"base64url.bearer.authorization.k8s.io.";

#[derive(Debug)]
pub(super) struct Subprotocols {
    pub(super) token: String,
    /// The offered subprotocols without the token, because the response must not contain the token.
    pub(super) others: HeaderValue,
}

impl Subprotocols {
    /// Parses a request's subprotocols. Returns `None` if none of them contains a token. Returns a 401 error if there
    /// are several tokens, or if the token is the only subprotocol.
    pub(super) fn of(headers: &HeaderMap) -> Outcome<Option<Self>> {
        if !is_websocket(headers) {
            return Ok(None);
        }
        let (mut token, mut others) = (None, Vec::new());
        let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
        for offer in offers.flat_map(|offers| offers.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
            match offer.strip_prefix(TOKEN_PREFIX) {
                None => others.push(offer),
                Some(_) if token.is_some() => return Err(Failure::unauthorized()),
                Some(encoded) => token = Some(decoded(encoded).ok_or_else(Failure::unauthorized)?),
            }
        }
        let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
        match HeaderValue::from_bytes(&others.join(&b","[..])) {
            Ok(others) if !others.is_empty() => Ok(Some(Self { token, others })),
            _ => Err(Failure::unauthorized()),
        }
    }
}

fn decoded(token: &[u8]) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}
