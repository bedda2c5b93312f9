//! The record of who leads, and its versions.

use std::time::Duration;

use jiff::Timestamp;
use pintle_meta::MicroTime;

/// Who leads, as the lock says: the `LeaderElectionRecord` of client-go.
///
/// No decision depends on the two times: they are for humans and for other programs. A record has expired when it has not
/// changed for long enough on the observer's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The holder; empty when nobody holds the lock.
    pub holder_identity: String,
    /// For how many seconds a candidate has to see the record unchanged before it may take over. 0 or less if the writer
    /// gave none.
    pub lease_duration_seconds: i32,
    /// When the term began.
    pub acquire_time: Option<MicroTime>,
    /// When the holder last renewed.
    pub renew_time: Option<MicroTime>,
    /// How often the holder changed.
    pub leader_transitions: i32,
    /// How a coordinated election chooses the holder, such as by [`OLDEST_EMULATION_VERSION`](crate::OLDEST_EMULATION_VERSION).
    pub strategy: Option<String>,
    /// To whom the holder of a coordinated election is to give the lock up; none if it may keep it.
    pub preferred_holder: Option<String>,
}

impl LeaderElectionRecord {
    /// Whether nobody holds the lock.
    pub fn is_vacant(&self) -> bool {
        self.holder_identity.is_empty()
    }

    /// How long the record is valid unchanged. A record that states no duration counts with the observer's own.
    pub fn lease_duration(&self, own: Duration) -> Duration {
        match u64::try_from(self.lease_duration_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => own,
        }
    }

    /// Whether both records belong to one term: same holder, same beginning, same count.
    pub(crate) fn same_term(&self, other: &Self) -> bool {
        self.holder_identity == other.holder_identity
            && self.acquire_time == other.acquire_time
            && self.leader_transitions == other.leader_transitions
    }
}

/// One state of one object: the resourceVersion means nothing without the uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The uid of the object that holds the record.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
}

impl Version {
    /// Whether `other` is a state of the same object, which may have been half of a lock before.
    pub(crate) fn goes_on_in(&self, other: &Self) -> bool {
        self.uid == other.uid || (self.uid.ends_with('+') && other.uid.starts_with(&self.uid))
    }

    /// Whether this is a state before `other`; none where that cannot be told.
    pub(crate) fn is_before(&self, other: &Self) -> Option<bool> {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        Some(number(self)? < number(other)?)
    }
}

/// A record and the version in which it was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The version.
    pub version: Version,
    /// The record.
    pub record: LeaderElectionRecord,
    /// The stored record beyond what `record` can express, such as a time that cannot be parsed or the second half of a
    /// [`MultiLock`](crate::MultiLock). Electors only compare it. `None` means that `record` alone is compared.
    pub raw: Option<Box<str>>,
}

impl LockState {
    /// Creates a state whose record is compared by `record` alone.
    pub fn new(version: Version, record: LeaderElectionRecord) -> Self {
        Self { version, record, raw: None }
    }

    /// Returns whether both states have the same election record in the same object. Other writes of the object, such as of its
    /// labels, change the resourceVersion and nothing here.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        let same_raw = self.raw.as_ref().zip(earlier.raw.as_ref()).is_none_or(|(raw, earlier)| raw == earlier);
        same_raw && self.version.uid == earlier.version.uid && self.record == earlier.record
    }

    /// Takes over the version of a later state that [repeats](Self::repeats) this one.
    pub(crate) fn repeated_as(&mut self, later: &Self) {
        if later.version.is_before(&self.version) != Some(true) {
            self.version = later.version.clone();
        }
        if later.raw.is_some() {
            self.raw.clone_from(&later.raw);
        }
    }
}

/// How finely a lock stores times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// Microseconds, like a Lease.
    #[default]
    Micros,
    /// Whole seconds, like an annotation.
    Seconds,
}

impl TimePrecision {
    /// Cuts a moment to what the lock stores, so that a record compares equal to itself when it is read back.
    pub(crate) fn cut(self, moment: Timestamp) -> MicroTime {
        let cut = match self {
            Self::Micros => Timestamp::from_microsecond(moment.as_microsecond()),
            Self::Seconds => Timestamp::from_second(moment.as_second()),
        };
        MicroTime(cut.unwrap_or(moment))
    }

    /// The least by which two stored times differ.
    pub(crate) fn step(self) -> Duration {
        match self {
            Self::Micros => Duration::from_micros(1),
            Self::Seconds => Duration::from_secs(1),
        }
    }
}
