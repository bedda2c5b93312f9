//! The candidate: look, and take the lock once nobody can lead by it.

use std::time::Duration;

use super::{Effect, Failure, Hint, Instruction, Leading, LockRequest, Machine, Phase, Purpose, Sent, Term};
use crate::clocks::{Deadline, Now};
use crate::record::{LeaderElectionRecord, LockState, Version};

impl Machine {
    /// Decides on what a candidate has read.
    pub(super) fn contend(
        &mut self,
        sent: Sent,
        answer: Result<Option<LockState>, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        if self.stopping {
            return self.release_doubts(now);
        }
        let found = match answer {
            Ok(found) => found,
            Err(failure) => return self.try_later(failure, now),
        };
        let request = match found {
            None if self.config.wait_out_deleted && self.held_until > sent.at.elapsed => None,
            None => Some(LockRequest::Create(self.claim(0, now))),
            Some(found) => {
                if let Some(written) = self.settle(&found.record)
                    && !Deadline::after(written, self.config.renew_deadline).has_passed(now)
                {
                    return self.begin(found.version, found.record, written, now, instructions);
                }
                let transitions = self.takeover(&found, sent.at.elapsed);
                transitions.map(|count| LockRequest::Update { base: found.version, record: self.claim(count, now) })
            }
        };
        match request {
            Some(request) => self.send(request, Purpose::Contend, now, instructions),
            None => self.next_try = self.next_look(now),
        }
    }

    /// Decides on the outcome of a candidate's write.
    pub(super) fn contended(
        &mut self,
        record: LeaderElectionRecord,
        sent: Now,
        answer: Result<Version, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        match answer {
            Ok(token) if self.stopping => self.begin_release(Some(Term { token, record }), now),
            Ok(token) if !Deadline::after(sent, self.config.renew_deadline).has_passed(now) => {
                self.begin(token, record, sent, now, instructions);
            }
            // Stored, but so long ago that the term would be over: take it anew from the record.
            Ok(token) => {
                self.last_term = Some((token.uid, record));
                self.next_try = now.elapsed;
            }
            Err(failure) => {
                if failure.effect == Effect::Unknown {
                    self.doubt(record, sent);
                }
                match self.stopping {
                    true => self.release_doubts(now),
                    false => self.try_later(failure, now),
                }
            }
        }
    }

    pub(super) fn watch(&mut self, hint: Hint, now: Now, instructions: &mut Vec<Instruction>) {
        match hint {
            Hint::Up => self.watching = true,
            Hint::Down => {
                self.watching = false;
                let pause = self.retries.next(None);
                self.look_within(pause, now);
            }
            Hint::Changed(found) => match self.phase {
                Phase::Following => {
                    let vacant = found.record.is_vacant();
                    self.observe(Some(&found), now, instructions);
                    if vacant {
                        let pause = self.hint_jitter();
                        self.look_within(pause, now);
                    } else if self.sent.is_none() && self.watching {
                        self.next_try = self.next_look(now);
                    }
                }
                Phase::Leading(_) => self.leader_hint(&found, now),
                _ => {}
            },
            Hint::Deleted { uid } => match &self.phase {
                Phase::Following => {
                    let pause = self.hint_jitter();
                    self.look_within(pause, now);
                }
                Phase::Leading(leading) if leading.term.token.uid == uid => {
                    self.lose(super::LossReason::Deleted, now, instructions);
                }
                _ => {}
            },
        }
    }

    /// The transitions to write if the lock may be taken; none if someone may lead by what was found.
    fn takeover(&self, found: &LockState, looked_at: Duration) -> Option<i32> {
        let record = &found.record;
        let same = record.leader_transitions;
        let more = same.saturating_add(1);
        if record.is_vacant() {
            return Some(more);
        }
        let mine = record.holder_identity == self.config.identity;
        let left_over = self.last_term.as_ref();
        let left_over = left_over.is_some_and(|(uid, last)| *uid == found.version.uid && last.same_term(record));
        if mine && (left_over || self.config.reuse_identity || self.settle(record).is_some()) {
            return Some(same);
        }
        let observed = self.observed.as_ref()?;
        let expires = observed.at + record.lease_duration(self.config.lease_duration);
        (looked_at >= expires).then_some(if mine { same } else { more })
    }

    /// The record by which to take the lock now.
    fn claim(&mut self, transitions: i32, now: Now) -> LeaderElectionRecord {
        let moment = self.fresh_time(now);
        let time = Some(self.precision.cut(moment));
        LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            lease_duration_seconds: self.config.published_seconds().unwrap_or(i32::MAX),
            acquire_time: time,
            renew_time: time,
            leader_transitions: transitions,
        }
    }

    fn begin(
        &mut self,
        token: Version,
        record: LeaderElectionRecord,
        sent: Now,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let deadline = Deadline::after(sent, self.config.renew_deadline);
        let term = Term { token: token.clone(), record: record.clone() };
        self.in_doubt.clear();
        self.last_term = None;
        self.next_try = (sent.elapsed + self.config.retry_period).max(now.elapsed);
        self.phase = Phase::Leading(Leading {
            term: term.clone(),
            base: LockState { version: token, record },
            counted: sent,
            deadline,
            last_sent: sent.elapsed,
            conflicts: 0,
            read_back: false,
            draining: false,
        });
        instructions.push(Instruction::StartLeading { term, deadline });
    }

    /// When to look again: after the usual pause, or when what is held expires, but never sooner than `retry_period`. With a
    /// watch, only when it expires: then silence has to be told from death.
    fn next_look(&mut self, now: Now) -> Duration {
        let usual = now.elapsed + self.retries.next(None);
        let least = now.elapsed + self.config.retry_period;
        let own = self.config.lease_duration;
        let expiry = match &self.observed {
            Some(observed) if observed.state.record.is_vacant() => return usual,
            Some(observed) => observed.at + observed.state.record.lease_duration(own),
            None if self.held_until > now.elapsed => self.held_until,
            None => return usual,
        };
        let expiry = (expiry + self.hint_jitter()).max(least);
        if self.watching { expiry } else { usual.min(expiry) }
    }

    fn try_later(&mut self, failure: Failure, now: Now) {
        self.next_try = now.elapsed + self.retries.next(failure.retry_after);
    }

    fn look_within(&mut self, pause: Duration, now: Now) {
        self.next_try = self.next_try.min(now.elapsed + pause);
    }
}
