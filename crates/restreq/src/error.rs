//! Request errors and credential errors.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use pintle_meta::{ApiError, Cause, ErrorKind, Flow, InvalidKey, Reason, RequestLine, ResponseInfo, Status};
use pintle_ratelimit::ThrottleError;
use pintle_transport::{BoxError, causes};
use thiserror::Error as ThisError;

/// A request error. The error message names the request and does not contain secrets.
///
/// # Examples
///
/// ```
/// use pintle_meta::Reason;
/// use pintle_restreq::{Error, Request};
///
/// /// Sends a create. Returns whether the object is new, or `None` if that is unknown.
/// async fn create(request: &Request) -> Result<Option<bool>, Error> {
///     match request.send().await {
///         Ok(_) => Ok(Some(true)),
///         Err(error) if error.reason() != Some(&Reason::AlreadyExists) => Err(error),
///         // An earlier attempt may have created it.
///         Err(Error::Retried { .. }) => Ok(None),
///         Err(_) => Ok(Some(false)),
///     }
/// }
/// ```
#[derive(Clone, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The client could not obtain credentials, so it did not send the request.
    #[error("{request}: {source}")]
    Auth {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The reason why the client has no credentials.
        source: AuthError,
    },
    /// The client could not connect to the server, so it did not send the request.
    #[error("{request}: {message}")]
    Connect {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// Whether the server refused the connection, usually because no process listens on the port.
        refused: bool,
        /// The messages of the error and its sources, from the outermost to the innermost.
        message: Box<str>,
        /// The underlying error.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The response could not be decoded.
    #[error("{request}: cannot read the response: {message}")]
    Decode {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// A description of the problem and its position in the response.
        message: Box<str>,
    },
    /// The request is invalid, so the client did not send it.
    #[error("{request}: {source}")]
    Invalid {
        /// The part of the request that was built before the error.
        request: Arc<RequestLine>,
        /// The reason why the request is invalid.
        source: InvalidRequest,
    },
    /// The last attempt of a write failed, but the server may have processed an earlier attempt. The earlier attempt
    /// may have changed the object, and may have caused a conflict.
    #[error("{last} (an earlier attempt may have been processed: {earlier})")]
    Retried {
        /// The error of the earlier attempt.
        earlier: Box<Error>,
        /// The error of the last attempt.
        #[source]
        last: Box<Error>,
    },
    /// The server responded with an error status.
    #[error("{request}: {status}")]
    Status {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The server's status. If the response contains no `Status` object, the status is derived from the HTTP status
        /// code.
        #[source]
        status: Box<Status>,
        /// The beginning of the response body, at most 64 KiB. The `Debug` output does not include the body, because it
        /// can contain any object.
        body: Bytes,
        /// The flow of the request in API Priority and Fairness, if the server sent it.
        flow: Option<Arc<Flow>>,
        /// The `Audit-Id` of the response, which identifies the request in the audit log of the server.
        audit_id: Option<Box<str>>,
    },
    /// The rate limit of the client can never allow the request, so the client did not send it.
    #[error("{request}: the client's own rate limit, its qps and burst: {source}")]
    Throttled {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The reason why the rate limit can never allow the request.
        source: ThrottleError,
    },
    /// A deadline passed. In [`Phase::Connect`], the client did not send the request. In all other phases, it is
    /// unknown whether the server processed the request.
    #[error("{request}: no response in time: {phase} took longer than {after:?}")]
    Timeout {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The phase that took too long.
        phase: Phase,
        /// The deadline that passed.
        after: Duration,
    },
    /// A response body or a watch event exceeds its size limit.
    #[error(
        "{request}: the response is larger than the limit of {limit} bytes; raise it with max_body, or ask for pages"
    )]
    TooLarge {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The connection failed. After a lost connection, it is unknown whether the server processed the request.
    #[error("{request}: the connection failed: {message}")]
    Transport {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The messages of the error and its sources, from the outermost to the innermost.
        message: Box<str>,
        /// The underlying error.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The connection failed, or the server refused the HTTP/2 stream, before the request was processed. The request
    /// had no effect.
    #[error("{request}: the server did not process the request: {message}")]
    Unprocessed {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The messages of the error and its sources, from the outermost to the innermost.
        message: Box<str>,
        /// The underlying error.
        source: Arc<dyn StdError + Send + Sync>,
    },
}

impl Error {
    /// Returns the method and the URL of the request that failed.
    pub fn request(&self) -> &Arc<RequestLine> {
        match self {
            Self::Auth { request, .. }
            | Self::Connect { request, .. }
            | Self::Decode { request, .. }
            | Self::Invalid { request, .. }
            | Self::Status { request, .. }
            | Self::Throttled { request, .. }
            | Self::Timeout { request, .. }
            | Self::TooLarge { request, .. }
            | Self::Transport { request, .. }
            | Self::Unprocessed { request, .. } => request,
            Self::Retried { last, .. } => last.request(),
        }
    }

    /// Returns the [`Status`] that the server sent, if any.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            Self::Retried { last, .. } => last.status(),
            _ => None,
        }
    }

    /// Returns the reason in the server's [`Status`], if any. This method does not check the status code, unlike the
    /// methods of [`ApiError`], such as [`is_not_found`](ApiError::is_not_found).
    pub fn reason(&self) -> Option<&Reason> {
        self.status()?.reason.as_ref()
    }

    /// Returns the `Audit-Id` of the response, if any.
    pub fn audit_id(&self) -> Option<&str> {
        match self {
            Self::Status { audit_id, .. } => audit_id.as_deref(),
            Self::Retried { last, .. } => last.audit_id(),
            _ => None,
        }
    }

    /// Returns whether the client or the server throttled the request, or `None` if the request was not throttled.
    pub fn throttling(&self) -> Option<Throttling<'_>> {
        match self {
            Self::Throttled { source, .. } => Some(Throttling::Client(source)),
            Self::Status { status, flow, .. } if status.code == StatusCode::TOO_MANY_REQUESTS.as_u16() => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Some(Throttling::Server { retry_after, flow: flow.as_deref() })
            }
            Self::Retried { last, .. } => last.throttling(),
            _ => None,
        }
    }
}

/// The reason why a request was throttled.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_restreq::{Error, Throttling};
///
/// fn pause(error: &Error) -> Option<Duration> {
///     match error.throttling()? {
///         // The program exceeds its own rate limit.
///         Throttling::Client(_) => None,
///         Throttling::Server { retry_after, .. } => Some(retry_after.unwrap_or(Duration::from_secs(1))),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Throttling<'a> {
    /// The rate limit of the client did not allow the request, so the client did not send it.
    Client(&'a ThrottleError),
    /// The server rejected the request with status 429, so the request had no effect.
    Server {
        /// The delay before a retry that the server requested, in whole seconds.
        retry_after: Option<Duration>,
        /// The flow of the request in API Priority and Fairness, if the server sent it. The flow has exceeded its share
        /// of the server's capacity.
        flow: Option<&'a Flow>,
    },
}

pub(crate) fn flow(headers: &HeaderMap) -> Option<Flow> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let flow_schema = Some(text("x-kubernetes-pf-flowschema-uid")).filter(|uid| !uid.is_empty())?;
    let priority_level = text("x-kubernetes-pf-prioritylevel-uid");
    Some(Flow { flow_schema: flow_schema.into(), priority_level: priority_level.into() })
}

/// Returns a response's `Audit-Id`. An empty or very long `Audit-Id` is ignored.
pub(crate) fn audit_id(headers: &HeaderMap) -> Option<Box<str>> {
    const LONGEST: usize = 256;
    let id = headers.get("audit-id")?.to_str().ok()?;
    (1..=LONGEST).contains(&id.len()).then(|| id.into())
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Error");
        shown.field(&format_args!("{self}"));
        // The messages of `Status` and `Retried` already contain the status or the last error.
        if !matches!(self, Self::Status { .. } | Self::Retried { .. })
            && let Some(source) = self.source()
        {
            shown.field(&source);
        }
        shown.finish()
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let beneath = |message: Box<str>, source| -> Cause { Arc::new(ApiErrorSource { message, source }) };
        let (request, kind) = match error {
            Error::Retried { earlier, last } => {
                return Self { earlier: Some(Arc::new(Self::from(*earlier))), ..Self::from(*last) };
            }
            Error::Status { request, status, body, flow, audit_id } => {
                let response = ResponseInfo { audit_id, flow: flow.as_deref().cloned(), body };
                let (request, response) = (Some(request), Some(Arc::new(response)));
                return Self { request, response, ..Self::from(ErrorKind::Status(status)) };
            }
            Error::Auth { request, source } => (request, ErrorKind::Unauthenticated(Arc::new(source))),
            Error::Invalid { request, source } => (request, ErrorKind::InvalidRequest(Arc::new(source))),
            Error::Throttled { request, source } => (request, ErrorKind::Throttled(Arc::new(source))),
            Error::Connect { request, refused, message, source } => {
                (request, ErrorKind::Connect { refused, cause: beneath(message, Some(source)) })
            }
            Error::Decode { request, message } => (request, ErrorKind::Decode(beneath(message, None))),
            Error::TooLarge { request, limit } => {
                let message =
                    format!("it is larger than the limit of {limit} bytes; raise it with max_body, or ask for pages");
                (request, ErrorKind::Decode(beneath(message.into(), None)))
            }
            Error::Timeout { request, phase, after } => {
                let cause = beneath(format!("{phase} took longer than {after:?}").into(), None);
                match phase {
                    Phase::Connect => (request, ErrorKind::Connect { refused: false, cause }),
                    _ => (request, ErrorKind::Timeout(cause)),
                }
            }
            Error::Transport { request, message, source } => {
                (request, ErrorKind::Transport(beneath(message, Some(source))))
            }
            Error::Unprocessed { request, message, source } => {
                (request, ErrorKind::Unprocessed(beneath(message, Some(source))))
            }
        };
        Self { request: Some(request), ..Self::from(kind) }
    }
}

/// The source of an [`ApiError`]. The message of this source omits the text that the [`ApiError`]'s message already
/// contains.
#[derive(Debug, ThisError)]
#[error("{message}")]
struct ApiErrorSource {
    message: Box<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
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

pub(crate) enum BodyFault {
    Idle(Duration),
    TooLarge(usize),
    Total(Duration),
    Transport(BoxError),
}

impl BodyFault {
    pub(crate) fn into_error(self, line: &Arc<RequestLine>) -> Error {
        let request = line.clone();
        match self {
            Self::Idle(after) => late(line, Phase::Idle, after),
            Self::TooLarge(limit) => Error::TooLarge { request, limit },
            Self::Total(after) => late(line, Phase::Total, after),
            Self::Transport(error) => {
                let message = format!("while reading the response: {}", in_one_line(&*error));
                Error::Transport { request, message: message.into(), source: error.into() }
            }
        }
    }
}

pub(crate) fn late(line: &Arc<RequestLine>, phase: Phase, after: Duration) -> Error {
    Error::Timeout { request: line.clone(), phase, after }
}
