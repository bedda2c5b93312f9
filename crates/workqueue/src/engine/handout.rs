//! What takes keys out: ripening, hand-out, done, and forgetting.

use super::record::{Record, State};
use super::{Engine, Handout, is_live};
use crate::order::Ticket;

impl<K> Engine<K> {
    /// Queues every key whose delay is over, in the order of the deadlines.
    pub(crate) fn ripen(&mut self, now: u64) {
        if self.mode.is_some() {
            return;
        }
        while let Some((deadline, ticket)) = self.delays.pop_due(now) {
            if is_live(&self.records, deadline, ticket) {
                self.stop_waiting(ticket);
                let priority = self.records[ticket].priority;
                self.make_dirty(ticket, priority, now);
            }
        }
    }

    /// Whether `done` of this ticket has to be given the time, beyond the reasons of [`needs_time`](Engine::needs_time).
    pub(crate) fn needs_time_for_done(&self, ticket: Ticket) -> bool {
        self.needs_time() || self.records[ticket].failures > 0
    }

    /// A key is done with. Gives back the key if its record is dropped.
    pub(crate) fn done(&mut self, ticket: Ticket, now: u64) -> Option<K> {
        self.ripen(now);
        let record = &mut self.records[ticket];
        debug_assert!(record.state.has(State::RUNNING), "a guard is done once");
        record.state.clear(State::RUNNING);
        self.running -= 1;
        if let Some(observer) = &self.observer {
            observer.lock().done(ticket, now);
        }
        if record.state.has(State::DIRTY) {
            self.redirtied -= 1;
            self.order.push(ticket, &record.key, record.priority, now);
            return None;
        }
        if !record.state.is_idle() {
            return None;
        }
        self.idle += 1;
        self.rest(ticket, now)
    }

    /// Drops a record that has become idle, or starts the time after which its failures are forgotten.
    pub(super) fn rest(&mut self, ticket: Ticket, now: u64) -> Option<K> {
        let record = &mut self.records[ticket];
        if !record.state.is_idle() {
            return None;
        }
        if record.failures == 0 {
            return Some(self.remove(ticket));
        }
        record.deadline = now;
        None
    }

    /// The failures that count at `now`.
    pub(super) fn failures_of(&self, ticket: Ticket, now: u64) -> u32 {
        let record = &self.records[ticket];
        if self.has_expired(record, now) { 0 } else { record.failures }
    }

    /// Looks at two more records for failures that nobody has forgotten. Each failure pays for the search, so there are never
    /// many more expired ones than live ones.
    pub(super) fn sweep_idle(&mut self, now: u64) {
        if self.idle == 0 || self.keep_failures.is_none() {
            return;
        }
        for _ in 0..2 {
            self.hand = if self.hand < self.records.bound() { self.hand } else { 0 };
            let ticket = Ticket(self.hand);
            if self.records.get(ticket).is_some_and(|record| self.has_expired(record, now)) {
                self.remove(ticket);
            }
            self.hand += 1;
        }
    }

    fn has_expired(&self, record: &Record<K>, now: u64) -> bool {
        let expires = self.keep_failures.and_then(|keep| record.deadline.checked_add(keep));
        record.state.is_idle() && expires.is_some_and(|expires| expires < now)
    }

    fn remove(&mut self, ticket: Ticket) -> K {
        let record = self.records.remove(ticket);
        self.index.remove(record.hash, ticket);
        self.idle -= 1;
        record.key
    }
}

impl<K: Clone> Engine<K> {
    /// Hands out the next key, if there is one and the limit allows it.
    pub(crate) fn handout(&mut self, now: u64) -> Option<Handout<K>> {
        self.ripen(now);
        if self.available(now) == 0 {
            return None;
        }
        let ticket = self.order.pop()?;
        if self.handout_limit.is_some() {
            let at = self.instant(now);
            self.handout_limit.as_mut().map(|bucket| bucket.try_accept(at));
        }
        let record = &mut self.records[ticket];
        record.state.clear(State::DIRTY);
        record.state.set(State::RUNNING);
        self.running += 1;
        if let Some(observer) = &self.observer {
            observer.lock().handed_out(ticket, record.priority, now);
        }
        Some(Handout { ticket, key: record.key.clone(), priority: record.priority })
    }
}

impl<K: Eq> Engine<K> {
    /// Takes back a pending delay. Says when it would have ended.
    pub(crate) fn cancel(&mut self, hash: u64, key: &K, now: u64) -> (Option<u64>, Option<K>) {
        self.ripen(now);
        let Some(ticket) = self.find(hash, key) else { return (None, None) };
        let deadline = self.records[ticket].deadline;
        if !self.stop_waiting(ticket) {
            return (None, None);
        }
        (Some(deadline), self.rest(ticket, now))
    }

    /// Forgets the failures of `key`.
    pub(crate) fn forget(&mut self, hash: u64, key: &K) -> Option<K> {
        self.limiter.forget(key);
        let ticket = self.find(hash, key)?;
        self.records[ticket].failures = 0;
        self.rest(ticket, 0)
    }

    /// How many failures of `key` count at `now`.
    pub(crate) fn num_requeues(&self, hash: u64, key: &K, now: u64) -> u32 {
        self.find(hash, key).map_or(0, |ticket| self.failures_of(ticket, now))
    }
}
