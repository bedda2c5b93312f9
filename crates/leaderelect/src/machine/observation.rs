//! The last observed state of the lock, and the time at which its record was first seen.

use std::time::Duration;

use super::Machine;
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// The time of the response or event that first contained this record in this object. Writes that do not change the
    /// record do not change this time.
    pub(super) at: Duration,
    /// The time at which the record was last seen.
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Returns whether `found` has the same record and uid. If it does, stores the version of `found`.
    ///
    /// Electors of this crate never write the same record twice. Another implementation may do so after its clock was
    /// set back. Therefore, if the last observation is older than `blind`, any write of the object counts as a renewal.
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
    /// Returns how long a candidate may go without an observation. After this time, it may have missed a renewal that
    /// repeats a record.
    ///
    /// A candidate that can reach the server reads sooner, at the latest when the record expires and the candidate may
    /// take the lock. If this time were shorter, regular writes of other programs could delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
