//! Leadership terms, and why they end.

use std::fmt;
use std::thread;

use crate::record::{LeaderElectionRecord, Version};

/// One period of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The first version of the lock object with this elector as the holder.
    pub version: Version,
    /// The record in the lock at the beginning of the term.
    pub record: LeaderElectionRecord,
}

/// The reason why a term ended, and the result of the leader's work.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{EndReason, TermEnd};
///
/// fn describe(end: &TermEnd<Result<u32, String>>) -> String {
///     match &end.work {
///         Some(Ok(Ok(value))) => format!("the work is done: {value}"),
///         Some(Ok(Err(error))) => format!("the work failed: {error}"),
///         Some(Err(_panic)) => "the work panicked".into(),
///         None => format!("the work was dropped: {}", end.reason),
///     }
/// }
/// let end = TermEnd { reason: EndReason::Completed, work: Some(Ok(Ok(7))) };
/// assert_eq!(describe(&end), "the work is done: 7");
/// ```
#[derive(Debug)]
pub struct TermEnd<T> {
    /// The reason why the term ended.
    pub reason: EndReason,
    /// The return value or the panic of the leader's work. This field is `None` if the elector dropped the leader's
    /// work because the term was over. The work of a lost term can still return a value, if it notices the loss and
    /// returns before the elector drops it.
    pub work: Option<thread::Result<T>>,
}

/// The reason why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The elector was dropped.
    Dropped,
    /// The elector was stopped, and the leader's work has finished.
    Cancelled,
    /// The leader's work ended on its own.
    Completed,
    /// The term's deadline passed without a successful renewal.
    Deadline,
    /// The lock was deleted, or was replaced by a new object with the same name.
    Deleted,
    /// The work panicked.
    Panicked,
    /// The elector handed over the lock to a preferred holder. A coordinated election or the assignment of shards chose
    /// the preferred holder.
    Preferred {
        /// The preferred holder.
        other: String,
    },
    /// The lock contains a record that was not written in this term.
    TakenBy {
        /// The new holder, or an empty string if another program released the lock.
        by: String,
    },
}

impl EndReason {
    pub(crate) const NAMES: [&'static str; 8] =
        ["Cancelled", "Completed", "Deadline", "Deleted", "Dropped", "Panicked", "Preferred", "TakenBy"];

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Dropped => "Dropped",
            Self::Cancelled => "Cancelled",
            Self::Completed => "Completed",
            Self::Deadline => "Deadline",
            Self::Deleted => "Deleted",
            Self::Panicked => "Panicked",
            Self::Preferred { .. } => "Preferred",
            Self::TakenBy { .. } => "TakenBy",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped => f.write_str("the elector was dropped"),
            Self::Cancelled => f.write_str("the elector was stopped"),
            Self::Completed => f.write_str("the work ended"),
            Self::Deadline => f.write_str("no renewal was stored before the deadline"),
            Self::Deleted => f.write_str("the lock was deleted"),
            Self::Panicked => f.write_str("the work panicked"),
            Self::Preferred { other } => write!(f, "{other:?} is preferred"),
            Self::TakenBy { by } if by.is_empty() => f.write_str("another program released the lock"),
            Self::TakenBy { by } => write!(f, "the lock was taken by {by:?}"),
        }
    }
}
