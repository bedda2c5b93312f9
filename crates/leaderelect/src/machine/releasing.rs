//! Releases the lock after the leader's work has ended. The `Machine` releases only a lock that contains the record of
//! this elector.

use std::time::Duration;

use super::{Doubt, Effect, Failure, LockRequest, Machine, Now, Observation, Phase, Releasing, Sent, Term};
use crate::record::{LeaderElectionRecord, LockState, Version};

impl Machine {
    /// Ends `term`, and then tries for up to `span` to release the lock. If `span` is zero, this method does not
    /// release the lock.
    pub(super) fn begin_release(&mut self, term: Option<Term>, span: Duration, now: Now) {
        self.phase =
            Phase::Releasing(Releasing { term, until: now.monotonic.saturating_add(span), conflicts: 0, write: None });
        self.next_try = now.monotonic;
    }

    /// Returns the configured time limit of a release, or zero if the elector must not release the lock.
    pub(super) fn release_span(&self) -> Duration {
        if self.config.release_on_cancel { self.config.renew_deadline } else { Duration::ZERO }
    }

    /// After a stop, releases the lock if this elector may still hold it. For example, a write with an unknown result
    /// may have acquired the lock.
    pub(super) fn release_rest(&mut self, now: Now) {
        let span = match self.left_over() {
            _ if !self.in_doubt.is_empty() => self.release_span(),
            // Stop trying when the record expires, because other contenders may then acquire the lock.
            Some(expires) => self.release_span().min(expires.saturating_sub(now.monotonic)),
            None => return,
        };
        self.begin_release(None, span, now);
    }

    /// Returns the time at which the record of the last term expires. Returns `None` if no lock needs to be released,
    /// or if it is unknown whether the lock contains this record.
    pub(super) fn left_over(&self) -> Option<Duration> {
        let (uid, last) = self.last_term.as_ref().filter(|_| self.config.release_on_cancel)?;
        let Observation { state: LockState { version, record, .. }, at, .. } = self.observed.as_ref()?;
        let is_there = version.uid == *uid && record.same_term(last);
        is_there.then(|| at.saturating_add(record.lease_duration(self.config.lease_duration)))
    }

    pub(super) fn release_read(&mut self, sent: Sent, answer: Result<Option<LockState>, Failure>, now: Now) {
        let Phase::Releasing(releasing) = &mut self.phase else { return };
        let found = match answer {
            Ok(Some(found)) => found,
            Ok(None) => return self.release_done(now),
            Err(failure) => {
                let pause = self.config.retry_period.max(failure.retry_after.unwrap_or_default());
                self.next_try = sent.at.monotonic.saturating_add(pause).max(now.monotonic);
                return;
            }
        };
        let same_term = |record: &LeaderElectionRecord| found.record.same_term(record);
        let of_term = releasing.term.as_ref();
        let of_term = of_term.is_some_and(|term| term.version.uid == found.version.uid && same_term(&term.record));
        let of_last = self.last_term.as_ref().is_some_and(|(uid, last)| *uid == found.version.uid && same_term(last));
        let of_doubt = |doubt: &Doubt| same_term(&doubt.record);
        let left = releasing.term.is_none() && (of_last || self.in_doubt.iter().any(of_doubt));
        if !of_term && !left {
            return self.release_done(now);
        }
        let last = found.record.renew_time.map_or(now.wall, |time| time.0);
        let time = Some(self.precision.cut(now.wall.max(last)));
        let record = LeaderElectionRecord {
            holder_identity: String::new(),
            // Servers reject lease durations below one second.
            lease_duration_seconds: 1,
            acquire_time: time,
            renew_time: time,
            leader_transitions: found.record.leader_transitions,
            // Clear the strategy and the preferred holder, because they belong to the term that has ended.
            ..LeaderElectionRecord::default()
        };
        let base = self.newest(found).version;
        let Phase::Releasing(releasing) = &mut self.phase else { return };
        releasing.write = Some(LockRequest::Update { base, record });
        self.next_try = now.monotonic;
    }

    pub(super) fn released(&mut self, answer: Result<Version, Failure>, now: Now) {
        let Phase::Releasing(releasing) = &mut self.phase else { return };
        match answer {
            Ok(_) => self.release_done(now),
            Err(Failure { effect: Effect::Conflict, .. }) => {
                // Another program has written the object after the read, so read the lock again. Pause before this
                // read, except after the first conflict.
                releasing.conflicts += 1;
                let again = releasing.conflicts > 1;
                self.next_try = now.monotonic + if again { self.conflict_pause() } else { Duration::ZERO };
            }
            Err(Failure { effect: Effect::NotFound, .. }) => self.release_done(now),
            Err(failure) => {
                let pause = self.config.retry_period.max(failure.retry_after.unwrap_or_default());
                self.next_try = now.monotonic.saturating_add(pause);
            }
        }
    }

    fn release_done(&mut self, now: Now) {
        self.in_doubt.clear();
        self.phase = Phase::Following;
        self.next_try = now.monotonic + self.retries.next(None);
    }
}
