//! Terms, and how they end.

use std::fmt;
use std::thread;

use crate::record::{LeaderElectionRecord, Version};

/// One period of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The version of the lock in which this elector first observed itself as the holder.
    pub version: Version,
    /// The record that began the term.
    pub record: LeaderElectionRecord,
}

/// The reason why a term ended, and the result of its work.
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
    /// The return value of the work, or its panic. `None` if the work was dropped because the term was over. Work that
    /// detects the end of its term may return before the elector drops it. Therefore, there can be a return value
    /// although the term was lost.
    pub work: Option<thread::Result<T>>,
}

/// The reason why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The elector was dropped.
    Dropped,
    /// The elector was stopped, and the work has ended.
    Cancelled,
    /// The work ended without a request to end.
    Completed,
    /// No renewal was stored before the deadline.
    Deadline,
    /// The lock was deleted, or replaced by another object with the same name.
    Deleted,
    /// The work panicked.
    Panicked,
    /// The work ended in favor of a preferred holder. The preference comes from a coordinated election, or from the
    /// assignment of [shards](crate::Shards).
    Preferred {
        /// The preferred holder.
        other: String,
    },
    /// The record in the lock no longer belongs to this term.
    TakenBy {
        /// The new holder. Empty if another program released the lock.
        by: String,
    },
}

impl EndReason {
    /// The names of all variants, as used in metrics.
    pub(crate) const NAMES: [&'static str; 8] =
        ["Cancelled", "Completed", "Deadline", "Deleted", "Dropped", "Panicked", "Preferred", "TakenBy"];

    /// Returns the name of the variant, as used in metrics.
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
