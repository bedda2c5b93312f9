//! Election records, and the versions of the objects that contain them.

use std::time::Duration;

use jiff::Timestamp;
use pintle_meta::MicroTime;

/// The election record in a lock, like client-go's `LeaderElectionRecord`.
///
/// The two times in a record are informational. Electors do not use the acquire time and the renew time for decisions.
/// An observer treats a record as expired if it stays unchanged for its lease duration, measured on the observer's own
/// clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The identity of the holder, or an empty string if the lock is free.
    pub holder_identity: String,
    /// How many seconds the record must stay unchanged before a candidate takes over. Zero and negative values are
    /// treated as missing.
    pub lease_duration_seconds: i32,
    /// The time at which the holder acquired the lock.
    pub acquire_time: Option<MicroTime>,
    /// The time of the holder's last renewal.
    pub renew_time: Option<MicroTime>,
    /// The number of times that the holder has changed.
    pub leader_transitions: i32,
    /// The strategy of a coordinated election, such as [`OLDEST_EMULATION_VERSION`](crate::OLDEST_EMULATION_VERSION).
    pub strategy: Option<String>,
    /// The contender that should get the lock from the current holder in a coordinated election. This field is `None`
    /// if the current holder may keep the lock.
    pub preferred_holder: Option<String>,
}

impl LeaderElectionRecord {
    /// Returns `true` if the lock is free.
    pub fn is_vacant(&self) -> bool {
        self.holder_identity.is_empty()
    }

    /// Returns how long the record is valid without a change. Returns `own`, the lease duration of the observer, if the
    /// record contains no duration.
    pub fn lease_duration(&self, own: Duration) -> Duration {
        match u64::try_from(self.lease_duration_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => own,
        }
    }

    /// Returns `true` if both records belong to the same leadership term. The records of a term have the same holder,
    /// acquire time and number of transitions.
    #[doc(hidden)]
    pub fn same_term(&self, other: &Self) -> bool {
        self.holder_identity == other.holder_identity
            && self.acquire_time == other.acquire_time
            && self.leader_transitions == other.leader_transitions
    }
}

/// A version of an object. Only resourceVersions of the same uid can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The uid of the object that stores the record.
    pub uid: String,
    /// The resourceVersion of the object.
    pub resource_version: String,
}

impl Version {
    /// Returns `true` if `other` is a version of the same object. If the lock is a [`MultiLock`](crate::MultiLock),
    /// `self` may be a version from before the secondary lock was created.
    pub(crate) fn goes_on_in(&self, other: &Self) -> bool {
        self.uid == other.uid || (self.uid.ends_with('+') && other.uid.starts_with(&self.uid))
    }

    /// Returns `Some(true)` if `self` is older than `other`, or `None` if the versions are not comparable.
    #[doc(hidden)]
    pub fn is_before(&self, other: &Self) -> Option<bool> {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        Some(number(self)? < number(other)?)
    }
}

/// A record, and the version of its object when the record was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The object's version.
    pub version: Version,
    /// The election record.
    pub record: LeaderElectionRecord,
    /// Stored data that does not fit into `record`, such as an invalid time, or the second lock of a
    /// [`MultiLock`](crate::MultiLock). Electors do not interpret this data, and only compare it. If `raw` is `None`,
    /// electors compare only `record`.
    pub raw: Option<Box<str>>,
}

impl LockState {
    /// Creates a lock state without `raw` data.
    pub fn new(version: Version, record: LeaderElectionRecord) -> Self {
        Self { version, record, raw: None }
    }

    /// Returns `true` if both states contain the same record in the same object. If another program writes other data,
    /// such as a label, only the resourceVersion changes.
    #[doc(hidden)]
    pub fn repeats(&self, earlier: &Self) -> bool {
        let same_raw = self.raw.as_ref().zip(earlier.raw.as_ref()).is_none_or(|(raw, earlier)| raw == earlier);
        same_raw && self.version.uid == earlier.version.uid && self.record == earlier.record
    }

    /// Replaces the version of this state by the version of `later`, unless the version of `later` is known to be
    /// older. Both states must contain the same election record: see [`repeats`](Self::repeats).
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

/// The precision of the times in a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Microseconds, as in a Lease.
    #[default]
    Micros,
    /// Whole seconds, as in an annotation of a ConfigMap or Endpoints object.
    Seconds,
}

impl TimePrecision {
    /// Truncates a time to this precision. An elector truncates every time that it writes, so that the record is
    /// unchanged when the elector reads it again.
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
