//! What an audit has to say.

use std::fmt;
use std::time::Duration;

/// What happened to a lock, or what is wrong with it. It displays as a line for a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// Somebody leads.
    Began {
        /// The holder.
        holder: String,
        /// How often the holder has changed, as the record says.
        transitions: i32,
        /// For how long nobody did, as it was seen, or since the last renewal of one who did not give up; none if that is not known.
        gap: Option<Duration>,
    },
    /// Somebody leads no more.
    Ended {
        /// The holder.
        holder: String,
        /// How.
        end: AuditedEnd,
        /// For how long it led, as it was seen.
        lasted: Duration,
    },
    /// The lock was taken from a holder before its record had been unchanged for the duration that it states: both may have worked at a
    /// time. So it is after a deletion, too. Unsafe.
    TakenEarly {
        /// Who took it.
        by: String,
        /// From whom.
        from: String,
        /// How long the record had been unchanged, at most.
        after: Duration,
        /// How long it had to be.
        of: Duration,
    },
    /// A term goes on that had ended: its holder wrote the lock again, after another one had it. Unsafe.
    Resumed {
        /// The holder.
        holder: String,
        /// Who had the lock meanwhile.
        after: String,
    },
    /// A term was renewed after its record had expired, when anybody could have taken the lock. Unsafe.
    Lapsed {
        /// The holder.
        holder: String,
        /// The time between two renewals, at least.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// The record states no duration, so others take the lock as soon as they see it. Unsafe.
    NoDuration {
        /// The holder.
        holder: String,
    },
    /// A term was renewed after more than two thirds of its duration: its leader may have given up before, or was about to.
    Late {
        /// The holder.
        holder: String,
        /// The time between two renewals, at least.
        after: Duration,
        /// The lease duration.
        of: Duration,
    },
    /// Renewals come within one second, which candidates of client-go cannot tell apart.
    Invisible {
        /// The holder.
        holder: String,
    },
    /// The renewTime is so far from the time of day here, whoever is wrong: programs that compare the two take the lock too early or never.
    Skewed {
        /// The holder.
        holder: String,
        /// How far; negative if it is behind.
        seconds: i64,
    },
    /// The holder has changed, and the count of changes has not gone up by one: it is no token.
    Miscounted {
        /// The holder.
        holder: String,
        /// The count before.
        before: i32,
        /// The count now.
        now: i32,
    },
    /// The two halves of the lock have different holders, and go on so: nobody leads.
    Disagree,
    /// The record cannot be read, so nobody can lead.
    Malformed {
        /// Why.
        why: String,
    },
}

/// How a term was seen to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditedEnd {
    /// The holder gave the lock up.
    Released,
    /// Another one took it, or the same one took it anew.
    TakenOver,
    /// The object was deleted.
    Deleted,
}

impl Finding {
    /// Whether two may have led at a time, or could have.
    pub fn is_unsafe(&self) -> bool {
        matches!(self, Self::TakenEarly { .. } | Self::Resumed { .. } | Self::Lapsed { .. } | Self::NoDuration { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { holder, transitions, gap: None } => write!(f, "{holder} leads, change {transitions}"),
            Self::Began { holder, transitions, gap: Some(gap) } => {
                write!(f, "{holder} leads, change {transitions}, after nobody did for {gap:.2?}")
            }
            Self::Ended { holder, end, lasted } => {
                let how = match end {
                    AuditedEnd::Released => "released the lock",
                    AuditedEnd::TakenOver => "has lost the lock to a successor",
                    AuditedEnd::Deleted => "has lost the lock, which was deleted",
                };
                write!(f, "{holder} {how} after {lasted:.2?}")
            }
            Self::TakenEarly { by, from, after, of } => {
                write!(
                    f,
                    "UNSAFE: {by} took the lock of {from} after {after:.2?} of {of:?}: both may have worked at a time"
                )
            }
            Self::Resumed { holder, after } => {
                write!(f, "UNSAFE: a term of {holder} goes on, although {after} had the lock meanwhile")
            }
            Self::Lapsed { holder, after, of } => {
                write!(f, "UNSAFE: {holder} renewed after {after:.2?}, when its record of {of:?} had expired")
            }
            Self::NoDuration { holder } => {
                write!(f, "UNSAFE: the record of {holder} states no duration, so others take it at once")
            }
            Self::Late { holder, after, of } => write!(f, "{holder} renewed late, after {after:.2?} of {of:?}"),
            Self::Invisible { holder } => {
                write!(f, "{holder} renews within one second, which candidates of client-go do not see")
            }
            Self::Skewed { holder, seconds } => {
                write!(f, "the clock of {holder} differs from the one here by {seconds} s")
            }
            Self::Miscounted { holder, before, now } => {
                write!(f, "{holder} took the lock and counted from {before} to {now}")
            }
            Self::Disagree => f.write_str("the two halves of the lock have different holders, so nobody leads"),
            Self::Malformed { why } => write!(f, "the record cannot be read, so nobody can lead: {why}"),
        }
    }
}
