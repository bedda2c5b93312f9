//! The `Machine` as a candidate, which observes the lock and acquires it when no other contender can lead.

use std::time::Duration;

use super::{
    Doubt, EXPIRY_JITTER, Effect, Failure, Hint, Instruction, Leading, LockRequest, Machine, Observation, Phase,
    Purpose, Sent, Term,
};
use crate::clocks::{Deadline, Now};
use crate::record::{LeaderElectionRecord, LockState, Version};

impl Machine {
    /// Returns a candidate's next request. The request is a write if the watch has reported a free lock, and a read
    /// otherwise.
    pub(super) fn next_contest(&mut self, now: Now) -> LockRequest {
        let free = self.vacancy.take().filter(|_| now.monotonic >= self.write_not_before);
        match free.and_then(|free| Some((self.takeover(&free, now.monotonic)?, free))) {
            Some((count, free)) => {
                LockRequest::Update { base: free.version, record: self.claim(&free.record, count, now) }
            }
            None => LockRequest::Read,
        }
    }

    pub(super) fn contend(
        &mut self,
        sent: Sent,
        answer: Result<Option<LockState>, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        if self.stopping {
            return self.release_rest(now);
        }
        if sent.purpose != Purpose::Contend {
            // Choose a new time, because `next_try` was chosen during the last term.
            self.next_try = Duration::MAX;
        }
        let found = match answer {
            Ok(found) => found,
            Err(failure) => return self.try_later(failure, now),
        };
        if now.monotonic < self.write_not_before {
            self.next_try = self.write_not_before;
            return;
        }
        let request = match found {
            None if self.config.coordinated || self.held_until > sent.at.monotonic => None,
            None if self.defers(self.absent_since, sent.at.monotonic) => None,
            None => Some(LockRequest::Create(self.claim(&LeaderElectionRecord::default(), 0, now))),
            Some(found) => {
                let found = self.newest(found);
                if let Some(written) = self.settle(&found.record)
                    && !Deadline::after(written, self.config.renew_deadline).has_passed(now)
                {
                    return self.begin(found.version, found.record, written, now, instructions);
                }
                // A coordinated candidate must not acquire an expired lock. For a coordinated candidate, use the
                // current time, because the lock may have expired after the read was sent.
                let looked_at = if self.config.coordinated { now } else { sent.at }.monotonic;
                let transitions = self.takeover(&found, looked_at);
                self.forget_undone(&found);
                transitions.map(|count| {
                    let record = self.claim(&found.record, count, now);
                    LockRequest::Update { base: found.version, record }
                })
            }
        };
        match request {
            Some(request) => self.send(request, Purpose::Contend, now, instructions),
            None => self.next_try = self.next_look(now).min(self.next_try),
        }
    }

    /// Returns `true` if the watch may have reported a newer state after the read was sent. If the result is `true`,
    /// the candidate must repeat the read. If the read found no lock, its order relative to the event is unknown.
    pub(super) fn is_overtaken(&self, sent: &Sent, found: Option<&LockState>) -> bool {
        let seen = self.observed.as_ref().filter(|seen| seen.at >= sent.at.monotonic);
        let is_older =
            |seen: &Observation| found.is_none_or(|found| found.version.is_before(&seen.state.version) == Some(true));
        seen.is_some_and(is_older)
    }

    /// Processes the result of a write that a candidate has sent. `overtaken` means that this write creates the lock,
    /// and that another contender's lock existed while the write was in flight. After an overtaken write, the term does
    /// not begin immediately, because the other contender may not have observed the deletion of its lock.
    pub(super) fn contended(
        &mut self,
        write: Doubt,
        overtaken: bool,
        answer: Result<Version, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        match answer {
            Ok(version) if self.stopping => {
                self.begin_release(Some(Term { version, record: write.record }), self.release_span(), now);
            }
            Ok(_) if overtaken && self.config.wait_after_deletion => {
                self.next_try = self.next_look(now).min(self.next_try)
            }
            Ok(version) if !Deadline::after(write.sent, self.config.renew_deadline).has_passed(now) => {
                self.begin(version, write.record, write.sent, now, instructions);
            }
            // The server has stored the write too late: a term measured from the sending time would already be over.
            // Write again, based on the stored record.
            Ok(version) => {
                self.last_term = Some((version.uid, write.record));
                self.next_try = now.monotonic;
            }
            Err(failure) => {
                if !overtaken {
                    self.doubt(write);
                }
                match (self.stopping, failure.effect) {
                    (true, _) => self.release_rest(now),
                    // Another contender may have acquired the lock. Alternatively, another program has changed the
                    // object but not the record, and the lock is still free.
                    (false, Effect::Conflict) => {
                        let pause = self.conflict_pause();
                        self.act_within(pause, now);
                    }
                    (false, _) => self.try_later(failure, now),
                }
            }
        }
    }

    pub(super) fn watch(&mut self, hint: Hint, now: Now, instructions: &mut Vec<Instruction>) {
        match hint {
            Hint::Up => (self.watch_is_up, self.watching) = (true, true),
            Hint::Down => {
                (self.watch_is_up, self.watching, self.vacancy) = (false, false, None);
                // A leader keeps its renewal time, with or without a watch.
                if !self.leads() {
                    let pause = self.retries.next(None);
                    self.act_within(pause, now);
                }
            }
            Hint::Changed(found) => match self.phase {
                Phase::Following => self.follower_hint(found, now, instructions),
                Phase::Leading(_) => self.leader_hint(&found, now),
                // Remember a new holder, because this contender must wait for this holder if the lock is deleted before
                // the next read.
                Phase::Lost | Phase::Releasing(_)
                    if self.is_newer(&found) == Some(true) && !self.is_of_last_term(&found) =>
                {
                    self.observe(Some(&found), now, instructions);
                }
                Phase::Releasing(_) => self.last_hint = Some(Observation::new(found, now.monotonic)),
                _ => {}
            },
            Hint::MaybeChanged => match &mut self.phase {
                Phase::Following => {
                    let pause = self.hint_jitter();
                    self.act_within(pause, now);
                }
                Phase::Leading(leading) => {
                    leading.read_back = true;
                    // Pause before the next write, because a program that reacts to each of our writes would otherwise
                    // cause a busy loop.
                    self.next_try = now.monotonic.max(leading.last_sent + self.config.retry_period / 20);
                }
                _ => {}
            },
            Hint::Deleted { uid } => match &self.phase {
                Phase::Following => {
                    self.watching = self.watch_is_up;
                    self.vacancy = None;
                    let pause = self.hint_jitter();
                    self.act_within(pause, now);
                }
                Phase::Leading(leading) if leading.term.version.uid == uid => {
                    self.lose(super::EndReason::Deleted, now, instructions);
                }
                _ => {}
            },
        }
    }

    /// Processes a candidate's watch event. Ignores outdated states, because a slow watch could otherwise make a dead
    /// leader look alive.
    fn follower_hint(&mut self, found: LockState, now: Now, instructions: &mut Vec<Instruction>) {
        self.watching = self.watch_is_up;
        match self.is_newer(&found) {
            Some(true) => {}
            Some(false) => return,
            None => {
                // The two versions cannot be compared, so read the lock again.
                let pause = self.config.retry_period / 4;
                return self.act_within(pause, now);
            }
        }
        let changed = self.observe(Some(&found), now, instructions);
        self.forget_undone(&found);
        // Cancel the planned attempt to acquire the lock if the lock is now held.
        let coordinated = self.config.coordinated;
        let free = if coordinated { self.is_named(&found.record) } else { found.record.is_vacant() };
        self.vacancy = Some(found).filter(|_| free);
        if free {
            // No jitter is needed if the lock is assigned to this contender, because other contenders then do not
            // acquire it.
            let pause = if coordinated { Duration::ZERO } else { self.hint_jitter() };
            self.act_within(pause + self.preference.defer, now);
        } else if changed && self.sent.is_none() && self.watching {
            self.next_try = self.next_look(now);
        }
    }

    /// Returns `Some(true)` if `found` is newer than the known state of the lock. Returns `None` if the versions are
    /// not comparable.
    fn is_newer(&self, found: &LockState) -> Option<bool> {
        let Some(known) = self.observed.as_ref().map(|observed| &observed.state.version) else { return Some(true) };
        if *known == found.version { Some(false) } else { known.is_before(&found.version) }
    }

    /// Forgets writes with an unknown result if the server can no longer store them. The server stores a write only
    /// while the version that it replaces is current. If a forgotten write nevertheless creates the lock after a
    /// deletion, the new lock is treated as another contender's lock.
    fn forget_undone(&mut self, found: &LockState) {
        self.in_doubt.retain(|doubt| doubt.record == found.record || doubt.base.as_ref() == Some(&found.version));
    }

    /// Returns the transition count for the candidate's record if the candidate may acquire the lock now. Returns
    /// `None` if another contender may still lead.
    fn takeover(&self, found: &LockState, looked_at: Duration) -> Option<i32> {
        let record = &found.record;
        // Servers reject a negative transition count in a Lease, but an annotation can contain one.
        let same = record.leader_transitions.max(0);
        let more = same.saturating_add(1);
        if self.config.coordinated {
            // The control plane may be about to assign the expired lock to another contender. If the control plane
            // selects the same contender again, it writes nothing. Therefore, if another lease duration passes without
            // a write, no other contender will get the lock.
            let own = self.config.lease_duration;
            let expires = self.observed.as_ref()?.at + record.lease_duration(own);
            let is_given = looked_at < expires || looked_at >= expires.saturating_add(own);
            // The leader of the deleted lock may not have noticed the deletion yet, so wait even if the new lock names
            // this contender as its holder.
            return (self.is_named(record) && is_given && self.held_until <= looked_at).then_some(same);
        }
        if record.is_vacant() {
            let since = self.observed.as_ref().map(|observed| observed.at);
            return (self.held_until <= looked_at && !self.defers(since, looked_at)).then_some(more);
        }
        let same_identity = record.holder_identity == self.config.identity;
        let is_own = same_identity
            && (self.is_of_last_term(found) || self.config.reuse_identity || self.settle(record).is_some());
        if is_own && self.held_until <= looked_at {
            return Some(same);
        }
        let observed = self.observed.as_ref()?;
        let expires = (observed.at + record.lease_duration(self.config.lease_duration)).max(self.held_until);
        let taken = looked_at >= expires && !self.defers(Some(expires), looked_at);
        taken.then_some(if same_identity { same } else { more })
    }

    fn is_of_last_term(&self, found: &LockState) -> bool {
        let last = self.last_term.as_ref();
        last.is_some_and(|(uid, last)| *uid == found.version.uid && last.same_term(&found.record))
    }

    /// Returns `true` while this contender lets other contenders acquire the lock first. `since` is the time at which
    /// the lock became free.
    fn defers(&self, since: Option<Duration>, looked_at: Duration) -> bool {
        let defer = self.preference.defer;
        !defer.is_zero() && since.is_some_and(|since| looked_at < since.max(self.held_until).saturating_add(defer))
    }

    /// Returns `true` if the control plane has assigned the lock to this contender and prefers no other contender.
    fn is_named(&self, record: &LeaderElectionRecord) -> bool {
        record.holder_identity == self.config.identity && record.preferred_holder.is_none()
    }

    /// Returns the record that this contender writes to acquire the lock. `last` is the record that the lock currently
    /// contains.
    fn claim(&mut self, last: &LeaderElectionRecord, transitions: i32, now: Now) -> LeaderElectionRecord {
        // Do not yield again to a preferred contender that has not acquired the lock.
        self.preference.yield_to = None;
        let moment = self.fresh_time(now);
        let time = Some(self.precision.cut(moment));
        LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            lease_duration_seconds: self.config.published_seconds().unwrap_or(i32::MAX),
            // In a coordinated election, keep the acquire time from the control plane.
            acquire_time: last.acquire_time.filter(|_| self.config.coordinated).or(time),
            renew_time: time,
            leader_transitions: transitions,
            strategy: last.strategy.clone(),
            preferred_holder: last.preferred_holder.clone(),
        }
    }

    fn begin(
        &mut self,
        version: Version,
        record: LeaderElectionRecord,
        sent: Now,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let deadline = Deadline::after(sent, self.config.renew_deadline);
        let term = Term { version: version.clone(), record: record.clone() };
        self.in_doubt.clear();
        (self.last_term, self.vacancy, self.last_hint) = (None, None, None);
        self.next_try = self.first_renewal_at(sent.monotonic).max(now.monotonic);
        self.phase = Phase::Leading(Leading {
            term: term.clone(),
            base: LockState::new(version, record),
            counted: sent,
            deadline,
            last_sent: sent.monotonic,
            conflicts: 0,
            had_conflict: false,
            read_back: false,
            yielding: false,
            gives_up: false,
            foreign: None,
        });
        instructions.push(Instruction::StartLeading { term, deadline });
        self.yield_if_asked(instructions);
    }

    /// Returns the time at which the candidate should read the lock again.
    ///
    /// - Without a watch, the candidate reads the lock after the usual pause, or when the record expires if this is
    ///   earlier. The pause is at least one `retry_period`.
    /// - With a watch, the candidate reads the lock when the record expires, and when the watch was silent for three to
    ///   four retry periods. Only a read can distinguish a broken watch from a dead leader.
    pub(super) fn next_look(&mut self, now: Now) -> Duration {
        let usual = now.monotonic + self.retries.next(None);
        let least = now.monotonic + self.config.retry_period;
        let is_held = self.observed.as_ref().is_some_and(|observed| !observed.state.record.is_vacant());
        match self.free_from() {
            Some(free) if is_held || free > now.monotonic => {
                let free = (free + self.jitter.up_to(EXPIRY_JITTER.min(self.config.retry_period))).max(least);
                let retry = self.config.retry_period;
                let silent = now.monotonic + retry.saturating_mul(3) + self.jitter.up_to(retry);
                let expires = free.saturating_sub(self.preference.defer);
                match self.watching {
                    // Do not read shortly before the record expires, because this would only delay the read at the
                    // expiry.
                    true if silent.saturating_add(retry) < expires => silent,
                    true => free,
                    false => usual.min(free),
                }
            }
            _ => usual,
        }
    }

    /// Returns the earliest time at which this contender may acquire the lock in its last observed state.
    pub(super) fn free_from(&self) -> Option<Duration> {
        let own = self.config.lease_duration;
        let free = match &self.observed {
            Some(observed) if observed.state.record.is_vacant() => observed.at,
            Some(observed) => observed.at + observed.state.record.lease_duration(own),
            None => self.absent_since?,
        };
        Some(free.max(self.held_until).saturating_add(self.preference.defer))
    }

    fn try_later(&mut self, failure: Failure, now: Now) {
        self.next_try = self.next_try.min(now.monotonic + self.retries.next(failure.retry_after));
    }

    pub(super) fn act_within(&mut self, pause: Duration, now: Now) {
        self.next_try = self.next_try.min(now.monotonic + pause);
    }
}
