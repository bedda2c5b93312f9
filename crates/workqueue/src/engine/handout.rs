//! What takes keys out: ripening, hand-out, done, and forgetting.

use super::index::Index;
use super::record::{Record, State};
use super::{BATCH, Engine, Handout, is_live};
use crate::order::Ticket;
use crate::queue::ShutdownMode;

impl<K> Engine<K> {
    /// Queues every key whose delay is over, in the order of the deadlines.
    pub(crate) fn ripen(&mut self, now: u64) {
        if self.mode.is_some() || self.delays.is_empty() {
            return;
        }
        let mut due = [(0, Ticket(0)); BATCH];
        loop {
            let mut len = 0;
            while len < BATCH
                && let Some(entry) = self.delays.pop_due(now)
            {
                due[len] = entry;
                len += 1;
            }
            if len > 1 {
                // The records are all over the memory. These looks do not depend on one another, so they are served together.
                let looks = due[..len].iter().filter_map(|(_, ticket)| self.records.get(*ticket));
                std::hint::black_box(looks.fold(0, |seen, record| seen ^ record.deadline));
            }
            for (deadline, ticket) in due.into_iter().take(len) {
                if is_live(&self.records, deadline, ticket) {
                    self.ripen_one(ticket, now);
                }
            }
            if len < BATCH {
                return;
            }
        }
    }

    /// Queues a key if its delay is over: the others can wait until they are looked for, but a step that is about this key has
    /// to see it as it is.
    pub(super) fn ripen_one(&mut self, ticket: Ticket, now: u64) {
        let record = &self.records[ticket];
        if record.state.has(State::WAITING) && record.deadline <= now && self.mode.is_none() {
            let priority = record.priority;
            self.stop_waiting(ticket);
            self.make_dirty(ticket, priority, now);
        }
    }

    /// Whether `done` of this ticket has to be given the time, beyond the reasons of [`needs_time`](Engine::needs_time).
    pub(crate) fn needs_time_for_done(&self, ticket: Ticket) -> bool {
        self.always_timed || self.records[ticket].failures > 0
    }

    /// A key is done with. Gives back the key if its record is dropped.
    pub(crate) fn done(&mut self, ticket: Ticket, now: u64) -> Option<K> {
        let record = &mut self.records[ticket];
        debug_assert!(record.state.has(State::RUNNING), "a guard is done once");
        record.state.clear(State::RUNNING);
        self.running -= 1;
        if let Some(observer) = &self.observer {
            observer.lock().done(ticket, now);
        }
        if record.state.has(State::DIRTY) {
            self.redirtied -= 1;
            self.order.push(ticket, record.key(), record.priority, now);
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
            return self.remove(ticket);
        }
        record.deadline = now;
        None
    }

    /// The failures that count at `now`.
    pub(super) fn failures_of(&self, ticket: Ticket, now: u64) -> u16 {
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
        record.state.is_idle() && record.failures > 0 && expires.is_some_and(|expires| expires < now)
    }

    /// Drops an idle record.
    fn remove(&mut self, ticket: Ticket) -> Option<K> {
        self.idle -= 1;
        let record = &mut self.records[ticket];
        record.failures = 0;
        let key = record.key.take();
        self.dead.insert(ticket);
        let many = self.dead.len() * 8 > self.index.capacity() * 3;
        let over = self.dead.len() == self.records.len() && self.records.has_more_than_it_keeps();
        if many || over {
            self.sweep_dead();
        }
        if over {
            // A burst is over, and what is left of it may be all that keeps the heap from shrinking.
            self.index = Index::new();
        }
        key
    }

    /// Makes room in the index, and drops what is left of dropped records.
    #[cold]
    pub(super) fn sweep_dead(&mut self) {
        // The records first: what the index then allocates may take their place, and not keep the heap from shrinking.
        self.dead.iter().for_each(|ticket| self.records.remove(ticket));
        self.index.sweep(self.dead.len(), |ticket| self.dead.has(ticket));
        self.dead.clear();
    }
}

impl<K: Clone> Engine<K> {
    /// Hands out the next key, if there is one and the limit allows it.
    pub(crate) fn handout(&mut self, now: u64) -> Option<Handout<K>> {
        self.ripen(now);
        if self.mode > Some(ShutdownMode::FinishBacklog) {
            return None;
        }
        if self.handout_limit.is_some() {
            if self.available(now) == 0 {
                return None;
            }
            let at = self.instant(now);
            self.handout_limit.as_mut().map(|bucket| bucket.try_accept(at));
        }
        let ticket = self.order.pop()?;
        let record = &mut self.records[ticket];
        record.state.clear(State::DIRTY);
        record.state.set(State::RUNNING);
        self.running += 1;
        if let Some(observer) = &self.observer {
            observer.lock().handed_out(ticket, record.priority, now);
        }
        Some(Handout { ticket, key: record.key().clone(), priority: record.priority })
    }
}

impl<K: Eq> Engine<K> {
    /// Takes back a pending delay. Says when it would have ended.
    pub(crate) fn cancel(&mut self, hash: u64, key: &K, now: u64) -> (Option<u64>, Option<K>) {
        let Some(ticket) = self.find(hash, key) else { return (None, None) };
        self.ripen_one(ticket, now);
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
        self.find(hash, key).map_or(0, |ticket| u32::from(self.failures_of(ticket, now)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pintle_ratelimit::StdClock;

    use super::*;
    use crate::config::QueueConfig;

    /// Else the searches for a busy key would become longer with each time that it is done.
    #[test]
    fn a_key_that_comes_back_finds_its_old_record() {
        const BUSY: u64 = 77_777;
        let (mut engine, ..) = Engine::new(QueueConfig::new(StdClock), Instant::now());
        for key in 0..10_000u64 {
            engine.add(key << 20, key, 0, 0);
        }
        for _ in 0..10_000 {
            let ticket = engine.handout(0).unwrap_or_else(|| unreachable!("nothing else takes keys")).ticket;
            engine.done(ticket, 0);
            engine.add(BUSY, BUSY, 0, 0);
        }
        assert_eq!(engine.counts().queued, 1);
        let mut bound = 0;
        for round in 0..10_000 {
            if round == 1 {
                bound = engine.records.bound();
            }
            engine.handout(0);
            let ticket = engine.find(BUSY, &BUSY).unwrap_or_else(|| unreachable!("it is in flight"));
            engine.done(ticket, 0);
            assert_eq!(engine.find(BUSY, &BUSY), None);
            engine.add(BUSY, BUSY, 0, 0);
        }
        assert_eq!((engine.counts().queued, engine.records.bound()), (1, bound));
    }
}
