//! Giving the lock up, after the work has ended and never anyone else's.

use super::{Doubt, Effect, Failure, LockRequest, Machine, Now, Phase, Releasing, Sent, Term};
use crate::record::{LeaderElectionRecord, LockState, Version};

impl Machine {
    /// Begins to give `term` up. Where that is switched off, it is just over.
    pub(super) fn begin_release(&mut self, term: Option<Term>, now: Now) {
        let span = if self.config.release_on_cancel { self.config.renew_deadline } else { Default::default() };
        self.phase =
            Phase::Releasing(Releasing { term, until: now.monotonic.saturating_add(span), conflicts: 0, write: None });
        self.next_try = now.monotonic;
    }

    /// On the way out: if a write in doubt may have taken the lock, gives it up again.
    pub(super) fn release_doubts(&mut self, now: Now) {
        if !self.in_doubt.is_empty() {
            self.begin_release(None, now);
        }
    }

    /// Decides on what was read before a release.
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
        let mine = |record: &LeaderElectionRecord| found.record.same_term(record);
        let of_term = releasing.term.as_ref();
        let of_term = of_term.is_some_and(|term| term.version.uid == found.version.uid && mine(&term.record));
        let of_doubt = |doubt: &Doubt| releasing.term.is_none() && mine(&doubt.record);
        if !of_term && !self.in_doubt.iter().any(of_doubt) {
            return self.release_done(now);
        }
        let last = found.record.renew_time.map_or(now.wall, |time| time.0);
        let time = Some(self.precision.cut(now.wall.max(last)));
        let record = LeaderElectionRecord {
            holder_identity: String::new(),
            // The least that a server takes.
            lease_duration_seconds: 1,
            acquire_time: time,
            renew_time: time,
            leader_transitions: found.record.leader_transitions,
            // These were wishes about the term.
            ..LeaderElectionRecord::default()
        };
        releasing.write = Some(LockRequest::Update { base: found.version, record });
        self.next_try = now.monotonic;
    }

    /// Decides on the outcome of a release.
    pub(super) fn released(&mut self, answer: Result<Version, Failure>, now: Now) {
        let Phase::Releasing(releasing) = &mut self.phase else { return };
        match answer {
            Ok(_) => self.release_done(now),
            Err(Failure { effect: Effect::Conflict, .. }) => {
                // Somebody wrote between the read and this; if they go on, each try waits a while.
                releasing.conflicts += 1;
                let pause = if releasing.conflicts > 1 { self.config.retry_period / 4 } else { Default::default() };
                self.next_try = now.monotonic.saturating_add(pause);
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
