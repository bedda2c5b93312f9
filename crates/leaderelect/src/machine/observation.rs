//! The last observed state of the lock, and when its record was first seen.

use std::time::Duration;

use super::Machine;
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// When this record was first seen in this object, by arrival time. Other writes of the object do not change it.
    pub(super) at: Duration,
    /// When the record was last seen.
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Returns whether the record and uid are unchanged. If so, adopts the version of `found`.
    ///
    /// Our own records never repeat. But a holder of another implementation whose clock was set back may write an
    /// identical record again. So after `blind` without a look, any write of the object counts as a renewal.
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
    /// Returns the time without a look after which a candidate may have missed that the record repeats.
    ///
    /// A candidate that reaches the server looks sooner: at the latest when the record expires and its turn has come.
    /// With a shorter time, regular writes of other programs could delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
