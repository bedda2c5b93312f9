//! The `Machine` as the leader, which renews the term, and ends the term when another contender may lead.

use std::time::Duration;

use super::stamps::whole_second;
use super::{Doubt, Effect, EndReason, Failure, Instruction, LockRequest, Machine, Observation, Phase};
use crate::clocks::{Deadline, Now};
use crate::record::{LockState, Version};

impl Machine {
    /// Returns the request for the next renewal. The request is a read if the leader must read the lock first, or a
    /// write otherwise.
    pub(super) fn next_renewal(&mut self, now: Now) -> LockRequest {
        let Phase::Leading(leading) = &mut self.phase else { return LockRequest::Read };
        leading.last_sent = now.monotonic;
        if leading.read_back {
            self.slow_paths += 1;
            return LockRequest::Read;
        }
        // If another program has written the object without changing the record, replace the newer version from the
        // watch to avoid a conflict.
        if let Some(hinted) = self.last_hint.take_if(|hinted| hinted.state.repeats(&leading.base)) {
            leading.base.repeated_as(&hinted.state);
        }
        let LockState { version: base, mut record, .. } = leading.base.clone();
        let second_passed = now.monotonic.saturating_sub(leading.counted.monotonic) >= Duration::from_secs(1);
        record.renew_time = Some(self.renewal_time(&record, second_passed, now));
        record.lease_duration_seconds = self.config.published_seconds().unwrap_or(i32::MAX);
        LockRequest::Update { base, record }
    }

    pub(super) fn renewed(
        &mut self,
        write: Doubt,
        answer: Result<Version, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let next = self.renewal_after(write.sent.monotonic);
        let Phase::Leading(leading) = &mut self.phase else { return };
        match answer {
            Ok(version) => {
                leading.conflicts = 0;
                // If a watch event has requested a read during the write, do not postpone this read. The event may
                // describe a change of the lock after the write.
                if !leading.read_back {
                    self.next_try = next.max(now.monotonic);
                }
                self.in_doubt.clear();
                self.committed(LockState::new(version, write.record), write.sent, instructions);
            }
            Err(Failure { effect: Effect::NotFound, .. }) => self.lose(EndReason::Deleted, now, instructions),
            Err(failure) => {
                leading.read_back |= failure.effect != Effect::None;
                match failure.effect {
                    // Read the lock immediately, because another contender may have acquired it. If another program
                    // keeps causing conflicts, pause before this read and not after it. A pause after the read would
                    // give the other program time for another write.
                    Effect::Conflict => {
                        (leading.conflicts, leading.had_conflict) = (leading.conflicts + 1, true);
                        let again = leading.conflicts > 1;
                        self.next_try = now.monotonic + if again { self.conflict_pause() } else { Duration::ZERO };
                    }
                    _ => self.retry_renewal(failure, now),
                }
                self.doubt(write);
            }
        }
    }

    pub(super) fn read_back(
        &mut self,
        answer: Result<Option<LockState>, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let Phase::Leading(leading) = &mut self.phase else { return };
        let found = match answer {
            Ok(Some(found)) => found,
            Ok(None) => return self.lose(EndReason::Deleted, now, instructions),
            Err(failure) => return self.retry_renewal(failure, now),
        };
        if !found.record.same_term(&leading.term.record) {
            return self.lose(EndReason::TakenBy { by: found.record.holder_identity }, now, instructions);
        }
        if found.version.uid != leading.term.version.uid {
            return self.lose(EndReason::Deleted, now, instructions);
        }
        (leading.read_back, leading.foreign) = (false, None);
        if let Some(other) = self.config.coordinated.then(|| found.record.preferred_holder.clone()).flatten() {
            (leading.yielding, leading.gives_up) = (true, true);
            return instructions.push(Instruction::Drain(EndReason::Preferred { other }));
        }
        self.next_try = now.monotonic;
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

    /// Processes a leader's watch event. The leader reads the lock only if the event, which may be outdated,
    /// contradicts the term.
    pub(super) fn leader_hint(&mut self, found: &LockState, now: Now) {
        let blind = self.blind_after(&found.record);
        let Phase::Leading(leading) = &mut self.phase else { return };
        let order = found.version.is_before(&leading.base.version);
        if order == Some(true) {
            return;
        }
        if order.is_some() {
            self.last_hint = Some(Observation::new(found.clone(), now.monotonic));
        }
        let known = found.version == leading.base.version || self.in_doubt.iter().any(|d| d.record == found.record);
        let renewal = self.sent.as_ref().is_some_and(|sent| match &sent.request {
            LockRequest::Update { record, .. } => *record == found.record,
            _ => false,
        });
        let wanted = self.config.coordinated && found.record.preferred_holder.is_some();
        let ours = found.version.uid == leading.term.version.uid && found.record.same_term(&leading.term.record);
        if !known && !renewal && (!ours || wanted) {
            if !ours && !found.record.is_vacant() {
                let at = now.monotonic;
                if !leading.foreign.as_mut().is_some_and(|foreign| foreign.is_repeated(found, at, blind)) {
                    leading.foreign = Some(Box::new(Observation::new(found.clone(), at)));
                }
            }
            leading.read_back = true;
            self.next_try = now.monotonic;
        }
    }

    fn committed(&mut self, stored: LockState, sent: Now, instructions: &mut Vec<Instruction>) {
        let span = self.config.renew_deadline;
        let Phase::Leading(leading) = &mut self.phase else { return };
        let visible = whole_second(&stored.record) != whole_second(&leading.base.record);
        leading.base = stored;
        // client-go's candidates compare times in whole seconds and do not notice a second renewal within the same
        // second, so such a renewal must not extend the term.
        if visible && sent.monotonic > leading.counted.monotonic {
            leading.counted = sent;
            leading.deadline = Deadline::after(sent, span);
            instructions.push(Instruction::Extend(leading.deadline));
        }
    }

    fn retry_renewal(&mut self, failure: Failure, now: Now) {
        let Phase::Leading(leading) = &self.phase else { return };
        let usual = (leading.last_sent + self.config.retry_period).max(now.monotonic);
        let requested = now.monotonic.saturating_add(failure.retry_after.unwrap_or_default());
        // Ignore a `Retry-After` that ends after the deadline of the term.
        self.next_try = if requested < leading.deadline.monotonic { usual.max(requested) } else { usual };
    }
}
