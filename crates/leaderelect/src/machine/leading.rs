//! The leader: renew, and give the term up at the first sign that it is not its own.

use std::time::Duration;

use jiff::Timestamp;

use super::{Effect, Failure, Instruction, LockRequest, LossReason, Machine, Phase, Sent};
use crate::clocks::{Deadline, Now};
use crate::record::{LeaderElectionRecord, LockState, Version};

impl Machine {
    /// The request by which the leader stays one.
    pub(super) fn next_renewal(&mut self, now: Now) -> LockRequest {
        let Phase::Leading(leading) = &mut self.phase else { return LockRequest::Read };
        leading.last_sent = now.elapsed;
        if leading.read_back {
            self.slow_paths += 1;
            return LockRequest::Read;
        }
        let mut moment = self.fresh_time(now);
        let Phase::Leading(leading) = &self.phase else { return LockRequest::Read };
        let mut record = leading.base.record.clone();
        // Once a second has passed, the record says so, even if the wall clock stands still or was set back.
        let second_passed = now.elapsed.saturating_sub(leading.counted.elapsed) >= Duration::from_secs(1);
        let shown = whole_second(&record);
        if second_passed && moment.as_second() <= shown {
            moment = Timestamp::from_second(shown.saturating_add(1)).unwrap_or(moment);
        }
        record.renew_time = Some(self.precision.cut(moment));
        self.last_written = self.last_written.max(record.renew_time);
        record.lease_duration_seconds = self.config.published_seconds().unwrap_or(i32::MAX);
        LockRequest::Update { base: leading.base.version.clone(), record }
    }

    /// Decides on the outcome of a renewal.
    pub(super) fn renewed(
        &mut self,
        record: LeaderElectionRecord,
        sent: Now,
        answer: Result<Version, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let retry = self.config.retry_period;
        let Phase::Leading(leading) = &mut self.phase else { return };
        match answer {
            Ok(version) => {
                leading.conflicts = 0;
                leading.read_back = false;
                self.next_try = (sent.elapsed + retry).max(now.elapsed);
                self.in_doubt.clear();
                self.committed(LockState { version, record }, sent, instructions);
            }
            Err(failure) => match failure.effect {
                Effect::NotFound => self.lose(LossReason::Deleted, now, instructions),
                Effect::Conflict => {
                    // Whoever wrote may have taken the lock, so this cannot wait.
                    leading.conflicts += 1;
                    leading.read_back = true;
                    self.next_try = now.elapsed;
                }
                Effect::None => self.retry_renewal(failure, now),
                Effect::Unknown => {
                    leading.read_back = true;
                    self.doubt(record, sent);
                    self.retry_renewal(failure, now);
                }
            },
        }
    }

    /// Decides on what a leader has read.
    pub(super) fn read_back(
        &mut self,
        sent: Sent,
        answer: Result<Option<LockState>, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let pause = self.config.retry_period / 4;
        let Phase::Leading(leading) = &mut self.phase else { return };
        let found = match answer {
            Ok(Some(found)) => found,
            Ok(None) => return self.lose(LossReason::Deleted, now, instructions),
            Err(failure) => return self.retry_renewal(failure, now),
        };
        if !found.record.same_term(&leading.term.record) {
            return self.lose(LossReason::Usurped { by: found.record.holder_identity }, now, instructions);
        }
        if found.version.uid != leading.term.token.uid {
            return self.lose(LossReason::Deleted, now, instructions);
        }
        leading.read_back = false;
        // Others who write the same object beside us, again and again, must not drive us into a hot loop.
        self.next_try = if leading.conflicts > 1 { sent.at.elapsed + pause } else { now.elapsed };
        if found.version == leading.base.version {
            return;
        }
        let settled = self.settle(&found.record);
        self.in_doubt.clear();
        match settled {
            Some(written) => self.committed(found, written, instructions),
            None => {
                if let Phase::Leading(leading) = &mut self.phase {
                    leading.base = found;
                }
            }
        }
    }

    /// A watch told of a state. Only a read can tell whether it is newer than what we know.
    pub(super) fn leader_hint(&mut self, found: &LockState, now: Now) {
        let Phase::Leading(leading) = &mut self.phase else { return };
        let known = found.version == leading.base.version || self.in_doubt.iter().any(|d| d.record == found.record);
        let renewal = self.sent.as_ref().is_some_and(|sent| match &sent.request {
            LockRequest::Update { record, .. } => *record == found.record,
            _ => false,
        });
        let ours = found.version.uid == leading.term.token.uid && found.record.same_term(&leading.term.record);
        if !known && !renewal && !ours {
            leading.read_back = true;
            self.next_try = now.elapsed;
        }
    }

    /// A write of this term is known to be stored.
    fn committed(&mut self, stored: LockState, sent: Now, instructions: &mut Vec<Instruction>) {
        let span = self.config.renew_deadline;
        let Phase::Leading(leading) = &mut self.phase else { return };
        let visible = whole_second(&stored.record) > whole_second(&leading.base.record);
        leading.base = stored;
        // Candidates of client-go compare whole seconds. A renewal that they cannot see does not stop their count, so it
        // must not prolong ours.
        if visible && sent.elapsed > leading.counted.elapsed {
            leading.counted = sent;
            leading.deadline = Deadline::after(sent, span);
            instructions.push(Instruction::Extend(leading.deadline));
        }
    }

    fn retry_renewal(&mut self, failure: Failure, now: Now) {
        let Phase::Leading(leading) = &self.phase else { return };
        let usual = (leading.last_sent + self.config.retry_period).max(now.elapsed);
        let asked = now.elapsed.saturating_add(failure.retry_after.unwrap_or_default());
        // A server that asks for more patience than the term has left is asked again anyway.
        self.next_try = if asked < leading.deadline.elapsed { usual.max(asked) } else { usual };
    }
}

fn whole_second(record: &LeaderElectionRecord) -> i64 {
    record.renew_time.map_or(i64::MIN, |time| time.0.as_second())
}
