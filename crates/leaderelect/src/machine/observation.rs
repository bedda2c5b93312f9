//! The last observed state of the lock, and the time at which its record was observed for the first time.

use std::time::Duration;

use super::Machine;
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// The time of the response or event in which this record of this object was first observed. Writes that leave the
    /// record unchanged do not change this time.
    pub(super) at: Duration,
    /// The time at which the record was last observed.
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Returns whether `found` has the same record and the same uid as this observation. If both are equal, the method
    /// stores the version of `found`.
    ///
    /// Electors of this crate never write the same record a second time. Another implementation may write the same
    /// record again after its clock was set back. Therefore, if the last observation is older than `blind`, any write
    /// of the object counts as a renewal.
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
    /// Returns how long a candidate may go without observing the lock. After a longer time, the candidate may have
    /// missed a renewal that repeats an earlier record.
    ///
    /// A candidate that can reach the server reads the lock sooner: at the latest when the record expires and the
    /// candidate may take the lock. If this time were shorter, other programs that write the object regularly could
    /// delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
