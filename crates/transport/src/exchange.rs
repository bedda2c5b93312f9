//! Types for sending a request and receiving its response over HTTP/1.1 or HTTP/2.

use std::time::Duration;

use http::Method;

use crate::error::BoxError;

/// How long a request occupies its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// The request occupies the connection until the response ends.
    Short,
    /// The request occupies the connection until the client no longer reads the response, as in watches and streams.
    Long,
    /// The request occupies the connection permanently, because the connection is upgraded to another protocol.
    Upgrade,
}

/// Options for sending one request.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeOptions {
    /// How long the request occupies its connection.
    pub usage: ConnectionUse,
    /// The maximum time between sending the request and receiving the response headers. For a streaming body, the time
    /// starts when the last chunk is sent.
    pub headers: Option<Duration>,
}

pub(crate) struct SendError {
    pub(crate) source: BoxError,
    /// Whether no byte of the request was sent. An unsent request can be sent over another connection.
    pub(crate) is_unsent: bool,
}

/// Returns `true` if requests with this method usually have a body. Requests with these methods have a
/// `Content-Length` header even if the body is empty.
pub(crate) fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}
