//! The last observed state of the lock, and the time when its record was first observed.

use std::time::Duration;

use super::Machine;
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// The time of the response or event that first contained this record of this object. A write that leaves the
    /// record unchanged does not change this time.
    pub(super) at: Duration,
    /// The time when the record was last observed.
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Returns whether `found` has the same record and uid as this observation. If so, the method also stores the
    /// version of `found`.
    ///
    /// Electors of this crate never write the same record a second time. Another implementation may write the same
    /// record again after its clock was set back. If the last observation is older than `blind`, any write to the
    /// object therefore counts as a renewal.
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
    /// Returns the maximum time between two observations of a candidate. After a longer time without an observation,
    /// the candidate may have missed a renewal that repeats an earlier record.
    ///
    /// A candidate that can reach the server reads the lock more often. The candidate reads the lock at the latest when
    /// the record expires and the candidate may take the lock. With a shorter time, other programs that write the
    /// object regularly could delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
