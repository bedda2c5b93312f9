//! The election record, and the version of the object that stores it.

use std::time::Duration;

use jiff::Timestamp;
use pintle_meta::MicroTime;

/// The election record that a lock stores: client-go's `LeaderElectionRecord`.
///
/// No election decision depends on the two times in the record. The two times are for people and for other programs. A
/// record has expired when it has been unchanged for its lease duration, measured on the observer's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The holder. Empty if the lock is free.
    pub holder_identity: String,
    /// How many seconds a candidate must observe an unchanged record before it takes over. The number is zero or negative if
    /// the writer did not set a duration.
    pub lease_duration_seconds: i32,
    /// The time at which the holder's term began.
    pub acquire_time: Option<MicroTime>,
    /// The time at which the holder last renewed the record.
    pub renew_time: Option<MicroTime>,
    /// How often the holder of the lock has changed.
    pub leader_transitions: i32,
    /// The strategy of the coordinated election, such as [`OLDEST_EMULATION_VERSION`](crate::OLDEST_EMULATION_VERSION).
    pub strategy: Option<String>,
    /// The contender that should hold the lock in a coordinated election. The current holder should give up the lock for this
    /// contender. `None` if the current holder may keep the lock.
    pub preferred_holder: Option<String>,
}

impl LeaderElectionRecord {
    /// Returns whether the lock is free.
    pub fn is_vacant(&self) -> bool {
        self.holder_identity.is_empty()
    }

    /// Returns how long the record is valid without a change. If the record contains no duration, returns `own`, the lease duration
    /// of the observer.
    pub fn lease_duration(&self, own: Duration) -> Duration {
        match u64::try_from(self.lease_duration_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => own,
        }
    }

    /// Returns whether both records belong to the same leadership term. In such records, the holder, the acquire time
    /// and the number of transitions are equal.
    pub(crate) fn same_term(&self, other: &Self) -> bool {
        self.holder_identity == other.holder_identity
            && self.acquire_time == other.acquire_time
            && self.leader_transitions == other.leader_transitions
    }
}

/// A version of an object. A resourceVersion can be compared only within the same uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The uid of the object that stores the record.
    pub uid: String,
    /// The resourceVersion of the object.
    pub resource_version: String,
}

impl Version {
    /// Returns whether `other` is a version of the same object. For a [`MultiLock`](crate::MultiLock), this version may consist only
    /// of the primary half.
    pub(crate) fn goes_on_in(&self, other: &Self) -> bool {
        self.uid == other.uid || (self.uid.ends_with('+') && other.uid.starts_with(&self.uid))
    }

    /// Returns whether this version is older than `other`. `None` if the two versions cannot be compared.
    pub(crate) fn is_before(&self, other: &Self) -> Option<bool> {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        Some(number(self)? < number(other)?)
    }
}

/// A record, and the version that the object had when the record was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The version.
    pub version: Version,
    /// The record.
    pub record: LeaderElectionRecord,
    /// Stored data that `record` cannot represent, such as a time that cannot be parsed, or the second half of a
    /// [`MultiLock`](crate::MultiLock). Electors only compare this data. If it is `None`, they compare only `record`.
    pub raw: Option<Box<str>>,
}

impl LockState {
    /// Creates a state that has no additional stored data.
    pub fn new(version: Version, record: LeaderElectionRecord) -> Self {
        Self { version, record, raw: None }
    }

    /// Returns whether both states contain the same election record in the same object. A write of other data, such as a label, changes
    /// only the resourceVersion.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        let same_raw = self.raw.as_ref().zip(earlier.raw.as_ref()).is_none_or(|(raw, earlier)| raw == earlier);
        same_raw && self.version.uid == earlier.version.uid && self.record == earlier.record
    }

    /// Replaces the version of this state with the version of `later`, unless that version is older. The two states must have the
    /// same election record: see [`repeats`](Self::repeats).
    pub(crate) fn repeated_as(&mut self, later: &Self) {
        if later.version.is_before(&self.version) != Some(true) {
            self.version = later.version.clone();
        }
        if later.raw.is_some() {
            self.raw.clone_from(&later.raw);
        }
    }
}

/// The precision with which a lock stores times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Microseconds, like a Lease.
    #[default]
    Micros,
    /// Whole seconds, like an annotation.
    Seconds,
}

impl TimePrecision {
    /// Truncates a time to the precision that the lock stores, so that a record that is read back equals the written
    /// record.
    pub(crate) fn cut(self, moment: Timestamp) -> MicroTime {
        let cut = match self {
            Self::Micros => Timestamp::from_microsecond(moment.as_microsecond()),
            Self::Seconds => Timestamp::from_second(moment.as_second()),
        };
        MicroTime(cut.unwrap_or(moment))
    }

    /// Returns the smallest difference between two times that the lock can store.
    pub(crate) fn step(self) -> Duration {
        match self {
            Self::Micros => Duration::from_micros(1),
            Self::Seconds => Duration::from_secs(1),
        }
    }
}
