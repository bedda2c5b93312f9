//! Errors, and failures that an informer reports.

use std::mem::discriminant;

use pintle_meta::{ApiError, ObjectKey};

use crate::stop_cause::StopCause;

/// The cache has no index with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no index named {name:?}; there are {known:?}")]
pub struct UnknownIndex {
    pub(crate) name: String,
    pub(crate) known: Vec<String>,
}

/// The reason why a wait for a revision failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReached {
    /// The requested revision or the cache's revision is not a number, so the two revisions cannot be compared.
    #[error("the resourceVersion {resource_version:?} is not a number, so it cannot be compared with others")]
    NotComparable {
        /// The revision that cannot be parsed as a number.
        resource_version: String,
    },
    /// The server's revisions decreased during the wait, for example after a restore from a backup. After a restore,
    /// the server may never reach the requested revision, or may use the revision for other changes.
    #[error("the server's revisions went back, so the resourceVersion {resource_version:?} may never arrive")]
    WentBack {
        /// The requested revision.
        resource_version: String,
    },
    /// The informer has stopped, so its cache no longer changes.
    #[error("the informer has stopped")]
    Stopped,
}

/// The error of a wait for an informer that has ended. The wait fails even if the cache has synced before, because the
/// cache of an ended informer is no longer updated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer {informer:?} has ended: {cause}")]
pub struct NotSynced {
    pub(crate) informer: String,
    pub(crate) cause: StopCause,
}

/// The error of a call that would change the selectors of an informer that is shared through a factory. The selectors
/// are unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the informer {informer:?} is shared by a factory, so its selectors cannot change: ask the factory for an informer with the new selectors, or make one with SharedInformer::new"
)]
pub struct SelectorsShared {
    pub(crate) informer: String,
}

/// The error of an index function that failed or panicked on an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct IndexFailed {
    /// The key of the object.
    pub key: ObjectKey,
    /// The name of the index.
    pub index: String,
    pub(crate) error: String,
}

/// A failure that an informer reports.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// The resource does not exist. The custom resource definition is missing or was deleted, or the server has not
    /// loaded it yet. The reflector keeps retrying, and the cache keeps its objects.
    #[error("the resource does not exist (yet): {0}")]
    NoSuchResource(#[source] ApiError),
    /// A list failed.
    #[error("cannot list: {0}")]
    List(#[source] ApiError),
    /// A watch could not be opened, or it ended with an error.
    #[error("cannot watch: {0}")]
    Watch(#[source] ApiError),
    /// The server ended a watch immediately after the watch was opened.
    #[error("the server ended the watch at once and without any event")]
    VeryShortWatch,
    /// The watch received no data for so long that the connection is considered dead. The reflector opens another
    /// watch.
    #[error("the watch fell silent")]
    SilentWatch,
    /// The server accepted a streaming list but did not complete it. The reflector sends a paged list instead.
    #[error("the server did not finish a streaming list")]
    StreamingListUnfinished,
    /// The server returned an older state than in a previous response, or a watch delivered a revision below the
    /// revision at which it was opened. The server may lag behind other servers, so the reflector first requests the
    /// newest state. If the server returns older states at least three times over a minute, the reflector assumes that
    /// the server was restored from a backup. After a restore, the cache changes to the older state. Until the first
    /// list is complete, the reflector accepts no older state and waits for the server to reach
    /// [`not_older_than`](crate::ReflectorConfig::not_older_than).
    #[error(
        "the server returned its state at the resourceVersion {returned}, but it had returned {known} before: it lags, or it was restored from a backup (the older state is accepted after a minute)"
    )]
    WentBack {
        /// The older state's resourceVersion.
        returned: String,
        /// The minimum resourceVersion that the reflector accepts.
        known: String,
    },
    /// An index function failed or panicked on an object. The object is in the cache, but the failed index does not
    /// contain it. Lookups by key and lookups in other indices return the object. The informer is not interrupted, so
    /// [`InformerState`](crate::InformerState) does not contain this error.
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

    /// Returns the error of the failed request, or `None` if the failure was not caused by a failed request.
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
