//! The findings of an audit.

use std::fmt;
use std::time::Duration;

/// An event of a lock, or a problem with it. The `Display` output is a log line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// A term began.
    Began {
        /// The holder.
        holder: String,
        /// The number of holder changes that the record contains.
        transitions: i32,
        /// The observed time without a leader before this term. If the last holder did not release the lock, this time
        /// starts at its last renewal. `None` if it is unknown.
        gap: Option<Duration>,
    },
    /// A term ended.
    Ended {
        /// The holder.
        holder: String,
        /// How it ended.
        end: AuditedEnd,
        /// The observed duration of the term.
        lasted: Duration,
    },
    /// The lock was taken too early: the record of the previous holder had not been unchanged for its stated duration.
    /// Both holders may have worked at the same time. The lock may have been deleted in between. Unsafe.
    TakenEarly {
        /// The new holder.
        by: String,
        /// The previous holder.
        from: String,
        /// An upper bound of the time for which the record was unchanged before the takeover.
        after: Duration,
        /// The required time without a change: the lease duration in the record.
        of: Duration,
    },
    /// A term resumed after it had ended: the former holder wrote the lock again, although another holder had taken it.
    /// Unsafe.
    Resumed {
        /// The holder.
        holder: String,
        /// The holder between the two writes.
        after: String,
    },
    /// A term was renewed after its record had expired. Any contender could have taken the lock before that. Unsafe.
    Lapsed {
        /// The holder.
        holder: String,
        /// A lower bound of the time between two renewals.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// The record states no duration, so other contenders take the lock as soon as they see it. Unsafe.
    NoDuration {
        /// The holder.
        holder: String,
    },
    /// A term was renewed after more than two thirds of its duration. Its leader may have stopped already, or may have
    /// been about to stop.
    Late {
        /// The holder.
        holder: String,
        /// A lower bound of the time between two renewals.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// Several renewals happen within one second. For client-go's candidates, the record looks unchanged.
    Invisible {
        /// The holder.
        holder: String,
    },
    /// The renewTime of the record differs from the local time of day by more than the tolerance. Programs that compare
    /// both times take the lock too early or never.
    Skewed {
        /// The holder.
        holder: String,
        /// The difference in seconds. It is negative if the renewTime is behind the local time.
        seconds: i64,
    },
    /// The holder has changed, but the count of transitions did not increase by one. Therefore, the count cannot be
    /// used as a fencing token.
    Miscounted {
        /// The holder.
        holder: String,
        /// The count before.
        before: i32,
        /// The count now.
        now: i32,
    },
    /// The two halves of the lock have different holders, so no contender leads.
    Disagree,
    /// The record is unreadable, so no contender can lead.
    Malformed {
        /// The reason.
        why: String,
    },
}

/// How an observed term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditedEnd {
    /// The holder released the lock.
    Released,
    /// Another holder took the lock, or the same holder took it again.
    TakenOver,
    /// The object was deleted.
    Deleted,
}

impl Finding {
    /// Returns whether two holders led, or could have led, at the same time.
    pub fn is_unsafe(&self) -> bool {
        matches!(self, Self::TakenEarly { .. } | Self::Resumed { .. } | Self::Lapsed { .. } | Self::NoDuration { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { holder, transitions, gap: None } => write!(f, "{holder} leads, change {transitions}"),
            Self::Began { holder, transitions, gap: Some(gap) } => {
                write!(f, "{holder} leads, change {transitions}, after {gap:.2?} without a leader")
            }
            Self::Ended { holder, end, lasted } => {
                let how = match end {
                    AuditedEnd::Released => "released the lock",
                    AuditedEnd::TakenOver => "lost the lock to a successor",
                    AuditedEnd::Deleted => "lost the lock by its deletion",
                };
                write!(f, "{holder} {how} after {lasted:.2?}")
            }
            Self::TakenEarly { by, from, after, of } => {
                write!(
                    f,
                    "UNSAFE: {by} took the lock of {from} after {after:.2?} of {of:?}: both may have worked at the same time"
                )
            }
            Self::Resumed { holder, after } => {
                write!(f, "UNSAFE: a term of {holder} resumed after {after} had the lock")
            }
            Self::Lapsed { holder, after, of } => {
                write!(f, "UNSAFE: {holder} renewed after {after:.2?}, when its record of {of:?} had expired")
            }
            Self::NoDuration { holder } => {
                write!(f, "UNSAFE: the record of {holder} states no duration, so other contenders take it at once")
            }
            Self::Late { holder, after, of } => write!(f, "{holder} renewed late, after {after:.2?} of {of:?}"),
            Self::Invisible { holder } => {
                write!(f, "{holder} renews more than once a second, which client-go's candidates do not notice")
            }
            Self::Skewed { holder, seconds } => {
                write!(f, "the clock of {holder} differs from the local clock by {seconds} s")
            }
            Self::Miscounted { holder, before, now } => {
                write!(f, "{holder} took the lock and changed the transitions from {before} to {now}")
            }
            Self::Disagree => f.write_str("the two halves of the lock have different holders, so no contender leads"),
            Self::Malformed { why } => write!(f, "the record is unreadable, so no contender can lead: {why}"),
        }
    }
}
