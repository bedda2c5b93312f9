//! What takes keys out: hand-out, done, and the taking back.

use super::record::State;
use super::{Engine, Now, queued};
use crate::order::Ticket;
use crate::panic::catch;
use crate::shutdown::ShutdownMode;

/// A key that is handed out.
pub(crate) struct Handout<K> {
    pub(crate) ticket: Ticket,
    pub(crate) key: K,
    pub(crate) priority: i32,
}

impl<K: Clone> Engine<K> {
    /// Hands out the next key, if there is one and the limit allows it.
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
        assert!(self.table[ticket].state.is_queued(), "the order has handed out what is not queued");
        self.counts.queued -= 1;
        let unless_copied = TakeOff { engine: self, ticket, now };
        let key = unless_copied.engine.table[ticket].key().clone();
        std::mem::forget(unless_copied);
        let record = &mut self.table[ticket];
        record.state.clear(State::DIRTY);
        record.state.set(State::RUNNING);
        self.counts.in_flight += 1;
        let priority = record.priority;
        self.observe(|observer| observer.handed_out(ticket, priority, now.nanos()));
        Some(Handout { ticket, key, priority })
    }
}

/// Has a key that the order has lost queued no more, when it is dropped.
pub(super) struct TakeOff<'a, 'b, K> {
    pub(super) engine: &'a mut Engine<K>,
    pub(super) ticket: Ticket,
    pub(super) now: &'a Now<'b>,
}

impl<K> Drop for TakeOff<'_, '_, K> {
    #[cold]
    fn drop(&mut self) {
        let Self { engine, ticket, now } = self;
        engine.no_longer_dirty(*ticket, now);
    }
}

impl<K> Engine<K> {
    /// What an add did is taken back. The record may be gone by that.
    fn no_longer_dirty(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &mut self.table[ticket];
        record.state.clear(State::DIRTY);
        let (priority, idle) = (record.priority, record.state.is_idle());
        self.observe(|observer| observer.removed(ticket, priority));
        if idle {
            self.counts.idle += 1;
            self.rest(ticket, now);
        }
    }

    /// A key is done with.
    pub(crate) fn done(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &mut self.table[ticket];
        debug_assert!(record.state.has(State::RUNNING), "a guard is done once");
        record.state.clear(State::RUNNING);
        let (dirty, idle) = (record.state.has(State::DIRTY), record.state.is_idle());
        self.counts.in_flight -= 1;
        self.is_withheld = false;
        self.observe(|observer| observer.done(ticket, now.nanos()));
        if dirty {
            self.counts.dirty_in_flight -= 1;
            // Another panic may be under way, as it is when a worker panics.
            if let Err(panic) = catch(|| self.enqueue(ticket, now)) {
                self.trash.rare().panic = Some(panic);
            }
        } else if idle {
            self.counts.idle += 1;
            self.rest(ticket, now);
        }
    }
}

impl<K: Eq> Engine<K> {
    /// Takes back a pending delay. Says when it would have ended.
    pub(crate) fn cancel(&mut self, hash: u32, key: &K, now: &Now<'_>) -> Option<u64> {
        let ticket = self.find(hash, key, now)?;
        let deadline = self.table[ticket].deadline;
        let cancelled = self.stop_waiting(ticket);
        if cancelled {
            self.rest(ticket, now);
        }
        cancelled.then_some(deadline)
    }

    /// Takes back an add that nobody has begun to work on. Says whether there was one.
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
        self.no_longer_dirty(ticket, now);
        true
    }
}
