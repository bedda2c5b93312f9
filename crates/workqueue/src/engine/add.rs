//! What puts keys in: adds, delays and retries.

use std::time::Duration;

use super::record::{Record, State};
use super::{Added, DelayKind, Engine, fold, is_live, nanos};
use crate::config::{Charge, Pending};
use crate::order::Ticket;

// Each takes the key and gives back the one that it has no use for, so that it is dropped outside of the lock.
impl<K: Eq> Engine<K> {
    /// Adds `key` now.
    pub(crate) fn add(&mut self, hash: u64, key: K, priority: i32, now: u64) -> (Added, Option<K>) {
        if self.mode.is_some() {
            return (self.refuse(), Some(key));
        }
        let (ticket, spare) = self.entry(hash, key, now);
        (self.add_ticket(ticket, priority, now), spare)
    }

    /// Adds `key` once `deadline` has come. Of several deadlines the earliest wins.
    pub(crate) fn add_at(
        &mut self,
        hash: u64,
        key: K,
        deadline: u64,
        kind: DelayKind,
        priority: i32,
        now: u64,
    ) -> (Added, Option<K>) {
        if self.mode.is_some() {
            return (self.refuse(), Some(key));
        }
        self.observe(|observer| observer.retried(Duration::from_nanos(deadline - now)));
        let (ticket, spare) = self.entry(hash, key, now);
        (self.delay_ticket(ticket, deadline, kind, priority, now), spare)
    }

    /// Adds `key` when the limiter says, or at `before` if that is earlier.
    pub(crate) fn add_rate_limited(
        &mut self,
        hash: u64,
        key: K,
        before: Option<u64>,
        priority: i32,
        now: u64,
    ) -> (Added, Option<K>) {
        let shut_down = self.mode.is_some();
        if shut_down && self.charge == Charge::IfScheduled {
            return (self.refuse(), Some(key));
        }
        self.sweep_idle(now);
        let (ticket, spare) = self.entry(hash, key, now);
        let at = self.instant(now);
        let failures = self.failures_of(ticket, now);
        let delay = self.limiter.delay(self.records[ticket].key(), u32::from(failures), at);
        let deadline = now.saturating_add(nanos(delay)).min(before.unwrap_or(u64::MAX)).max(now);
        let changes = self.delay_would_change(ticket, deadline, DelayKind::Retry);
        if changes || self.charge == Charge::Always {
            let record = &mut self.records[ticket];
            self.limiter.charge(record.key(), at);
            if self.limiter.counts_failures() {
                record.failures = failures.saturating_add(1);
            }
        }
        if shut_down {
            let unused = self.rest(ticket, now);
            return (self.refuse(), spare.or(unused));
        }
        self.observe(|observer| {
            observer.retried(Duration::from_nanos(deadline - now));
            observer.rate_limited(delay);
        });
        (self.delay_ticket(ticket, deadline, DelayKind::Retry, priority, now), spare)
    }

    /// Sets the delay of `key` to end at `deadline`, whether there is one already or not.
    pub(crate) fn replace(
        &mut self,
        hash: u64,
        key: K,
        deadline: u64,
        kind: DelayKind,
        now: u64,
    ) -> (Added, Option<K>) {
        if self.mode.is_some() {
            return (self.refuse(), Some(key));
        }
        let (ticket, spare) = self.entry(hash, key, now);
        if deadline <= now {
            self.stop_waiting(ticket);
            return (self.add_ticket(ticket, 0, now), spare);
        }
        let record = &mut self.records[ticket];
        if !record.state.has(State::WAITING) && !record.state.has(State::DIRTY) {
            record.priority = 0;
        }
        self.wait(ticket, deadline, kind);
        (Added::Scheduled, spare)
    }

    /// Moves a pending delay of `key` to `deadline` if that is later. Says whether it did.
    pub(crate) fn postpone(&mut self, hash: u64, key: &K, deadline: u64, now: u64) -> bool {
        let Some(ticket) = self.find(hash, key) else { return false };
        self.ripen_one(ticket, now);
        let Record { state, kind, deadline: current, .. } = self.records[ticket];
        let later = state.has(State::WAITING) && deadline > current;
        if later {
            self.wait(ticket, deadline, kind);
        }
        later
    }

    pub(super) fn find(&self, hash: u64, key: &K) -> Option<Ticket> {
        self.index.find(fold(hash), |ticket| self.records[ticket].key.as_ref() == Some(key))
    }

    /// The record of `key`, a new idle one if there is none.
    fn entry(&mut self, hash: u64, key: K, now: u64) -> (Ticket, Option<K>) {
        let hash = fold(hash);
        let mut dropped = None;
        let found = self.index.find(hash, |ticket| match &self.records[ticket].key {
            Some(there) => *there == key,
            None => {
                dropped = Some(ticket);
                false
            }
        });
        if let Some(ticket) = found {
            self.ripen_one(ticket, now);
            return (ticket, Some(key));
        }
        self.idle += 1;
        let record = Record::new(key);
        if let Some(ticket) = dropped {
            // The index knows it by this hash already.
            self.dead.remove(ticket);
            self.records[ticket] = record;
            return (ticket, None);
        }
        if self.index.is_full() {
            self.sweep_dead();
        }
        let ticket = self.records.insert(record);
        self.index.insert(hash, ticket);
        (ticket, None)
    }
}

impl<K> Engine<K> {
    fn add_ticket(&mut self, ticket: Ticket, priority: i32, now: u64) -> Added {
        let Record { state, kind, priority: pending, .. } = self.records[ticket];
        if !state.has(State::WAITING) {
            return self.make_dirty(ticket, priority, now);
        }
        let priority = priority.max(pending);
        match self.policy(kind) {
            Pending::Respect if !state.has(State::DIRTY) => {
                self.records[ticket].priority = priority;
                return Added::Merged;
            }
            Pending::Absorb => {
                self.stop_waiting(ticket);
            }
            _ => {}
        }
        self.make_dirty(ticket, priority, now)
    }

    fn delay_ticket(&mut self, ticket: Ticket, deadline: u64, kind: DelayKind, priority: i32, now: u64) -> Added {
        if deadline <= now {
            return self.add_ticket(ticket, priority, now);
        }
        if !self.delay_would_change(ticket, deadline, kind) {
            self.raise(ticket, priority, now);
            return Added::Merged;
        }
        let record = &mut self.records[ticket];
        if record.state.has(State::WAITING) || record.state.has(State::DIRTY) {
            self.raise(ticket, priority, now);
        } else {
            record.priority = priority;
        }
        self.wait(ticket, deadline, kind);
        Added::Scheduled
    }

    /// Whether asking for this delay has any effect on when the key is handed out.
    fn delay_would_change(&self, ticket: Ticket, deadline: u64, kind: DelayKind) -> bool {
        let record = &self.records[ticket];
        if record.state.has(State::WAITING) {
            return deadline < record.deadline;
        }
        !(record.state.has(State::DIRTY) && self.policy(kind) == Pending::Absorb)
    }

    /// The key has work to do.
    pub(super) fn make_dirty(&mut self, ticket: Ticket, priority: i32, now: u64) -> Added {
        let record = &mut self.records[ticket];
        if record.state.has(State::DIRTY) {
            self.raise(ticket, priority, now);
            return Added::Merged;
        }
        if record.state.is_idle() {
            self.idle -= 1;
        }
        record.priority = priority;
        record.state.set(State::DIRTY);
        if record.state.has(State::RUNNING) {
            self.redirtied += 1;
        } else {
            self.order.push(ticket, record.key(), record.priority, now);
        }
        self.observe(|observer| observer.added(ticket, priority, now));
        Added::Scheduled
    }

    /// One more add of a key that is dirty or waiting.
    fn raise(&mut self, ticket: Ticket, priority: i32, now: u64) {
        let record = &mut self.records[ticket];
        let (from, to) = (record.priority, record.priority.max(priority));
        record.priority = to;
        if record.state.is_queued() {
            self.order.touch(ticket, record.key(), to, now);
        }
        if record.state.has(State::DIRTY) {
            self.observe(|observer| observer.raised(from, to));
        }
    }

    fn wait(&mut self, ticket: Ticket, deadline: u64, kind: DelayKind) {
        let record = &mut self.records[ticket];
        if record.state.is_idle() {
            self.idle -= 1;
        }
        if !record.state.has(State::WAITING) {
            self.waiting += 1;
            if let Some(observer) = &self.observer {
                observer.lock().delayed(self.waiting);
            }
        }
        record.deadline = deadline;
        record.state.set(State::WAITING);
        record.kind = kind;
        self.delays.push(deadline, ticket);
        let records = &self.records;
        self.delays.sweep(self.waiting, |deadline, ticket| is_live(records, deadline, ticket));
    }

    /// Takes the delay off, which may leave the record idle: the caller gives it another state, or lets it `rest`.
    pub(super) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        let record = &mut self.records[ticket];
        let waiting = record.state.has(State::WAITING);
        if waiting {
            record.state.clear(State::WAITING);
            self.waiting -= 1;
            if record.state.is_idle() {
                self.idle += 1;
            }
            self.observe(|observer| observer.delayed(self.waiting));
        }
        waiting
    }
}
