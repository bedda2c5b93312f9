//! Terms, and how they end.

use std::fmt;

use crate::record::{LeaderElectionRecord, Version};

/// One stretch of leadership.
///
/// Its token is the version of the write that began it: within one uid, the resourceVersion grows from term to term. A resource
/// that remembers the greatest token it has seen can fence off a leader that was paused; nothing else can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The version of the lock in which the term was first seen to be ours.
    pub token: Version,
    /// The record that began it.
    pub record: LeaderElectionRecord,
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The elector itself was dropped.
    Abandoned,
    /// The caller asked for it, and the work has ended.
    Cancelled,
    /// The work ended by itself.
    Completed,
    /// No renewal could be stored in time.
    Deadline,
    /// The lock was deleted, or replaced by another object of its name.
    Deleted,
    /// The lock has another record.
    Usurped {
        /// Its holder; empty when it was released by someone else.
        by: String,
    },
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("the elector was dropped"),
            Self::Cancelled => f.write_str("it was asked to end"),
            Self::Completed => f.write_str("the work ended"),
            Self::Deadline => f.write_str("no renewal was stored before the deadline"),
            Self::Deleted => f.write_str("the lock was deleted"),
            Self::Usurped { by } if by.is_empty() => f.write_str("the lock was released by someone else"),
            Self::Usurped { by } => write!(f, "the lock went to {by:?}"),
        }
    }
}
