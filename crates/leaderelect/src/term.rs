//! Terms, and how they end.

use std::fmt;
use std::thread;

use crate::record::{LeaderElectionRecord, Version};

/// One period of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The version of the lock in which this elector observed itself as the holder for the first time.
    pub version: Version,
    /// The record with which the leadership term began.
    pub record: LeaderElectionRecord,
}

/// The end of a leadership term: the reason, and the result of the work.
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
    /// The reason why the leadership term ended.
    pub reason: EndReason,
    /// The return value of the work, or the panic of the work. `None` if the work was dropped because the leadership
    /// term was over. The work may notice the end of its term and return before the elector drops it. Therefore, there
    /// can be a return value even if the leadership term was lost.
    pub work: Option<thread::Result<T>>,
}

/// The reason why a leadership term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The elector was dropped.
    Dropped,
    /// The elector was asked to stop, and the work has ended.
    Cancelled,
    /// The work ended although it was not asked to end.
    Completed,
    /// No renewal was stored before the deadline of the term.
    Deadline,
    /// The lock was deleted, or was replaced by another object with the same name.
    Deleted,
    /// The work panicked.
    Panicked,
    /// The work was asked to end in favor of a preferred holder. The preferred holder comes from a coordinated
    /// election, or from the assignment of [shards](crate::Shards).
    Preferred {
        /// The preferred holder.
        other: String,
    },
    /// The lock contains a record that does not belong to this leadership term.
    TakenBy {
        /// The new holder. Empty if another program released the lock.
        by: String,
    },
}

impl EndReason {
    /// The names of all variants, as they appear in metrics.
    pub(crate) const NAMES: [&'static str; 8] =
        ["Cancelled", "Completed", "Deadline", "Deleted", "Dropped", "Panicked", "Preferred", "TakenBy"];

    /// Returns the name of the variant, as it appears in metrics.
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
