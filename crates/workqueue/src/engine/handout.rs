//! Operations that dequeue keys, mark keys as done, and undo adds.

use super::record::State;
use super::{Engine, queued};
use crate::config::DelayPolicy;
use crate::now::Now;
use crate::order::Ticket;
use crate::panic::catch;
use crate::shutdown::ShutdownMode;

pub(crate) struct Handout<K> {
    pub(crate) ticket: Ticket,
    pub(crate) key: K,
    pub(crate) priority: i32,
}

impl<K: Clone> Engine<K> {
    /// Dequeues the next key. Returns `None` if no key is queued, if the dequeue limit has no token, or if the order
    /// withholds its keys.
    pub(crate) fn hand_out(&mut self, now: &Now<'_>) -> Option<Handout<K>> {
        self.fire_timers(now);
        if self.counts.queued == 0 || self.mode > Some(ShutdownMode::FinishBacklog) {
            return None;
        }
        if self.handout_wait(now) > 0 {
            return None;
        }
        let Some(ticket) = self.order.pop() else {
            self.counts.queued = self.order.len();
            self.is_withheld = self.counts.queued > 0;
            return None;
        };
        if let Some(limit) = &mut self.dequeue_limit {
            limit.try_accept(now.instant());
        }
        assert!(self.table[ticket].state.is_queued(), "the order returned a ticket that is not queued");
        self.counts.queued -= 1;
        let undo_on_panic = UndoAdd { engine: self, ticket, now };
        let key = undo_on_panic.engine.table[ticket].key().clone();
        std::mem::forget(undo_on_panic);
        let record = &mut self.table[ticket];
        record.state.clear(State::DIRTY);
        record.state.set(State::RUNNING);
        self.counts.in_flight += 1;
        let priority = record.priority;
        self.observe(|observer| observer.handed_out(ticket, priority, now.nanos()));
        Some(Handout { ticket, key, priority })
    }
}

/// A guard that marks a key as not dirty when it is dropped. User code may panic after the key was removed from the
/// order and before its record is updated, and the guard then makes the record consistent.
pub(super) struct UndoAdd<'a, 'b, K> {
    pub(super) engine: &'a mut Engine<K>,
    pub(super) ticket: Ticket,
    pub(super) now: &'a Now<'b>,
}

impl<K> Drop for UndoAdd<'_, '_, K> {
    #[cold]
    fn drop(&mut self) {
        let Self { engine, ticket, now } = self;
        engine.undo_add(*ticket, now);
    }
}

impl<K> Engine<K> {
    fn undo_add(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &mut self.table[ticket];
        record.state.clear(State::DIRTY);
        let (priority, idle) = (record.priority, record.state.is_idle());
        self.observe(|observer| observer.removed(ticket, priority));
        if idle {
            self.counts.idle += 1;
            self.rest(ticket, now);
        }
    }

    pub(crate) fn done(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &mut self.table[ticket];
        debug_assert!(record.state.has(State::RUNNING), "a key in flight is marked as done only once");
        record.state.clear(State::RUNNING);
        let (dirty, idle) = (record.state.has(State::DIRTY), record.state.is_idle());
        self.counts.in_flight -= 1;
        self.is_withheld = false;
        self.observe(|observer| observer.done(ticket, now.nanos()));
        if dirty {
            self.counts.dirty_in_flight -= 1;
            if self.keeps_only_the_delay(ticket) {
                return self.undo_add(ticket, now);
            }
            // Catch a panic of the `Order`, because this thread may already be unwinding after a panic of the worker.
            if let Err(panic) = catch(|| self.enqueue(ticket, now)) {
                self.trash.keep_panic(panic);
            }
        } else if idle {
            self.counts.idle += 1;
            self.rest(ticket, now);
        }
    }

    /// Returns `true` if the policy of the key's pending delay merges adds into the delay. A delay that is pending at
    /// the beginning of a shutdown never ends, so adds must not be merged into it.
    fn keeps_only_the_delay(&self, ticket: Ticket) -> bool {
        let record = &self.table[ticket];
        let is_respected = record.state.has(State::WAITING) && self.policy(record.kind) == DelayPolicy::Respect;
        is_respected && self.mode.is_none()
    }
}

impl<K: Eq> Engine<K> {
    pub(crate) fn cancel(&mut self, hash: u32, key: &K, now: &Now<'_>) -> Option<u64> {
        let ticket = self.find(hash, key, now)?;
        let deadline = self.table[ticket].deadline;
        let cancelled = self.stop_waiting(ticket);
        if cancelled {
            self.rest(ticket, now);
        }
        cancelled.then_some(deadline)
    }

    pub(crate) fn remove_queued(&mut self, hash: u32, key: &K, now: &Now<'_>) -> bool {
        let Some(ticket) = self.find(hash, key, now) else { return false };
        let record = &mut self.table[ticket];
        if !record.state.has(State::DIRTY) {
            return false;
        }
        let (is_queued, place) = (record.state.is_queued(), record.place);
        if is_queued {
            self.order.remove(queued(ticket, &self.table[ticket], self.timed, now), place);
            self.counts.queued -= 1;
            self.is_withheld = false;
        } else {
            self.counts.dirty_in_flight -= 1;
        }
        self.undo_add(ticket, now);
        true
    }
}
