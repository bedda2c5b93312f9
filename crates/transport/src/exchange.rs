//! Definitions for both HTTP/1.1 and HTTP/2.

use std::time::Duration;

use http::Method;

use crate::error::BoxError;

/// How long a request uses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Until the response ends.
    Short,
    /// Until the client stops reading the response, for watches and streams.
    Long,
    /// Forever, because the connection is upgraded to another protocol.
    Upgrade,
}

/// The options for sending one request.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeOptions {
    /// How long the request uses its connection.
    pub usage: ConnectionUse,
    /// The timeout for the response headers after the request was sent.
    pub headers: Option<Duration>,
}

/// An error for a request without a response.
pub(crate) struct SendError {
    pub(crate) source: BoxError,
    /// Whether no byte of the request was sent, so that the caller can use another connection.
    pub(crate) is_unsent: bool,
}

/// Returns `true` if requests with this method usually have a body. These requests contain a `Content-Length` even for
/// an empty body.
pub(crate) fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}
