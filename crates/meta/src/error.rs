use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Reason, Status};

/// How a request to an API server fails, seen from above the network.
///
/// A client's own error says more; what informers, electors and controllers decide on is here. It is cheap to clone, so that
/// one failure can be told to many.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ApiError {
    /// Nothing listens there. Nothing was sent.
    ConnectionRefused(Cause),
    /// The answer is not what was asked for: broken JSON, a missing field, a frame of an unknown type.
    Decode(Cause),
    /// The request was never sent: it makes no sense, or its credentials could not be had.
    InvalidRequest(Cause),
    /// The server answered, and its answer is no.
    Status(Box<Status>),
    /// No answer came in time. Whether the server acted is unknown.
    Timeout(Cause),
    /// The connection failed. Whether the server acted is unknown.
    Transport(Cause),
}

/// The error beneath an [`ApiError`].
pub type Cause = Arc<dyn Error + Send + Sync>;

impl ApiError {
    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The reason in the server's answer, if it gave one.
    pub fn reason(&self) -> Option<&Reason> {
        self.status()?.reason.as_ref()
    }

    /// 404: no such object or resource.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(&Reason::NotFound)
    }

    /// 409 on create: an object of that name is there.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(&Reason::AlreadyExists)
    }

    /// 409 otherwise: the object changed meanwhile, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(&Reason::Conflict)
    }

    /// The asked-for revision is too old to be had: list again without one. By reason or by the bare code 410.
    pub fn is_expired(&self) -> bool {
        let Some(status) = self.status() else { return false };
        matches!(status.reason, Some(Reason::Expired | Reason::Gone)) || (status.reason.is_none() && status.code == 410)
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

    /// 429: the server, or a limiter on the way, wants fewer requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.reason == Some(Reason::TooManyRequests) || status.code == 429)
    }

    /// Nothing listens there.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::ConnectionRefused(_))
    }

    /// How long the server asks to wait, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionRefused(cause) => write!(f, "connection refused: {cause}"),
            Self::Decode(cause) => write!(f, "the answer cannot be read: {cause}"),
            Self::InvalidRequest(cause) => write!(f, "the request cannot be sent: {cause}"),
            Self::Status(status) => status.fmt(f),
            Self::Timeout(cause) => write!(f, "no answer in time: {cause}"),
            Self::Transport(cause) => write!(f, "the connection failed: {cause}"),
        }
    }
}

impl Error for ApiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Status(_) => None,
            Self::ConnectionRefused(cause)
            | Self::Decode(cause)
            | Self::InvalidRequest(cause)
            | Self::Timeout(cause)
            | Self::Transport(cause) => Some(&**cause),
        }
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
