//! The findings of an audit.

use std::fmt;
use std::time::Duration;

/// An event in the history of a lock, or a problem with the lock. The `Display` output of a finding is a single line
/// for a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// A leadership term began.
    Began {
        /// The holder.
        holder: String,
        /// The transition count in the record, which is the number of holder changes.
        transitions: i32,
        /// The observed time without a leader before this term began, or `None` if it is unknown. If the last holder
        /// did not release the lock, the gap starts with the holder's last renewal.
        gap: Option<Duration>,
    },
    /// A leadership term ended.
    Ended {
        /// The holder.
        holder: String,
        /// How the term ended.
        end: AuditedEnd,
        /// The observed duration of the leadership term.
        lasted: Duration,
    },
    /// A contender acquired the lock too early, which is unsafe. The record of the previous holder had been unchanged
    /// for less than its lease duration. The previous and the new holder may have worked at the same time. The lock may
    /// have been deleted between the two leadership terms.
    TakenEarly {
        /// The new holder.
        by: String,
        /// The previous holder.
        from: String,
        /// An upper bound for the time during which the record had been unchanged before the takeover.
        after: Duration,
        /// The lease duration in the record. A contender must observe an unchanged record for this time before it
        /// acquires the lock.
        of: Duration,
    },
    /// A former holder wrote the lock after another holder had acquired it, which is unsafe.
    Resumed {
        /// The holder.
        holder: String,
        /// The holder of the lock between the two writes of the former holder.
        after: String,
    },
    /// A leadership term was renewed after its record had already expired, which is unsafe. Another contender could
    /// have acquired the lock before this late renewal.
    Lapsed {
        /// The holder.
        holder: String,
        /// A lower bound for the time between the two renewals.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// The record contains no lease duration, which is unsafe, because other contenders acquire the lock as soon as
    /// they observe the record.
    NoDuration {
        /// The holder.
        holder: String,
    },
    /// A leadership term was renewed after more than two thirds of its lease duration. The leader may have stopped
    /// working, or it was close to its deadline.
    Late {
        /// The holder.
        holder: String,
        /// A lower bound for the time between the two renewals.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// The holder renews the lock more than once per second. client-go's candidates cannot distinguish records that
    /// were written in the same second, and treat the lock as not renewed.
    Invisible {
        /// The holder.
        holder: String,
    },
    /// The `renewTime` in the record differs from the auditor's wall clock by more than the tolerance. A program that
    /// compares `renewTime` with the wall clock acquires such a lock too early or never.
    Skewed {
        /// The holder.
        holder: String,
        /// The difference between the clocks in seconds. A negative difference means that `renewTime` is behind the
        /// auditor's wall clock.
        seconds: i64,
    },
    /// The transition count did not increase by one when the holder changed. The transition count therefore cannot
    /// serve as a fencing token.
    Miscounted {
        /// The holder.
        holder: String,
        /// The transition count before the holder changed.
        before: i32,
        /// The transition count after the holder changed.
        now: i32,
    },
    /// The halves of a [`MultiLock`](pintle_leaderelect::MultiLock) have different holders, so no contender leads.
    Disagree,
    /// The record cannot be parsed, so no contender can lead.
    Malformed {
        /// The reason why the record cannot be parsed.
        why: String,
    },
}

/// How an observed leadership term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditedEnd {
    /// The holder released the lock.
    Released,
    /// Another holder acquired the lock, or the same holder acquired it again.
    TakenOver,
    /// The lock object was deleted.
    Deleted,
}

impl Finding {
    /// Returns `true` if this finding shows that two holders worked, or may have worked, at the same time.
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
