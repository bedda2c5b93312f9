//! How waits, reads and requests fail.

use std::mem::discriminant;

use pintle_meta::ApiError;

/// There is no index of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no index named {name:?}; there are {known:?}")]
pub struct UnknownIndex {
    pub(crate) name: String,
    pub(crate) known: Vec<String>,
}

/// Why a wait for a revision ended without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReached {
    /// Revisions are opaque by contract, and can be compared only where they are numbers.
    #[error("the resourceVersion {resource_version:?} is not a number, so nothing can be told to be newer")]
    NotComparable {
        /// What was asked for.
        resource_version: String,
    },
    /// The informer stopped, so that its cache does not change any more.
    #[error("the informer has stopped")]
    Stopped,
}

/// The informer ended before its cache had held the whole resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer {informer:?} {} before its first list was complete", end(panic.as_deref()))]
pub struct NotSynced {
    pub(crate) informer: String,
    /// What it said, if that was the end.
    pub(crate) panic: Option<String>,
}

fn end(panic: Option<&str>) -> String {
    panic.map_or_else(|| "stopped".into(), |panic| format!("panicked ({panic})"))
}

/// Why a reflector has to wait before it goes on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// The resource could not be listed.
    #[error("cannot list: {0}")]
    List(#[source] ApiError),
    /// The resource could not be watched, or the watch ended in an error.
    #[error("cannot watch: {0}")]
    Watch(#[source] ApiError),
    /// The server ends its watches as soon as they begin.
    #[error("the server ended the watch at once and without any event")]
    VeryShortWatch,
    /// The server took up a streaming list and did not finish it, so the resource is listed instead.
    #[error("the server did not finish a streaming list")]
    StreamingListUnfinished,
}

impl ReflectorError {
    /// The failure of the request, if it was one that failed.
    pub fn cause(&self) -> Option<&ApiError> {
        match self {
            Self::List(cause) | Self::Watch(cause) => Some(cause),
            Self::VeryShortWatch | Self::StreamingListUnfinished => None,
        }
    }

    /// Whether it is, but for the details, the same failure.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let kind = |error: &Self| {
            let cause = error.cause();
            (
                discriminant(error),
                cause.map(|cause| discriminant(&cause.kind)),
                cause.and_then(ApiError::reason).cloned(),
            )
        };
        kind(self) == kind(other)
    }
}
