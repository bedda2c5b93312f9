//! The last observed state of the lock.

use std::time::Duration;

use super::Machine;
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// The time at which the record was first observed in this object. A write that leaves the record unchanged does
    /// not change this time.
    pub(super) at: Duration,
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Returns `true` if `found` has the same record and uid as this observation, and then stores the version of
    /// `found`.
    ///
    /// This crate's electors never write the same record twice, but another implementation may do so after its clock
    /// was set back. Therefore, if the last observation is older than `blind`, any write to the object counts as a
    /// renewal.
    pub(super) fn is_repeated(&mut self, found: &LockState, now: Duration, blind: Duration) -> bool {
        let looked = now.saturating_sub(self.confirmed) < blind;
        let is_repeated = found.repeats(&self.state) && (looked || found.version == self.state.version);
        if is_repeated {
            self.state.repeated_as(found);
            self.confirmed = now;
        }
        is_repeated
    }
}

impl Machine {
    /// Returns the time without observations after which a candidate may have missed a renewal that repeats an earlier
    /// record.
    ///
    /// A candidate that can reach the server observes the lock more often than this, and at the latest when the record
    /// expires. With a shorter time, programs that write the object regularly could delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
