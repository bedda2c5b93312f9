//! Terms, and how they end.

use std::fmt;
use std::thread;

use crate::record::{LeaderElectionRecord, Version};

/// One stretch of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The version of the lock in which the term was first seen to be ours.
    pub version: Version,
    /// The record that began it.
    pub record: LeaderElectionRecord,
}

/// How a term ended, and what became of its work.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{EndReason, TermEnd};
///
/// fn tell(end: &TermEnd<Result<u32, String>>) -> String {
///     match &end.work {
///         Some(Ok(Ok(value))) => format!("the work is done: {value}"),
///         Some(Ok(Err(error))) => format!("the work failed: {error}"),
///         Some(Err(_panic)) => "the work panicked".into(),
///         None => format!("the work was dropped: {}", end.reason),
///     }
/// }
/// let end = TermEnd { reason: EndReason::Completed, work: Some(Ok(Ok(7))) };
/// assert_eq!(tell(&end), "the work is done: 7");
/// ```
#[derive(Debug)]
pub struct TermEnd<T> {
    /// Why it is over.
    pub reason: EndReason,
    /// What the work returned, or its panic; none if it was dropped because the term was over. Work that sees the end of its term
    /// may return before it is dropped, so this and a loss do not exclude each other.
    pub work: Option<thread::Result<T>>,
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The elector itself was dropped.
    Dropped,
    /// The caller asked for it, and the work has ended.
    Cancelled,
    /// The work ended by itself.
    Completed,
    /// No renewal could be stored in time.
    Deadline,
    /// The lock was deleted, or replaced by another object of its name.
    Deleted,
    /// The work panicked.
    Panicked,
    /// Another one should have the lock, for whom the work has ended: a coordinated election says so, or it is one of
    /// [shards](crate::Shards) that are shared anew.
    Preferred {
        /// The other one.
        other: String,
    },
    /// The lock has another record.
    TakenBy {
        /// Its holder; empty when it was released by someone else.
        by: String,
    },
}

impl EndReason {
    /// All names.
    pub(crate) const NAMES: [&'static str; 8] =
        ["Cancelled", "Completed", "Deadline", "Deleted", "Dropped", "Panicked", "Preferred", "TakenBy"];

    /// The name of the variant, as metrics have it.
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
            Self::Cancelled => f.write_str("it was asked to end"),
            Self::Completed => f.write_str("the work ended"),
            Self::Deadline => f.write_str("no renewal was stored before the deadline"),
            Self::Deleted => f.write_str("the lock was deleted"),
            Self::Panicked => f.write_str("the work panicked"),
            Self::Preferred { other } => write!(f, "{other:?} is preferred"),
            Self::TakenBy { by } if by.is_empty() => f.write_str("the lock was released by someone else"),
            Self::TakenBy { by } => write!(f, "the lock went to {by:?}"),
        }
    }
}
