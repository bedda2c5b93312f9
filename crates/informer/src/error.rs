//! How waits and reads fail.

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
pub enum WaitError {
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

/// The informer stopped before its cache had held the whole resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer {informer:?} stopped before its first list was complete")]
pub struct NotSynced {
    pub(crate) informer: String,
}
