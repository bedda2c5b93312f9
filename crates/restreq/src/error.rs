//! The causes of request errors.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use pintle_meta::{ApiError, Cause, ErrorKind, Flow, InvalidKey, RequestLine, ResponseInfo, Status};
use pintle_transport::{BoxError, Failure, causes};
use thiserror::Error as ThisError;

/// The cause of an [`ApiError`] whose deadline passed. In [`Phase::Connect`], the kind of the error is
/// [`ErrorKind::Connect`], because the client did not send the request. In all other phases, the kind is
/// [`ErrorKind::Timeout`].
///
/// # Examples
///
/// ```
/// use pintle_meta::ApiError;
/// use pintle_restreq::{DeadlineExceeded, Phase};
///
/// fn is_slow_network(error: &ApiError) -> bool {
///     error.cause::<DeadlineExceeded>().is_some_and(|deadline| deadline.phase == Phase::Connect)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{phase} took longer than {after:?}")]
pub struct DeadlineExceeded {
    /// The phase that took too long.
    pub phase: Phase,
    /// The deadline that passed.
    pub after: Duration,
}

/// A phase of a request. Each phase has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Connecting to the server, including the TLS handshake. The request is not sent in this phase.
    Connect,
    /// Waiting for the response headers.
    Headers,
    /// Waiting for the next part of the response body.
    Idle,
    /// The whole request, including all retries.
    Total,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Headers => "the response headers",
            Self::Idle => "the next part of the response",
            Self::Total => "the whole exchange",
        })
    }
}

/// The cause of an [`ApiError`] for a response body that exceeds its size limit. The kind of the error is
/// [`ErrorKind::Decode`].
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("it is larger than the limit of {limit} bytes; raise it with max_body, or ask for pages")]
pub struct ResponseTooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

/// The cause of a connection error. The message contains the messages of all sources in one line.
#[derive(Debug)]
struct ConnectionFault {
    message: String,
    source: Arc<dyn StdError + Send + Sync>,
}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ConnectionFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// The reason why a request is invalid. Most `InvalidRequest` errors occur in a setter of the request, which stores the
/// first of these errors.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A parameter that can only have one value was set twice.
    #[error("{part} is already set to {first:?}, and cannot be changed to {second:?}")]
    AlreadySet {
        /// The part of the request, such as `namespace`.
        part: &'static str,
        /// The first value.
        first: String,
        /// The second value.
        second: String,
    },
    /// The file that contains the body cannot be read.
    #[error("the body cannot be read from {path}: {source}", path = path.display())]
    BodyFile {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        source: Arc<io::Error>,
    },
    /// The body is a stream that has already been sent by an earlier attempt.
    #[error("the body was a stream that is already sent; create a new request, or set the body as bytes")]
    BodyUsed,
    /// The body or the options cannot be serialized to JSON.
    #[error("{what} cannot be written as JSON: {message}")]
    Encode {
        /// The part of the request that cannot be serialized, such as `the body`.
        what: &'static str,
        /// The serialization error.
        message: String,
    },
    /// A namespace is required, but it is empty.
    #[error("the namespace is empty; name one, or leave it unset for a cluster-scoped resource")]
    EmptyNamespace,
    /// The name or the value of a header contains invalid characters.
    #[error("header {name:?} has a name or a value that HTTP does not allow")]
    Header {
        /// The name of the header.
        name: String,
    },
    /// The string is not a valid object key.
    #[error(transparent)]
    Key(InvalidKey),
    /// The object or the key does not match this `Api`.
    #[error("{0}")]
    Mismatch(String),
    /// A path segment contains characters that would change the meaning of the URL.
    #[error("{part} {value:?} is invalid: {why}")]
    Segment {
        /// The part of the request, such as `name`.
        part: &'static str,
        /// The path segment.
        value: String,
        /// The reason why the path segment is invalid.
        why: &'static str,
    },
    /// The string is not a valid URL.
    #[error("{uri:?} is not a URL or a path: {message}")]
    Uri {
        /// The string.
        uri: String,
        /// A description of the problem.
        message: String,
    },
}

impl From<InvalidRequest> for ApiError {
    fn from(error: InvalidRequest) -> Self {
        Self::invalid_request(error)
    }
}

/// The reason why the client could not obtain credentials.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum AuthError {
    /// The certificate that a credential plugin returned cannot be used.
    #[error("the certificate from the credential plugin cannot be used: {why}")]
    Certificate {
        /// The reason why the certificate is invalid.
        why: String,
    },
    /// The credential plugin failed.
    #[error("credential plugin {command:?}: {why}")]
    Exec {
        /// The command.
        command: String,
        /// A description of the failure and of how to fix it.
        why: String,
    },
    /// The OpenID Connect login has expired, and its tokens cannot be refreshed.
    #[error("login at {issuer:?}: {why}")]
    Oidc {
        /// The URL of the issuer, without user name and password.
        issuer: String,
        /// A description of the failure and of how to fix it.
        why: String,
    },
    /// The token file cannot be used.
    #[error("token file {path}: {why}", path = path.display())]
    TokenFile {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the token file is invalid.
        why: String,
    },
}

pub(crate) fn failed(line: &Arc<RequestLine>, kind: ErrorKind) -> ApiError {
    ApiError { request: Some(line.clone()), ..kind.into() }
}

pub(crate) fn unreadable(line: &Arc<RequestLine>, cause: impl Into<BoxError>) -> ApiError {
    ApiError { request: Some(line.clone()), ..ApiError::decode(cause) }
}

/// The maximum size of the body in an error, in bytes.
pub(crate) const MAX_ERROR_BODY: usize = 64 << 10;

/// Returns the error for a response that contains a failure. `body` is the beginning of the response body.
pub(crate) fn rejected(line: &Arc<RequestLine>, status: Box<Status>, headers: &HeaderMap, body: Bytes) -> ApiError {
    // Errors are cloned and kept, so an error does not keep a large body.
    let body = if body.len() > MAX_ERROR_BODY { Bytes::copy_from_slice(&body[..MAX_ERROR_BODY]) } else { body };
    let response = ResponseInfo { audit_id: audit_id(headers), flow: flow(headers), body };
    ApiError { response: Some(Arc::new(response)), ..failed(line, ErrorKind::Status(status)) }
}

fn flow(headers: &HeaderMap) -> Option<Flow> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let flow_schema = Some(text("x-kubernetes-pf-flowschema-uid")).filter(|uid| !uid.is_empty())?;
    let priority_level = text("x-kubernetes-pf-prioritylevel-uid");
    Some(Flow { flow_schema: flow_schema.into(), priority_level: priority_level.into() })
}

/// Returns a response's `Audit-Id`. An empty or very long `Audit-Id` is ignored.
fn audit_id(headers: &HeaderMap) -> Option<Box<str>> {
    const LONGEST: usize = 256;
    let id = headers.get("audit-id")?.to_str().ok()?;
    (1..=LONGEST).contains(&id.len()).then(|| id.into())
}

/// Converts the failure of an attempt. `connect` is the connect timeout.
pub(crate) fn of_failure(failure: Failure, connect: Duration) -> ErrorKind {
    match failure {
        Failure::Connect { refused, source } => ErrorKind::Connect { refused, cause: fault(String::new(), source) },
        Failure::ConnectTimeout => late(Phase::Connect, connect),
        Failure::HeadersTimeout(after) => late(Phase::Headers, after),
        Failure::Unprocessed(source) => ErrorKind::Unprocessed(fault(String::new(), source)),
        Failure::Exchange { source, .. } => ErrorKind::Transport(fault(String::new(), source)),
    }
}

pub(crate) fn late(phase: Phase, after: Duration) -> ErrorKind {
    let cause = Arc::new(DeadlineExceeded { phase, after });
    match phase {
        Phase::Connect => ErrorKind::Connect { refused: false, cause },
        _ => ErrorKind::Timeout(cause),
    }
}

pub(crate) fn too_large(limit: usize) -> ErrorKind {
    ErrorKind::Decode(Arc::new(ResponseTooLarge { limit }))
}

pub(crate) fn broken_body(error: BoxError) -> ErrorKind {
    ErrorKind::Transport(fault("while reading the response: ".into(), error.into()))
}

fn fault(context: String, source: Arc<dyn StdError + Send + Sync>) -> Cause {
    Arc::new(ConnectionFault { message: context + &in_one_line(&*source), source })
}

/// Formats an error and its sources in one line, from the outermost to the innermost.
pub(crate) fn in_one_line(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_keeps_only_the_beginning_of_a_large_body() {
        let line = Arc::new(RequestLine { method: "GET".into(), url: "http://localhost/".into() });
        for (size, expected) in [(100, 100), (MAX_ERROR_BODY, MAX_ERROR_BODY), (MAX_ERROR_BODY + 1, MAX_ERROR_BODY)] {
            let error = rejected(&line, Box::default(), &HeaderMap::new(), vec![b'x'; size].into());
            assert_eq!(error.response.map(|response| response.body.len()), Some(expected));
        }
    }
}
