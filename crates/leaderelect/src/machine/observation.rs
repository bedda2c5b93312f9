//! The last observed state of the lock.

use std::time::Duration;

use super::{Instruction, Machine, Now, Sent};
use crate::record::{LeaderElectionRecord, LockState};

#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) state: LockState,
    /// The time at which the current record was first observed in the current object. Writes that leave the record
    /// unchanged do not change this time, but a restore of the server from a backup does.
    pub(super) at: Duration,
    confirmed: Duration,
}

impl Observation {
    pub(super) fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// If `found` has the same record and uid as this observation, stores the version of `found` and returns `true`.
    ///
    /// Electors of this crate never write the same record twice, but other implementations might if their clock was set
    /// back. Therefore, if the last observation is older than `blind`, this method treats every write to the object as
    /// a renewal.
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
    /// Records the state of the lock that the read `sent` has returned. Forgets higher versions that were observed
    /// before the read, because they no longer exist if the server was restored from a backup.
    pub(super) fn observe_read(
        &mut self,
        sent: &Sent,
        found: Option<&LockState>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let sent = sent.at.monotonic;
        self.last_hint.take_if(|hinted| hinted.at < sent);
        let is_current = self.observed.as_ref().is_some_and(|observed| observed.confirmed < sent);
        let last = self.observed.as_ref().filter(|_| is_current).zip(found);
        let undone = last.filter(|(last, found)| self.was_undone(last, found, now)).map(|(last, _)| last.state.clone());
        self.observe(found, now, instructions);
        if let (true, Some(observed), Some(found)) = (is_current, &mut self.observed, found) {
            let own = self.config.lease_duration;
            let lasts = |last: &LockState| found.record.lease_duration(own) >= last.record.lease_duration(own).max(own);
            observed.state.version = found.version.clone();
            match undone {
                None => {}
                // The holder may have renewed the lock since the last observation, so its lease starts again. The lease
                // ends early if the holder releases the lock.
                Some(last) if last.record.holder_identity == found.record.holder_identity && lasts(&last) => {
                    observed.at = now.monotonic;
                }
                Some(last) => self.wait_out(&last, now),
            }
        }
    }

    /// Returns `true` if the candidate must wait because the server was restored from a backup, and the holder in the last
    /// observation may still work, because it may not have noticed the restore.
    fn was_undone(&self, last: &Observation, found: &LockState, now: Now) -> bool {
        let Observation { state: LockState { version, record, .. }, at, .. } = last;
        let is_restored = version.uid == found.version.uid && found.version.is_before(version) == Some(true);
        let is_foreign = !record.is_vacant() && record.holder_identity != self.config.identity;
        let may_work = now.monotonic < *at + record.lease_duration(self.config.lease_duration);
        self.config.wait_after_deletion && is_restored && is_foreign && may_work
    }

    /// Returns the maximum age of the last observation for detecting a renewal by its record. If the observation is
    /// older, [`is_repeated`](Observation::is_repeated) treats every write as a renewal.
    ///
    /// A candidate that can reach the server observes the lock before this limit, at the latest when the record
    /// expires. With a lower limit, another program that regularly writes the object could delay a takeover forever.
    pub(super) fn blind_after(&self, record: &LeaderElectionRecord) -> Duration {
        let own = self.config.lease_duration;
        let expiry = record.lease_duration(own).max(own).saturating_add(self.preference.defer);
        expiry.saturating_add(self.config.renew_deadline)
    }
}
