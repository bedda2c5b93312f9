//! Election records, and the versions of the objects that store them.

use std::time::Duration;

use jiff::Timestamp;
use pintle_meta::MicroTime;

/// The election record that a lock stores, like client-go's `LeaderElectionRecord`.
///
/// The two times are for people and for other programs. Electors do not use them for decisions. For an observer, a
/// record has expired if it has not changed for its lease duration on the observer's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The holder's identity, or an empty string if the lock is free.
    pub holder_identity: String,
    /// How many seconds a candidate must observe the record unchanged before it takes over. Zero and negative values
    /// count as missing.
    pub lease_duration_seconds: i32,
    /// The time at which the holder's term began.
    pub acquire_time: Option<MicroTime>,
    /// The time of the holder's last renewal.
    pub renew_time: Option<MicroTime>,
    /// The number of holder changes.
    pub leader_transitions: i32,
    /// A coordinated election's strategy, such as [`OLDEST_EMULATION_VERSION`](crate::OLDEST_EMULATION_VERSION).
    pub strategy: Option<String>,
    /// In a coordinated election, the contender for which the current holder should give up the lock. `None` if the
    /// current holder may keep the lock.
    pub preferred_holder: Option<String>,
}

impl LeaderElectionRecord {
    /// Returns `true` if the lock is free.
    pub fn is_vacant(&self) -> bool {
        self.holder_identity.is_empty()
    }

    /// Returns how long the record stays valid without a change. If the record contains no duration, returns `own`,
    /// which is the observer's lease duration.
    pub fn lease_duration(&self, own: Duration) -> Duration {
        match u64::try_from(self.lease_duration_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => own,
        }
    }

    /// Returns `true` if both records belong to the same term. Records of one term have the same holder, acquire time
    /// and number of transitions.
    #[doc(hidden)]
    pub fn same_term(&self, other: &Self) -> bool {
        self.holder_identity == other.holder_identity
            && self.acquire_time == other.acquire_time
            && self.leader_transitions == other.leader_transitions
    }
}

/// A version of an object. Only resourceVersions with the same uid can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The uid of the object that stores the record.
    pub uid: String,
    /// The resourceVersion of the object.
    pub resource_version: String,
}

impl Version {
    /// Returns `true` if `other` is a version of the same object. If `self` is the version of a
    /// [`MultiLock`](crate::MultiLock), it may be from a time at which only the primary lock's object existed.
    pub(crate) fn goes_on_in(&self, other: &Self) -> bool {
        self.uid == other.uid || (self.uid.ends_with('+') && other.uid.starts_with(&self.uid))
    }

    /// Returns `Some(true)` if `self` is older than `other`, and `None` if the two versions cannot be compared.
    #[doc(hidden)]
    pub fn is_before(&self, other: &Self) -> Option<bool> {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        Some(number(self)? < number(other)?)
    }
}

/// A record, and the object's version when the record was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The object's version.
    pub version: Version,
    /// The election record.
    pub record: LeaderElectionRecord,
    /// Stored data that `record` cannot represent, such as an invalid time, or the second lock's data of a
    /// [`MultiLock`](crate::MultiLock). Electors only compare this data. If `raw` is `None`, they compare only
    /// `record`.
    pub raw: Option<Box<str>>,
}

impl LockState {
    /// Creates a state without `raw` data.
    pub fn new(version: Version, record: LeaderElectionRecord) -> Self {
        Self { version, record, raw: None }
    }

    /// Returns `true` if both states contain the same election record of the same object. A write of other data, such
    /// as a label, changes only the resourceVersion.
    #[doc(hidden)]
    pub fn repeats(&self, earlier: &Self) -> bool {
        let same_raw = self.raw.as_ref().zip(earlier.raw.as_ref()).is_none_or(|(raw, earlier)| raw == earlier);
        same_raw && self.version.uid == earlier.version.uid && self.record == earlier.record
    }

    /// Adopts the version of `later`, unless it is older. Both states must have the same election record: see
    /// [`repeats`](Self::repeats).
    #[doc(hidden)]
    pub fn repeated_as(&mut self, later: &Self) {
        if later.version.is_before(&self.version) != Some(true) {
            self.version = later.version.clone();
        }
        if later.raw.is_some() {
            self.raw.clone_from(&later.raw);
        }
    }
}

/// The precision of a lock's stored times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Microseconds, as in a Lease.
    #[default]
    Micros,
    /// Whole seconds, as in a lock annotation on a ConfigMap or Endpoints object.
    Seconds,
}

impl TimePrecision {
    /// Truncates a time to this precision. An elector truncates each time before it writes a record, so that it
    /// recognizes the record when it reads it back.
    pub(crate) fn cut(self, moment: Timestamp) -> MicroTime {
        let cut = match self {
            Self::Micros => Timestamp::from_microsecond(moment.as_microsecond()),
            Self::Seconds => Timestamp::from_second(moment.as_second()),
        };
        MicroTime(cut.unwrap_or(moment))
    }

    pub(crate) fn step(self) -> Duration {
        match self {
            Self::Micros => Duration::from_micros(1),
            Self::Seconds => Duration::from_secs(1),
        }
    }
}
