//! The error type that all clients return.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::response::ResponseInfo;
use crate::status::{Reason, Status};

/// The error of a failed API request, which every client returns.
///
/// An `ApiError` contains the kind of failure, the request, the delay that the server requested, and whether the server
/// may have executed the request. Informers, electors, recorders and controllers use these fields to decide whether to
/// retry, list again or give up. Cloning an `ApiError` is cheap.
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
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The request that failed, if known.
    pub request: Option<Arc<RequestLine>>,
    /// The delay before a retry, if the server requested one. Clients also store this delay in
    /// [`StatusDetails::retry_after_seconds`](crate::StatusDetails::retry_after_seconds).
    pub retry_after: Option<Duration>,
    /// The error of an earlier attempt that the server may have executed. The earlier attempt may be the cause of a
    /// conflict.
    pub earlier: Option<Arc<ApiError>>,
    /// Details of the response that contained the error, such as its audit ID.
    pub response: Option<Arc<ResponseInfo>>,
}

/// The kind of failure in an [`ApiError`].
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
    /// The client could not establish a connection, and did not send the request.
    Connect {
        /// Whether the peer refused the connection because no program listens on the address.
        refused: bool,
        /// The underlying error.
        cause: Cause,
    },
    /// The client could not decode the response. For example, the JSON is invalid, a required field is missing, or a
    /// watch event has an unknown type. The server has executed the request.
    Decode(Cause),
    /// The request is invalid, and the client did not send it.
    InvalidRequest(Cause),
    /// The server returned an error status.
    Status(Box<Status>),
    /// The client's own rate limit can never allow the request, so the client did not send it. If the server throttled
    /// the request, the error is a [`Status`](Self::Status) instead, for which
    /// [`is_too_many_requests`](ApiError::is_too_many_requests) returns `true`.
    Throttled(Cause),
    /// No response arrived in time. The client does not know whether the server has executed the request.
    Timeout(Cause),
    /// The connection failed. The client does not know whether the server has executed the request.
    Transport(Cause),
    /// The client could not obtain credentials, and did not send the request. A later attempt may succeed.
    Unauthenticated(Cause),
    /// The connection failed, or the server refused the HTTP/2 stream, before the server processed the request. The
    /// server has not executed the request.
    Unprocessed(Cause),
}

/// The cause of an [`ApiError`]. The message does not repeat the request, which is stored in [`ApiError::request`].
pub type Cause = Arc<dyn Error + Send + Sync>;

/// The method and URL of a request, for errors and logs. The URL does not contain user names, passwords, or the values
/// of query parameters that may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The method, such as `GET`.
    pub method: Box<str>,
    /// The URL.
    pub url: Box<str>,
}

impl RequestLine {
    /// Returns the path of the URL, without the scheme, the host and the query.
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
    /// Creates a [`Decode`](ErrorKind::Decode) error.
    pub fn decode(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Decode(cause.into().into()).into()
    }

    /// Creates an [`InvalidRequest`](ErrorKind::InvalidRequest) error.
    pub fn invalid_request(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::InvalidRequest(cause.into().into()).into()
    }

    /// Creates a [`Timeout`](ErrorKind::Timeout) error.
    pub fn timeout(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Timeout(cause.into().into()).into()
    }

    /// Creates a [`Transport`](ErrorKind::Transport) error.
    pub fn transport(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Transport(cause.into().into()).into()
    }

    /// Creates a [`Connect`](ErrorKind::Connect) error with `refused: true`.
    pub fn connection_refused(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ErrorKind::Connect { refused: true, cause: cause.into().into() }.into()
    }

    /// Returns the [`Status`] that the server returned, if any.
    pub fn status(&self) -> Option<&Status> {
        match &self.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Returns the reason in the server's [`Status`], if any.
    pub fn reason(&self) -> Option<&Reason> {
        self.status()?.reason.as_ref()
    }

    /// Returns the first error of type `E` in the chain of sources. With this method, a caller can find the reasons
    /// that a client stores as the cause of the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use pintle_meta::ApiError;
    ///
    /// let error = ApiError::transport(io::Error::from(io::ErrorKind::ConnectionReset));
    /// assert_eq!(error.cause::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::ConnectionReset));
    /// ```
    pub fn cause<E: Error + 'static>(&self) -> Option<&E> {
        std::iter::successors(self.source(), |error| Error::source(*error)).find_map(|error| error.downcast_ref())
    }

    /// Returns `true` if the server may have executed this attempt or an earlier attempt. Call this method only for
    /// write requests.
    ///
    /// After a 4xx status or status 501, the server has not executed this attempt. After other statuses of 500 or
    /// above, the outcome is unknown, because the status may come from a proxy. For example, Envoy returns 503 if a
    /// connection breaks after it has forwarded the request.
    pub fn may_have_acted(&self) -> bool {
        let this = match &self.kind {
            ErrorKind::Connect { .. }
            | ErrorKind::InvalidRequest(_)
            | ErrorKind::Throttled(_)
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
        this || self.earlier.is_some()
    }

    /// Returns `true` if the server refused the connection.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self.kind, ErrorKind::Connect { refused: true, .. })
    }

    /// Returns `true` if the client received no response because it could not connect, the connection broke, or the
    /// request timed out.
    pub fn is_unanswered(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Connect { .. } | ErrorKind::Timeout(_) | ErrorKind::Transport(_) | ErrorKind::Unprocessed(_)
        )
    }

    /// Returns `true` for a 404 status: the object or the resource does not exist. To check whether an object was
    /// deleted, use [`is_object_not_found`](Self::is_object_not_found) instead, because a 404 status can also come from
    /// a proxy.
    pub fn is_not_found(&self) -> bool {
        self.is(&[Reason::NotFound], 404)
    }

    /// Returns `true` if the API server reported that the object does not exist. Returns `false` for a 404 response
    /// without a `Status` object, which may come from a proxy or from a server without the resource.
    pub fn is_object_not_found(&self) -> bool {
        self.is_not_found() && !self.is_unexpected_server_error()
    }

    /// Returns `true` for the reason `AlreadyExists`: an object with this name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(&Reason::AlreadyExists)
    }

    /// Returns `true` for a 409 conflict: the object has changed or a precondition failed.
    pub fn is_conflict(&self) -> bool {
        self.is(&[Reason::Conflict], 409)
    }

    /// Returns `true` for a 422 status: a field has an invalid value.
    pub fn is_invalid(&self) -> bool {
        self.is(&[Reason::Invalid], 422)
    }

    /// Returns `true` for a 400 status: the request is malformed.
    pub fn is_bad_request(&self) -> bool {
        self.is(&[Reason::BadRequest], 400)
    }

    /// Returns `true` for a 401 status: the request is not authenticated.
    pub fn is_unauthorized(&self) -> bool {
        self.is(&[Reason::Unauthorized], 401)
    }

    /// Returns `true` for a 403 status: the user lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        self.is(&[Reason::Forbidden], 403)
    }

    /// Returns `true` for a 405 status: the resource does not support the method.
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(&[Reason::MethodNotAllowed], 405)
    }

    /// Returns `true` for a 406 status: the server supports none of the media types that the client accepts.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(&[Reason::NotAcceptable], 406)
    }

    /// Returns `true` for a 413 status: the request body is too large.
    pub fn is_too_large(&self) -> bool {
        self.is(&[Reason::RequestEntityTooLarge], 413)
    }

    /// Returns `true` for a 415 status: the server does not support the media type of the request body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(&[Reason::UnsupportedMediaType], 415)
    }

    /// Returns `true` for the reason `Gone`, and for a 410 status without a known reason. The resource no longer
    /// exists.
    pub fn is_gone(&self) -> bool {
        self.is(&[Reason::Gone], 410)
    }

    /// Returns `true` for the reasons `Expired` and `Gone`, and for a 410 status without a known reason. The requested
    /// revision is too old, and the server no longer has it. To recover, list again without a revision.
    pub fn is_expired(&self) -> bool {
        self.is(&[Reason::Expired, Reason::Gone], 410)
    }

    /// Returns `true` for a 429 status: the server or a proxy has received too many requests. [`ResponseInfo::flow`]
    /// identifies the flow that has exceeded its share of the server's capacity. If the client's own rate limit has
    /// prevented the request, the error is [`ErrorKind::Throttled`] instead.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.reason == Some(Reason::TooManyRequests) || status.code == 429)
    }

    /// Returns `true` for a 500 status: an internal error occurred in the server.
    pub fn is_internal_error(&self) -> bool {
        self.is(&[Reason::InternalError], 500)
    }

    /// Returns `true` for a 503 status: the service is unavailable. Retry later.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(&[Reason::ServiceUnavailable], 503)
    }

    /// Returns `true` for a 504 status: the server timed out. If the client received no response in time, the kind of
    /// the error is [`ErrorKind::Timeout`] instead.
    pub fn is_timeout(&self) -> bool {
        self.is(&[Reason::Timeout], 504)
    }

    /// Returns `true` for the reason `ServerTimeout`, with which a server asks the client to retry later. This method
    /// corresponds to client-go's `IsServerTimeout`.
    pub fn is_server_timeout(&self) -> bool {
        self.reason() == Some(&Reason::ServerTimeout)
    }

    /// Returns `true` if the response did not contain a `Status` object, and the client derived the status from the
    /// HTTP status code. A response without a `Status` probably comes from a proxy. This method corresponds to
    /// client-go's `IsUnexpectedServerError`.
    pub fn is_unexpected_server_error(&self) -> bool {
        self.has_cause("UnexpectedServerResponse")
    }

    /// Returns `true` if the server failed to read its stored data, like client-go's `IsStoreReadError`.
    pub fn is_store_read_error(&self) -> bool {
        self.reason().is_some_and(|reason| reason.as_str() == "StorageReadError")
    }

    /// Returns `true` if the requested revision is newer than the cache of the server. The client should retry the
    /// request later.
    pub fn is_too_large_resource_version(&self) -> bool {
        const MESSAGE: &str = "Too large resource version";
        let Some(status) = self.status() else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let mut causes = causes.map(|cause| (cause.reason.as_str(), cause.message.as_str()));
        causes.any(|(reason, message)| reason == "ResourceVersionTooLarge" || message.contains(MESSAGE))
            || (status.reason == Some(Reason::Timeout) && status.message.contains(MESSAGE))
    }

    /// Returns `true` if the server's [`Status`] has a cause with this reason, such as `FieldValueRequired`.
    pub fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Returns `true` if the status has one of the given reasons. If the reason is missing or unknown, compares the
    /// status code with `code`, like client-go.
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
            ErrorKind::Decode(cause) => write!(f, "cannot read the response: {cause}"),
            ErrorKind::InvalidRequest(cause) => write!(f, "the request cannot be sent: {cause}"),
            ErrorKind::Status(status) => status.fmt(f),
            ErrorKind::Throttled(cause) => write!(f, "the client's own rate limit, its qps and burst: {cause}"),
            ErrorKind::Timeout(cause) => write!(f, "no response in time: {cause}"),
            ErrorKind::Transport(cause) => write!(f, "the connection failed: {cause}"),
            ErrorKind::Unauthenticated(cause) => write!(f, "cannot obtain credentials: {cause}"),
            ErrorKind::Unprocessed(cause) => write!(f, "the server did not process the request: {cause}"),
        }?;
        match &self.earlier {
            Some(earlier) => write!(f, " (an earlier attempt may have been executed: {earlier})"),
            None => Ok(()),
        }
    }
}

impl Error for ApiError {
    /// Returns the [`Status`] of the response. If there was no response, returns the underlying error. A wrapper such
    /// as thiserror's `#[error(transparent)]` removes the `ApiError` from the source chain, but keeps the `Status`.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::Status(status) => Some(&**status),
            ErrorKind::Connect { cause, .. }
            | ErrorKind::Decode(cause)
            | ErrorKind::InvalidRequest(cause)
            | ErrorKind::Throttled(cause)
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
        Self { kind, request: None, retry_after, earlier: None, response: None }
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
    fn status_without_a_known_reason_is_classified_by_code() {
        assert!(answer(404, None).is_not_found());
        assert!(answer(404, Some(Reason::Other("Nowhere".into()))).is_not_found());
        assert!(!answer(404, Some(Reason::Forbidden)).is_not_found());
        assert!(answer(410, None).is_expired() && answer(410, Some(Reason::Gone)).is_expired());
        assert!(answer(500, Some("StorageReadError".into())).is_store_read_error());
        assert!(!answer(500, None).is_store_read_error() && !answer(500, None).is_unexpected_server_error());
        assert!(answer(409, None).is_conflict() && !answer(409, Some(Reason::AlreadyExists)).is_conflict());
    }

    #[test]
    fn page_of_a_proxy_means_no_deleted_object() {
        let cause = crate::StatusCause { reason: "UnexpectedServerResponse".into(), ..Default::default() };
        let details = Some(crate::StatusDetails { causes: vec![cause], ..Default::default() });
        let page = ApiError::from(Status { details, ..Status::failure(404, Reason::NotFound, "no such page") });
        assert!(page.is_not_found() && !page.is_object_not_found());
        assert!(answer(404, None).is_object_not_found() && !answer(403, None).is_object_not_found());
    }

    #[test]
    fn status_is_the_source_of_its_error() {
        let error = answer(409, Some(Reason::Conflict));
        assert_eq!(error.source().unwrap().downcast_ref(), error.status());
    }

    #[test]
    fn may_have_acted_is_false_only_after_a_rejection() {
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
            (ApiError::connection_refused("no server"), false),
            (ApiError::invalid_request("no name"), false),
            (ErrorKind::Unprocessed(Arc::new(std::io::Error::other("refused"))).into(), false),
            (ErrorKind::Throttled(Arc::new(std::io::Error::other("no token"))).into(), false),
            (
                ApiError { earlier: Some(Arc::new(ApiError::timeout("late"))), ..ApiError::invalid_request("no name") },
                true,
            ),
        ] {
            assert_eq!(error.may_have_acted(), expected, "{error}");
        }
    }

    #[test]
    fn error_shows_its_earlier_attempt_but_no_body() {
        let response = ResponseInfo { body: "hush".into(), ..ResponseInfo::default() };
        let earlier = ApiError { response: Some(Arc::new(response)), ..answer(503, None) };
        let error = ApiError { earlier: Some(Arc::new(earlier)), ..answer(409, Some(Reason::Conflict)) };
        let shown = error.to_string();
        assert!(shown.starts_with("Conflict (409) (an earlier attempt may have been executed: "), "{shown}");
        assert!(shown.contains("503") && !format!("{shown}{error:?}").contains("hush"), "{error:?}");
        assert!(size_of::<ApiError>() <= 128, "{} bytes", size_of::<ApiError>());
    }

    #[test]
    fn error_names_its_request_without_the_query() {
        let line = RequestLine { method: "PUT".into(), url: "https://host/api/v1/pods/a?dryRun=All".into() };
        assert_eq!(line.path(), "/api/v1/pods/a");
        let request = Some(Arc::new(line));
        let error = ApiError { request: request.clone(), ..answer(409, Some(Reason::Conflict)) };
        assert!(error.to_string().starts_with("PUT https://host/api/v1/pods/a"), "{error}");
        let error = ApiError { request, ..ApiError::decode("no pod") };
        assert_eq!(error.to_string(), "PUT https://host/api/v1/pods/a?dryRun=All: cannot read the response: no pod");
    }
}
