//! How waits, reads and requests fail.

use std::mem::discriminant;

use pintle_meta::ApiError;

use crate::{IndexFailed, StopCause};

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
    /// The server began its history anew during the wait, as after a restore from a backup, so the revision may never come. If it does, it
    /// is that of something else.
    #[error("the history of the server went back, so the resourceVersion {resource_version:?} may never come")]
    WentBack {
        /// What was asked for.
        resource_version: String,
    },
    /// The informer stopped, so that its cache does not change any more.
    #[error("the informer has stopped")]
    Stopped,
}

/// The informer has ended, so that its cache does not become what the server has, whatever it has been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer {informer:?} has ended: {cause}")]
pub struct NotSynced {
    pub(crate) informer: String,
    pub(crate) cause: StopCause,
}

/// The selectors of an informer were not changed, since a factory shares it with others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the informer {informer:?} is shared by a factory, so its selectors cannot change: ask the factory for an informer with the new selectors, or make one with SharedInformer::new"
)]
pub struct SelectorsShared {
    pub(crate) informer: String,
}

/// Why a reflector has to wait before it goes on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// The resource is not there: its definition has not come yet, or is gone, or the server has yet to take it up. It is waited for, like
    /// all else; and what is in the cache stays, since a server that has just started may say so too.
    #[error("the resource does not exist (yet): {0}")]
    NoSuchResource(#[source] ApiError),
    /// The resource could not be listed.
    #[error("cannot list: {0}")]
    List(#[source] ApiError),
    /// The resource could not be watched, or the watch ended in an error.
    #[error("cannot watch: {0}")]
    Watch(#[source] ApiError),
    /// The server ends its watches as soon as they begin.
    #[error("the server ended the watch at once and without any event")]
    VeryShortWatch,
    /// Nothing came over the watch for so long that it counts as dead, and it is opened anew.
    #[error("the watch fell silent")]
    SilentWatch,
    /// The server took up a streaming list and did not finish it, so the resource is listed instead.
    #[error("the server did not finish a streaming list")]
    StreamingListUnfinished,
    /// The server has an older state than one that was seen, and the cache does not go back: unless the server says so for a minute, at
    /// least three times, asked for its newest state. Then it was restored from a backup, and the cache becomes what it has. That
    /// is not so for what was [configured](crate::ReflectorConfig::not_older_than), which is waited for.
    #[error(
        "the server told its state at the resourceVersion {told}, and {known} was seen already: it lags, or was restored from a backup, which is believed after a minute"
    )]
    WentBack {
        /// The revision of that state.
        told: String,
        /// The one that was seen.
        known: String,
    },
    /// An index function failed or panicked on an object. The object is in the cache and found by its key and by the other indices, but
    /// not by this one. The informer goes on, so no state shows this error.
    #[error("cannot index {}: {_0}", _0.key)]
    IndexFailed(#[source] IndexFailed),
}

impl ReflectorError {
    pub(crate) fn list(error: ApiError) -> Self {
        if error.is_not_found() { Self::NoSuchResource(error) } else { Self::List(error) }
    }

    pub(crate) fn watch(error: ApiError) -> Self {
        if error.is_not_found() { Self::NoSuchResource(error) } else { Self::Watch(error) }
    }

    /// The failure of the request, if it was one that failed.
    pub fn cause(&self) -> Option<&ApiError> {
        match self {
            Self::NoSuchResource(cause) | Self::List(cause) | Self::Watch(cause) => Some(cause),
            Self::VeryShortWatch
            | Self::SilentWatch
            | Self::StreamingListUnfinished
            | Self::WentBack { .. }
            | Self::IndexFailed(_) => None,
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
