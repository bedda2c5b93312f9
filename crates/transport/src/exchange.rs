//! The options for sending one request, and definitions that both HTTP/1.1 and HTTP/2 use.

use std::time::Duration;

use http::Method;

use crate::error::BoxError;

/// How long a request uses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Until the response ends.
    Short,
    /// The request keeps its connection until the client stops reading the response. Watches and streams use this variant.
    Long,
    /// The connection never returns to the pool, because it is upgraded to another protocol.
    Upgrade,
}

/// The options for sending one request.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeOptions {
    /// How long the request uses its connection.
    pub usage: ConnectionUse,
    /// The maximum time between sending the request and receiving the response headers.
    pub headers: Option<Duration>,
}

/// The error of a request that got no response.
pub(crate) struct SendError {
    pub(crate) source: BoxError,
    /// Whether no byte of the request was sent. The caller can then send the request over another connection.
    pub(crate) is_unsent: bool,
}

/// Returns whether a request with this method usually has a body. Such a request contains a `Content-Length` even if
/// its body is empty.
pub(crate) fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}
