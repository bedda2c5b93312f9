//! How requests fail, and why clients cannot be made.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use pintle_meta::{ApiError, Cause, ErrorKind, InvalidKey, Reason, RequestLine, Status};
use pintle_ratelimit::ThrottleError;
use thiserror::Error as ThisError;

/// How a request fails. Each message names the request, without secrets.
///
/// # Examples
///
/// ```
/// use pintle_meta::Reason;
/// use pintle_restreq::{Error, Request};
///
/// /// Sends a create, and says whether the object is new, if that can be told.
/// async fn create(request: &Request) -> Result<Option<bool>, Error> {
///     match request.send().await {
///         Ok(_) => Ok(Some(true)),
///         Err(error) if error.reason() != Some(&Reason::AlreadyExists) => Err(error),
///         // The attempt before may have made it.
///         Err(Error::Retried { .. }) => Ok(None),
///         Err(_) => Ok(Some(false)),
///     }
/// }
/// ```
#[derive(Clone, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was sent: the credentials could not be had.
    #[error("{request}: {source}")]
    Auth {
        /// The request.
        request: Arc<RequestLine>,
        /// Which credentials, and why.
        source: AuthError,
    },
    /// No connection came about. Nothing was sent.
    #[error("{request}: {message}")]
    Connect {
        /// The request.
        request: Arc<RequestLine>,
        /// Whether the peer refused: nothing listens there.
        refused: bool,
        /// What went wrong, from the outside in.
        message: Box<str>,
        /// The error beneath.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The answer is not what was asked for.
    #[error("{request}: the answer cannot be read: {message}")]
    Decode {
        /// The request.
        request: Arc<RequestLine>,
        /// What is wrong with it, and where.
        message: Box<str>,
    },
    /// Nothing was sent: the request makes no sense.
    #[error("{request}: {source}")]
    Invalid {
        /// The request, as far as it was built.
        request: Arc<RequestLine>,
        /// What is wrong with it.
        source: InvalidRequest,
    },
    /// The last attempt of several failed, and an earlier one may have done what the request asks for: a conflict may be one with
    /// oneself, and a refusal says nothing of what is stored now. Only requests that change something fail like this.
    #[error("{last} (an attempt before may have been done: {earlier})")]
    Retried {
        /// The attempt that may have been done.
        earlier: Box<Error>,
        /// The last attempt.
        last: Box<Error>,
    },
    /// The server answered, and its answer is no.
    #[error("{request}: {status}")]
    Status {
        /// The request.
        request: Arc<RequestLine>,
        /// The server's own status, or one made from the HTTP status where it gave none.
        status: Box<Status>,
        /// The answer's body; at most the first 64 KiB. `Debug` does not show it: it may be any object.
        body: Bytes,
        /// What the server's priority and fairness took the request for, if it said so.
        flow: Option<Arc<Flow>>,
        /// The `Audit-Id` of the answer: by it the request is found in the server's audit log.
        audit_id: Option<Box<str>>,
    },
    /// Nothing was sent: the client's own rate limit will not let the request through, however long it waits.
    #[error("{request}: the client's own rate limit, its qps and burst: {source}")]
    Throttled {
        /// The request.
        request: Arc<RequestLine>,
        /// Why the wait had no end.
        source: ThrottleError,
    },
    /// No answer in time. Unless `phase` is connecting, whether the server acted is unknown.
    #[error("{request}: no answer in time: {phase} took longer than {after:?}")]
    Timeout {
        /// The request.
        request: Arc<RequestLine>,
        /// What took too long.
        phase: Phase,
        /// The deadline that was missed.
        after: Duration,
    },
    /// The answer, or a frame of it, is larger than allowed.
    #[error(
        "{request}: the answer is larger than the limit of {limit} bytes; raise it with max_body, or ask for pages"
    )]
    TooLarge {
        /// The request.
        request: Arc<RequestLine>,
        /// The limit.
        limit: usize,
    },
    /// The connection failed. Whether the server acted is unknown.
    #[error("{request}: the connection failed: {message}")]
    Transport {
        /// The request.
        request: Arc<RequestLine>,
        /// What went wrong, from the outside in.
        message: Box<str>,
        /// The error beneath.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The connection failed, or the server refused the stream, before it looked at the request. Nothing was done.
    #[error("{request}: the server did not look at the request: {message}")]
    Unprocessed {
        /// The request.
        request: Arc<RequestLine>,
        /// What went wrong, from the outside in.
        message: Box<str>,
        /// The error beneath.
        source: Arc<dyn StdError + Send + Sync>,
    },
}

impl Error {
    /// The request that failed.
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

    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            Self::Retried { last, .. } => last.status(),
            _ => None,
        }
    }

    /// The reason in the server's answer, if it gave one.
    pub fn reason(&self) -> Option<&Reason> {
        self.status()?.reason.as_ref()
    }

    /// The `Audit-Id` of the server's answer, if it gave one.
    pub fn audit_id(&self) -> Option<&str> {
        match self {
            Self::Status { audit_id, .. } => audit_id.as_deref(),
            Self::Retried { last, .. } => last.audit_id(),
            _ => None,
        }
    }

    /// 404: no such object or resource. Other questions of this kind are answered by the [`ApiError`](pintle_meta::ApiError) that an
    /// error turns into.
    pub fn is_not_found(&self) -> bool {
        self.is(Reason::NotFound, StatusCode::NOT_FOUND)
    }

    /// 409 on create: an object of that name is there.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(&Reason::AlreadyExists)
    }

    /// 409 otherwise: the object changed meanwhile, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.is(Reason::Conflict, StatusCode::CONFLICT)
    }

    /// By its reason, or by its code where the answer has no reason that is known.
    fn is(&self, reason: Reason, code: StatusCode) -> bool {
        self.status().is_some_and(|status| match &status.reason {
            None | Some(Reason::Other(_)) => status.code == code.as_u16(),
            Some(told) => *told == reason,
        })
    }

    /// Who refused the request because there are too many, if that is how it failed.
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

/// Who has too many requests, and so refused one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_restreq::{Error, Throttling};
///
/// fn pause(error: &Error) -> Option<Duration> {
///     match error.throttling()? {
///         // The program asks for more than it allows itself.
///         Throttling::Client(_) => None,
///         Throttling::Server { retry_after, .. } => Some(retry_after.unwrap_or(Duration::from_secs(1))),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Throttling<'a> {
    /// The client, by its own rate limit. Nothing was sent.
    Client(&'a ThrottleError),
    /// The server, by its answer of 429. Nothing was done.
    Server {
        /// When to come back, in whole seconds, if it says so.
        retry_after: Option<Duration>,
        /// Which flow had too many, if its priority and fairness says so.
        flow: Option<&'a Flow>,
    },
}

/// What a server's priority and fairness takes a request for. It names objects of `flowcontrol.apiserver.k8s.io` by their uids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The uid of the FlowSchema that the request matched.
    pub flow_schema: Box<str>,
    /// The uid of the PriorityLevelConfiguration that this leads to; empty if it was not told.
    pub priority_level: Box<str>,
}

impl Flow {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let flow_schema = Some(text("x-kubernetes-pf-flowschema-uid")).filter(|uid| !uid.is_empty())?;
        let priority_level = text("x-kubernetes-pf-prioritylevel-uid");
        Some(Self { flow_schema: flow_schema.into(), priority_level: priority_level.into() })
    }
}

/// The `Audit-Id` of an answer. Of a text too long to be one there is none.
pub(crate) fn audit_id(headers: &HeaderMap) -> Option<Box<str>> {
    const LONGEST: usize = 256;
    let id = headers.get("audit-id")?.to_str().ok()?;
    (1..=LONGEST).contains(&id.len()).then(|| id.into())
}

impl fmt::Debug for Error {
    /// As the message has it, and what lies beneath.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Error");
        shown.field(&format_args!("{self}"));
        if let Some(source) = self.source() {
            shown.field(&source);
        }
        shown.finish()
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let beneath = |message: Box<str>, source| -> Cause { Arc::new(Beneath { message, source }) };
        let (request, kind) = match error {
            Error::Retried { last, .. } => return Self { earlier_may_have_acted: true, ..Self::from(*last) },
            Error::Status { request, status, .. } => (request, ErrorKind::Status(status)),
            Error::Auth { request, source } => (request, ErrorKind::Unauthenticated(Arc::new(source))),
            Error::Invalid { request, source } => (request, ErrorKind::InvalidRequest(Arc::new(source))),
            Error::Throttled { request, source } => {
                let message = format!("the client's own rate limit, its qps and burst: {source}");
                (request, ErrorKind::InvalidRequest(beneath(message.into(), Some(Arc::new(source)))))
            }
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

/// The cause of an [`ApiError`]: an [`Error`] without what the [`ApiError`] says by itself.
#[derive(Debug, ThisError)]
#[error("{message}")]
struct Beneath {
    message: Box<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What of a request took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Reaching the server, TLS included. Nothing was sent.
    Connect,
    /// Waiting for the first line of the answer.
    Headers,
    /// Waiting for the next bytes of the answer.
    Idle,
    /// The whole exchange.
    Total,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Headers => "the first line of the answer",
            Self::Idle => "the next part of the answer",
            Self::Total => "the whole exchange",
        })
    }
}

/// What is wrong with a request, found while it was built. The first fault is kept.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A part that can be set only once was set twice.
    #[error("{part} is already set to {first:?}, and cannot be changed to {second:?}")]
    AlreadySet {
        /// Which part.
        part: &'static str,
        /// What it was.
        first: String,
        /// What it was to become.
        second: String,
    },
    /// The file for the body cannot be read.
    #[error("the body cannot be read from {path}: {source}", path = path.display())]
    BodyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The body was a stream, and has been sent: it cannot be sent again.
    #[error("the body was a stream and is already used up; make a new request, or give the body as bytes")]
    BodyUsed,
    /// The body or the options cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {message}")]
    Encode {
        /// What was to be written.
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// A namespace is needed and was given as empty.
    #[error("the namespace is empty; name one, or leave it unset for a cluster-scoped resource")]
    EmptyNamespace,
    /// A header's name or value holds what may not stand there.
    #[error("header {name:?} has a name or a value that HTTP does not allow")]
    Header {
        /// The header.
        name: String,
    },
    /// The text that was given for a key is none.
    #[error(transparent)]
    Key(InvalidKey),
    /// The object or key does not fit the handle that it was given to.
    #[error("{0}")]
    Mismatch(String),
    /// A part of the path would change the meaning of the URL.
    #[error("{part} {value:?} is invalid: {why}")]
    Segment {
        /// Which part.
        part: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The text is no URL.
    #[error("{uri:?} is not a URL or a path: {message}")]
    Uri {
        /// The text.
        uri: String,
        /// What is wrong with it.
        message: String,
    },
}

impl From<InvalidRequest> for ApiError {
    fn from(error: InvalidRequest) -> Self {
        Self::invalid_request(error)
    }
}

/// Why a client cannot be made. Each message names the field of the configuration.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum ConfigError {
    /// Two fields exclude each other.
    #[error("{first} and {second} exclude each other; set one of them")]
    Conflict {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A file cannot be read.
    #[error("{field}: {path} cannot be read: {source}", path = path.display())]
    File {
        /// The field that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A field is needed by another one.
    #[error("{present} is set, but {missing} is not; set both or none")]
    Missing {
        /// The field that is there.
        present: &'static str,
        /// The field that is not.
        missing: &'static str,
    },
    /// A value cannot be used.
    #[error("{field}: {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// The server's address cannot be used.
    #[error("server {server:?}: {why}")]
    Server {
        /// The address, without user and password.
        server: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<ConfigError> for ApiError {
    fn from(error: ConfigError) -> Self {
        Self::invalid_request(error)
    }
}

/// Why credentials cannot be had.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum AuthError {
    /// The certificate that a credential program gave cannot be used.
    #[error("the certificate that the credential program gave cannot be used: {why}")]
    Certificate {
        /// What is wrong with it.
        why: String,
    },
    /// The credential program failed.
    #[error("credential program {command:?}: {why}")]
    Exec {
        /// The program.
        command: String,
        /// What went wrong, and what to do.
        why: String,
    },
    /// A login by OpenID Connect has ended, and its tokens cannot be refreshed.
    #[error("login at {issuer:?}: {why}")]
    Oidc {
        /// The issuer's URL, without user and password.
        issuer: String,
        /// What went wrong, and what to do.
        why: String,
    },
    /// The token file cannot be used.
    #[error("token file {path}: {why}", path = path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}
