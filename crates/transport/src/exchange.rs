//! Types for sending a request and receiving its response over HTTP/1.1 or HTTP/2.

use std::time::Duration;

use http::Method;

use crate::error::BoxError;

/// How long a request occupies its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Until the response ends.
    Short,
    /// Until the client no longer reads the response. For watches and streams.
    Long,
    /// Forever, because the connection is upgraded to another protocol.
    Upgrade,
}

/// Options for sending one request.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeOptions {
    /// How long the request occupies its connection.
    pub usage: ConnectionUse,
    /// The maximum time between sending the request and receiving the response headers. For a streaming body, the time
    /// since the last chunk was sent.
    pub headers: Option<Duration>,
}

/// The error for a request without a response.
pub(crate) struct SendError {
    pub(crate) source: BoxError,
    /// `true` if no part of the request was sent. The caller can then send the request over another connection.
    pub(crate) is_unsent: bool,
}

/// Returns `true` if requests with this method usually have a body. For such methods, a `Content-Length` header is sent
/// even if the body is empty.
pub(crate) fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}
