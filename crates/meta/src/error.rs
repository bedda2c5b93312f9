//! How a request fails, in the words of what stands above the network.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Reason, Status};

/// How a request to an API server fails, seen from above the network.
///
/// A client's own error says more; what informers, electors, recorders and controllers decide on is here: what kind of
/// failure it is, what was asked for, how long the server wants to be left alone, and whether something may have been changed
/// all the same. It is cheap to clone, so that one failure can be told to many.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, Reason, Status};
///
/// let error = ApiError::from(Status::failure(404, Reason::NotFound, "pods \"a\" not found"));
/// assert!(error.is_not_found() && !error.may_have_acted());
/// ```
#[derive(Clone, Debug)]
pub struct ApiError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The request that failed, if the client said which.
    pub request: Option<Arc<RequestLine>>,
    /// How long the server asks to be left alone, if it says so.
    pub retry_after: Option<Duration>,
    /// Whether an earlier attempt of the same request may have done what was asked for, whatever became of the last one. A
    /// conflict may then be a conflict with oneself.
    pub earlier_may_have_acted: bool,
}

/// What kind of failure an [`ApiError`] is.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ErrorKind};
///
/// fn advice(error: &ApiError) -> &'static str {
///     match &error.kind {
///         ErrorKind::Connect { refused: true, .. } => "start the server",
///         ErrorKind::Status(status) if status.code == 403 => "ask for the right to do it",
///         ErrorKind::Unauthenticated(_) => "log in again",
///         _ => "look into the log",
///     }
/// }
/// assert_eq!(advice(&ApiError::connection_refused("nothing listens on 10.0.0.1:6443")), "start the server");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection came about. Nothing was sent.
    Connect {
        /// Whether the peer refused: nothing listens there.
        refused: bool,
        /// Why.
        cause: Cause,
    },
    /// The answer is not what was asked for: broken JSON, a missing field, a frame of an unknown type. For a write, the server
    /// has acted.
    Decode(Cause),
    /// The request makes no sense. Nothing was sent.
    InvalidRequest(Cause),
    /// The server answered, and its answer is no.
    Status(Box<Status>),
    /// No answer came in time. Whether the server acted is unknown.
    Timeout(Cause),
    /// The connection failed. Whether the server acted is unknown.
    Transport(Cause),
    /// The credentials could not be had, which may be another matter a moment later. Nothing was sent.
    Unauthenticated(Cause),
    /// The connection failed, or the server refused the request's stream, before it looked at the request. Nothing was done.
    Unprocessed(Cause),
}

/// The error beneath an [`ApiError`]. It does not name the request, which stands beside it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A request as errors and logs name it: its method, and its URL without user, password, or the values of parameters that may
/// be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// `GET`, `POST` and so on.
    pub method: Box<str>,
    /// The URL.
    pub url: Box<str>,
}

impl RequestLine {
    /// The path of the URL: no server, no query.
    pub fn path(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let path = &rest[rest.find('/').unwrap_or(rest.len())..];
        path.split('?').next().unwrap_or_default()
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

impl ApiError {
    /// An answer that cannot be read.
    pub fn decode(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Decode(cause.into().into()).into()
    }

    /// A request that makes no sense.
    pub fn invalid_request(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::InvalidRequest(cause.into().into()).into()
    }

    /// No answer in time.
    pub fn timeout(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Timeout(cause.into().into()).into()
    }

    /// A connection that failed after the request was sent, or may have been.
    pub fn transport(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Transport(cause.into().into()).into()
    }

    /// A peer that nothing listens on.
    pub fn connection_refused(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Connect { refused: true, cause: cause.into().into() }.into()
    }

    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match &self.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The reason in the server's answer, if it gave one.
    pub fn reason(&self) -> Option<&Reason> {
        self.status()?.reason.as_ref()
    }

    /// Whether the server may have done what was asked for, in this attempt or an earlier one. For a read this means nothing.
    ///
    /// A refusal (4xx, 501) leaves no doubt, unless an earlier attempt of the same request did. Other answers of 500 and more may
    /// come from whoever stands in between, and prove nothing: Envoy says 503 of a connection that broke after the request.
    pub fn may_have_acted(&self) -> bool {
        let this = match &self.kind {
            ErrorKind::Connect { .. }
            | ErrorKind::InvalidRequest(_)
            | ErrorKind::Unauthenticated(_)
            | ErrorKind::Unprocessed(_) => false,
            ErrorKind::Decode(_) | ErrorKind::Timeout(_) | ErrorKind::Transport(_) => true,
            ErrorKind::Status(status) => match status.code {
                501 => false,
                0 => matches!(
                    status.reason,
                    None | Some(
                        Reason::InternalError | Reason::Timeout | Reason::ServerTimeout | Reason::ServiceUnavailable
                    )
                ),
                code => code >= 500,
            },
        };
        this || self.earlier_may_have_acted
    }

    /// Nothing listens there.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self.kind, ErrorKind::Connect { refused: true, .. })
    }

    /// No answer came: no connection, a broken one, or none in time.
    pub fn is_unanswered(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Connect { .. } | ErrorKind::Timeout(_) | ErrorKind::Transport(_) | ErrorKind::Unprocessed(_)
        )
    }

    /// 404: no such object or resource.
    pub fn is_not_found(&self) -> bool {
        self.is(&[Reason::NotFound], 404)
    }

    /// 409 on create: an object of that name is there.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(&Reason::AlreadyExists)
    }

    /// 409 otherwise: the object changed meanwhile, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.is(&[Reason::Conflict], 409)
    }

    /// 422: a field has a value that it may not have.
    pub fn is_invalid(&self) -> bool {
        self.is(&[Reason::Invalid], 422)
    }

    /// 400: the request makes no sense to the server.
    pub fn is_bad_request(&self) -> bool {
        self.is(&[Reason::BadRequest], 400)
    }

    /// 401: the server does not know who is asking.
    pub fn is_unauthorized(&self) -> bool {
        self.is(&[Reason::Unauthorized], 401)
    }

    /// 403: the user may not.
    pub fn is_forbidden(&self) -> bool {
        self.is(&[Reason::Forbidden], 403)
    }

    /// 405: the resource does not do that.
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(&[Reason::MethodNotAllowed], 405)
    }

    /// 406: no representation that the client accepts.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(&[Reason::NotAcceptable], 406)
    }

    /// 413: the body is too large.
    pub fn is_too_large(&self) -> bool {
        self.is(&[Reason::RequestEntityTooLarge], 413)
    }

    /// 415: the body is in no language that the server knows.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(&[Reason::UnsupportedMediaType], 415)
    }

    /// 410, for good: it was there, and is not any more.
    pub fn is_gone(&self) -> bool {
        self.is(&[Reason::Gone], 410)
    }

    /// The asked-for revision is too old to be had: list again without one. By reason or by the bare code 410.
    pub fn is_expired(&self) -> bool {
        self.is(&[Reason::Expired, Reason::Gone], 410)
    }

    /// 429: the server, or a limiter on the way, wants fewer requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.reason == Some(Reason::TooManyRequests) || status.code == 429)
    }

    /// 500: an accident of the server.
    pub fn is_internal_error(&self) -> bool {
        self.is(&[Reason::InternalError], 500)
    }

    /// 503: try again later.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(&[Reason::ServiceUnavailable], 503)
    }

    /// 504: the server could not do it in time. That no answer came in time at all is [`ErrorKind::Timeout`].
    pub fn is_timeout(&self) -> bool {
        self.is(&[Reason::Timeout], 504)
    }

    /// The server cannot do it now, and knows a better time: client-go's `IsServerTimeout`.
    pub fn is_server_timeout(&self) -> bool {
        self.reason() == Some(&Reason::ServerTimeout)
    }

    /// The answer did not come from the API server, as far as can be told: it was no status, and one had to be made of what HTTP
    /// said. client-go's `IsUnexpectedServerError`.
    pub fn is_unexpected_server_error(&self) -> bool {
        self.has_cause("UnexpectedServerResponse")
    }

    /// The server cannot read what it has stored: client-go's `IsStoreReadError`.
    pub fn is_store_read_error(&self) -> bool {
        self.reason().is_some_and(|reason| reason.as_str() == "StorageReadError")
    }

    /// The asked-for revision is one that this server has not seen yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        const MESSAGE: &str = "Too large resource version";
        let Some(status) = self.status() else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let mut told = causes.map(|cause| (cause.reason.as_str(), cause.message.as_str()));
        told.any(|(reason, message)| reason == "ResourceVersionTooLarge" || message.contains(MESSAGE))
            || (status.reason == Some(Reason::Timeout) && status.message.contains(MESSAGE))
    }

    /// Whether one of the faults in the server's answer goes by that reason, such as `FieldValueRequired`.
    pub fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// By one of the reasons or, where the answer has none that is known, by its code: client-go's rule.
    fn is(&self, reasons: &[Reason], code: u16) -> bool {
        self.status().is_some_and(|status| match &status.reason {
            None | Some(Reason::Other(_)) => status.code == code,
            Some(reason) => reasons.contains(reason),
        })
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(request) = &self.request {
            write!(f, "{request}: ")?;
        }
        match &self.kind {
            ErrorKind::Connect { refused: true, cause } => write!(f, "connection refused: {cause}"),
            ErrorKind::Connect { cause, .. } => write!(f, "no connection: {cause}"),
            ErrorKind::Decode(cause) => write!(f, "the answer cannot be read: {cause}"),
            ErrorKind::InvalidRequest(cause) => write!(f, "the request cannot be sent: {cause}"),
            ErrorKind::Status(status) => status.fmt(f),
            ErrorKind::Timeout(cause) => write!(f, "no answer in time: {cause}"),
            ErrorKind::Transport(cause) => write!(f, "the connection failed: {cause}"),
            ErrorKind::Unauthenticated(cause) => write!(f, "the credentials cannot be had: {cause}"),
            ErrorKind::Unprocessed(cause) => write!(f, "the server did not look at the request: {cause}"),
        }?;
        match self.earlier_may_have_acted {
            true => f.write_str(" (an earlier attempt of the request may have been done)"),
            false => Ok(()),
        }
    }
}

impl Error for ApiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::Status(_) => None,
            ErrorKind::Connect { cause, .. }
            | ErrorKind::Decode(cause)
            | ErrorKind::InvalidRequest(cause)
            | ErrorKind::Timeout(cause)
            | ErrorKind::Transport(cause)
            | ErrorKind::Unauthenticated(cause)
            | ErrorKind::Unprocessed(cause) => Some(&**cause),
        }
    }
}

impl From<ErrorKind> for ApiError {
    fn from(kind: ErrorKind) -> Self {
        let details = match &kind {
            ErrorKind::Status(status) => status.details.as_ref(),
            _ => None,
        };
        let seconds = details.map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Self { kind, request: None, retry_after, earlier_may_have_acted: false }
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        ErrorKind::Status(Box::new(status)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, reason: Option<Reason>) -> ApiError {
        Status { code, reason, ..Status::default() }.into()
    }

    #[test]
    fn an_answer_without_a_known_reason_is_judged_by_its_code() {
        assert!(answer(404, None).is_not_found());
        assert!(answer(404, Some(Reason::Other("Nowhere".into()))).is_not_found());
        assert!(!answer(404, Some(Reason::Forbidden)).is_not_found());
        assert!(answer(410, None).is_expired() && answer(410, Some(Reason::Gone)).is_expired());
        assert!(answer(500, Some("StorageReadError".into())).is_store_read_error());
        assert!(!answer(500, None).is_store_read_error() && !answer(500, None).is_unexpected_server_error());
        assert!(answer(409, None).is_conflict() && !answer(409, Some(Reason::AlreadyExists)).is_conflict());
    }

    #[test]
    fn only_a_refusal_proves_that_nothing_was_done() {
        for (error, expected) in [
            (answer(409, Some(Reason::Conflict)), false),
            (answer(429, None), false),
            (answer(501, None), false),
            (answer(503, None), true),
            (answer(500, None), true),
            (answer(502, None), true),
            (answer(504, Some(Reason::Timeout)), true),
            (answer(0, Some(Reason::Timeout)), true),
            (answer(0, Some(Reason::Conflict)), false),
            (ApiError::transport("cut"), true),
            (ApiError::timeout("late"), true),
            (ApiError::connection_refused("nobody"), false),
            (ApiError::invalid_request("no name"), false),
            (ErrorKind::Unprocessed(Arc::new(std::io::Error::other("refused"))).into(), false),
            (ApiError { earlier_may_have_acted: true, ..answer(409, Some(Reason::Conflict)) }, true),
        ] {
            assert_eq!(error.may_have_acted(), expected, "{error}");
        }
    }

    #[test]
    fn an_error_names_its_request_and_no_query() {
        let line = RequestLine { method: "PUT".into(), url: "https://host/api/v1/pods/a?dryRun=All".into() };
        assert_eq!(line.path(), "/api/v1/pods/a");
        let request = Some(Arc::new(line));
        let error = ApiError { request: request.clone(), ..answer(409, Some(Reason::Conflict)) };
        assert!(error.to_string().starts_with("PUT https://host/api/v1/pods/a"), "{error}");
        let error = ApiError { request, ..ApiError::decode("no pod") };
        assert_eq!(error.to_string(), "PUT https://host/api/v1/pods/a?dryRun=All: the answer cannot be read: no pod");
    }
}
