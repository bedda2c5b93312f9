//! Types for exchanging a request and a response over HTTP/1.1 or HTTP/2.

use std::time::Duration;

use http::Method;

use crate::error::BoxError;

/// How long a request uses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Until the response ends.
    Short,
    /// Until the client stops reading the response. For watches and streams.
    Long,
    /// Indefinitely, because the connection is upgraded to another protocol.
    Upgrade,
}

/// Options for sending one request.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeOptions {
    /// How long the request uses its connection.
    pub usage: ConnectionUse,
    /// The maximum time from sending the request until the response headers arrive.
    pub headers: Option<Duration>,
}

/// The error of a request that got no response.
pub(crate) struct SendError {
    pub(crate) source: BoxError,
    /// Whether no byte of the request was sent. The caller can then send the request over another connection.
    pub(crate) is_unsent: bool,
}

/// Returns `true` if requests with this method usually have a body. A request with such a method has a `Content-Length`
/// header even if the body is empty.
pub(crate) fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}
