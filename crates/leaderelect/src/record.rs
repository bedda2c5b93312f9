//! The election record, and the version of the object that stores it.

use std::time::Duration;

use jiff::Timestamp;
use pintle_meta::MicroTime;

/// The election record that a lock stores. This type corresponds to client-go's `LeaderElectionRecord`.
///
/// The elector does not use the two times in the record for its decisions. The two times are for people and for other
/// programs. A record has expired for an observer if the record has not changed for its lease duration, measured on the
/// observer's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The holder. The holder is an empty string if the lock is free.
    pub holder_identity: String,
    /// The number of seconds that a candidate must observe the record without a change before it takes over. The number
    /// is zero or negative if the program that wrote the record did not set a duration.
    pub lease_duration_seconds: i32,
    /// The time when the leadership term of the holder began.
    pub acquire_time: Option<MicroTime>,
    /// The time when the holder last renewed the record.
    pub renew_time: Option<MicroTime>,
    /// How often the holder of the lock has changed.
    pub leader_transitions: i32,
    /// The strategy of a coordinated election, such as [`OLDEST_EMULATION_VERSION`](crate::OLDEST_EMULATION_VERSION).
    pub strategy: Option<String>,
    /// The contender that should hold the lock in a coordinated election. The current holder should give up the lock
    /// for this contender. The value is `None` if the current holder may keep the lock.
    pub preferred_holder: Option<String>,
}

impl LeaderElectionRecord {
    /// Returns whether the lock is free.
    pub fn is_vacant(&self) -> bool {
        self.holder_identity.is_empty()
    }

    /// Returns how long the record stays valid if it does not change. If the record contains no duration, returns
    /// `own`, which is the lease duration of the observer.
    pub fn lease_duration(&self, own: Duration) -> Duration {
        match u64::try_from(self.lease_duration_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => own,
        }
    }

    /// Returns whether both records belong to the same leadership term. Records of one leadership term have the same
    /// holder, acquire time and number of transitions.
    pub(crate) fn same_term(&self, other: &Self) -> bool {
        self.holder_identity == other.holder_identity
            && self.acquire_time == other.acquire_time
            && self.leader_transitions == other.leader_transitions
    }
}

/// A version of an object. Two resourceVersions can be compared only if the uid is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The uid of the object that stores the record.
    pub uid: String,
    /// The resourceVersion of the object.
    pub resource_version: String,
}

impl Version {
    /// Returns whether `other` is a version of the same object. If the lock is a [`MultiLock`](crate::MultiLock), this
    /// version may contain only the version of the primary half.
    pub(crate) fn goes_on_in(&self, other: &Self) -> bool {
        self.uid == other.uid || (self.uid.ends_with('+') && other.uid.starts_with(&self.uid))
    }

    /// Returns whether this version is older than `other`. Returns `None` if the two versions cannot be compared.
    pub(crate) fn is_before(&self, other: &Self) -> Option<bool> {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        Some(number(self)? < number(other)?)
    }
}

/// A record, together with the object's version when the record was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The version.
    pub version: Version,
    /// The record.
    pub record: LeaderElectionRecord,
    /// Stored data that the field `record` cannot represent, such as a time that cannot be parsed, or the second half
    /// of a [`MultiLock`](crate::MultiLock). Electors do not interpret this data. They only compare it. If this field
    /// is `None`, electors compare only `record`.
    pub raw: Option<Box<str>>,
}

impl LockState {
    /// Creates a state without additional stored data.
    pub fn new(version: Version, record: LeaderElectionRecord) -> Self {
        Self { version, record, raw: None }
    }

    /// Returns whether both states contain the same election record of the same object. A write that changes other
    /// data, such as a label, changes only the resourceVersion.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        let same_raw = self.raw.as_ref().zip(earlier.raw.as_ref()).is_none_or(|(raw, earlier)| raw == earlier);
        same_raw && self.version.uid == earlier.version.uid && self.record == earlier.record
    }

    /// Sets the version of this state to the version of `later`, unless that version is older. Both states must have
    /// the same election record: see [`repeats`](Self::repeats).
    pub(crate) fn repeated_as(&mut self, later: &Self) {
        if later.version.is_before(&self.version) != Some(true) {
            self.version = later.version.clone();
        }
        if later.raw.is_some() {
            self.raw.clone_from(&later.raw);
        }
    }
}

/// The precision of the times that a lock stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Microseconds, like a Lease.
    #[default]
    Micros,
    /// The lock stores whole seconds, as an annotation does.
    Seconds,
}

impl TimePrecision {
    /// Truncates a time to the precision that the lock stores. A record that is read back then equals the written
    /// record.
    pub(crate) fn cut(self, moment: Timestamp) -> MicroTime {
        let cut = match self {
            Self::Micros => Timestamp::from_microsecond(moment.as_microsecond()),
            Self::Seconds => Timestamp::from_second(moment.as_second()),
        };
        MicroTime(cut.unwrap_or(moment))
    }

    /// Returns the smallest difference between two times that the lock can represent.
    pub(crate) fn step(self) -> Duration {
        match self {
            Self::Micros => Duration::from_micros(1),
            Self::Seconds => Duration::from_secs(1),
        }
    }
}
