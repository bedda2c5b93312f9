//! What becomes of records by itself, when its time has come.

use super::record::{NEVER, State};
use super::{Engine, Now};
use crate::order::Ticket;

/// How many timers one section under the lock fires. Each is a step in a tree and in the table.
const FIRED_AT_ONCE: usize = 16;

impl<K> Engine<K> {
    /// Queues keys whose delay is over, in the order of the deadlines, and forgets failures that have expired: as many as one section
    /// may. Says whether that was all there is to do by `now`.
    ///
    /// However late a key is queued, its age and its metrics begin with the deadline.
    pub(crate) fn fire_timers(&mut self, now: &Now<'_>) -> bool {
        for _ in 0..FIRED_AT_ONCE {
            match self.timers.first() {
                Some((deadline, ticket)) if self.mode.is_none() && *deadline <= now.nanos() => {
                    let (ticket, due) = (*ticket, now.at(*deadline));
                    self.timers.pop_first();
                    self.table[ticket].deadline = NEVER;
                    self.fire(ticket, &due);
                }
                _ => return true,
            }
        }
        false
    }

    /// Queues a key if its delay is over, and forgets its failures if they have expired: the others can wait until they are looked for,
    /// but a step that is about this key has to see it as it is. One without failures may be left idle.
    pub(super) fn ripen(&mut self, ticket: Ticket, now: &Now<'_>) {
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

    /// Takes the delay off, which may leave the record idle: the caller gives it another state, or lets it `rest`.
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
            self.timers.remove(&(deadline, ticket));
        }
    }
}
