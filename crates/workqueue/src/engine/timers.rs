//! Timers that fire when a delay ends or when failures expire.

use super::Engine;
use super::record::{NEVER, State};
use crate::now::Now;
use crate::order::Ticket;

/// The maximum number of timers that are fired in one critical section. Firing a timer updates the table and the other
/// timers, so a small limit keeps the critical section short.
const FIRED_AT_ONCE: usize = 16;

impl<K> Engine<K> {
    /// Queues keys whose delay has ended, in the order of their deadlines, and removes expired failures. Fires at most
    /// [`FIRED_AT_ONCE`] timers. Returns `true` if no more timers are due.
    ///
    /// Metrics and ageing use the time at which a key's delay ended, even if this method runs late.
    pub(crate) fn fire_timers(&mut self, now: &Now<'_>) -> bool {
        for _ in 0..FIRED_AT_ONCE {
            match self.timers.first() {
                Some((deadline, ticket)) if self.mode.is_none() && deadline <= now.nanos() => {
                    let due = now.at(deadline);
                    self.timers.pop_first();
                    self.table[ticket].deadline = NEVER;
                    self.fire(ticket, &due);
                }
                _ => return true,
            }
        }
        false
    }

    /// Queues the key if its delay has ended, and removes its failures if they have expired. The timers of other keys
    /// do not fire. Every operation on a key first calls this method to bring the state of the key up to date. After
    /// `fire_if_due`, the key may be idle and have no failures.
    pub(super) fn fire_if_due(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &self.table[ticket];
        if record.deadline == NEVER || record.deadline > now.nanos() {
            return;
        }
        if !record.state.has(State::WAITING) {
            self.expire(ticket);
        } else if self.mode.is_none() {
            let due = now.at(record.deadline);
            self.fire(ticket, &due);
        }
    }

    fn fire(&mut self, ticket: Ticket, due: &Now<'_>) {
        if self.stop_waiting(ticket) {
            let priority = self.table[ticket].priority;
            self.make_dirty(ticket, priority, due);
        } else {
            self.expire(ticket);
            self.remove(ticket);
        }
    }

    fn expire(&mut self, ticket: Ticket) {
        self.stop_timer(ticket);
        let (record, limiter) = (&mut self.table[ticket], &mut self.limiter);
        record.failures = 0;
        self.trash.catch(|| limiter.forget(record.key()));
    }

    /// Ends a pending delay without queuing the key. Returns `true` if a delay was pending. If the record becomes idle,
    /// the caller must either change the record's state or call `rest`.
    pub(super) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        let record = &mut self.table[ticket];
        let waiting = record.state.has(State::WAITING);
        if waiting {
            record.state.clear(State::WAITING);
            self.counts.idle += usize::from(record.state.is_idle());
            self.counts.delayed -= 1;
            self.stop_timer(ticket);
        }
        waiting
    }

    pub(super) fn set_timer(&mut self, ticket: Ticket, deadline: u64) {
        self.stop_timer(ticket);
        if deadline != NEVER {
            self.table[ticket].deadline = deadline;
            self.timers.insert((deadline, ticket));
        }
    }

    pub(super) fn stop_timer(&mut self, ticket: Ticket) {
        let deadline = std::mem::replace(&mut self.table[ticket].deadline, NEVER);
        if deadline != NEVER {
            self.timers.remove((deadline, ticket));
        }
    }
}
