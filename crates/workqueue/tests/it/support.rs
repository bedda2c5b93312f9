//! A simple model of the queue, built from sets and lists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_workqueue::{AddOptions, Added, DelayKind, DelayPolicy, ShutdownMode};

pub(crate) type Key = u16;

pub(crate) fn at(priority: i32) -> AddOptions {
    AddOptions { priority, ..AddOptions::default() }
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) by_priority: bool,
    pub(crate) always_charge: bool,
    pub(crate) retry: DelayPolicy,
    pub(crate) reminder: DelayPolicy,
    pub(crate) base: Duration,
    pub(crate) max: Duration,
    pub(crate) keep_failures: Option<Duration>,

    pub(crate) now: Duration,
    pub(crate) mode: Option<ShutdownMode>,
    /// The queued keys, in the order of their last change of priority.
    pub(crate) queue: Vec<Key>,
    pub(crate) dirty: BTreeSet<Key>,
    pub(crate) running: BTreeSet<Key>,
    pub(crate) waiting: BTreeMap<Key, Waiting>,
    pub(crate) failures: BTreeMap<Key, u32>,
    pub(crate) idle: BTreeMap<Key, Duration>,
    pub(crate) priorities: BTreeMap<Key, i32>,

    /// The expected metrics: the numbers of adds that were not merged, of dequeued keys, and of finished keys.
    pub(crate) adds: u64,
    pub(crate) gets: u64,
    pub(crate) dones: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) until: Duration,
    pub(crate) kind: DelayKind,
}

impl Model {
    pub(crate) fn go_to(&mut self, now: Duration) {
        self.now = now;
        let busy = |key: &Key| self.dirty.contains(key) || self.running.contains(key) || self.waiting.contains_key(key);
        self.idle.retain(|key, _| !busy(key));
        if let Some(keep) = self.keep_failures {
            for (key, _) in self.idle.extract_if(.., |_, since| *since + keep <= now) {
                self.failures.remove(&key);
            }
        }
    }

    /// Records when a key became idle with failures, because these failures expire a fixed time later. Tests must call this
    /// method after each operation.
    pub(crate) fn rest(&mut self) {
        let busy = |key: &Key| self.dirty.contains(key) || self.running.contains(key) || self.waiting.contains_key(key);
        for key in self.failures.keys().filter(|key| !busy(key)) {
            self.idle.entry(*key).or_insert(self.now);
        }
        self.idle.retain(|key, _| self.failures.contains_key(key) && !busy(key));
    }

    pub(crate) fn fire_if_due(&mut self) {
        while self.mode.is_none() {
            let due = self.waiting.iter().filter(|(_, waiting)| waiting.until <= self.now);
            let Some(key) = due.min_by_key(|(_, waiting)| waiting.until).map(|(key, _)| *key) else { return };
            self.waiting.remove(&key);
            let priority = self.priorities[&key];
            self.make_dirty(key, priority);
        }
    }

    /// Queues a key whose delay has ended. Each operation on the key calls this method first.
    pub(crate) fn fire_if_due_one(&mut self, key: Key) {
        if self.mode.is_none() && self.waiting.get(&key).is_some_and(|waiting| waiting.until <= self.now) {
            self.waiting.remove(&key);
            let priority = self.priorities[&key];
            self.make_dirty(key, priority);
        }
    }

    pub(crate) fn add(&mut self, key: Key, priority: i32) -> Added {
        if self.mode.is_some() {
            return Added::ShutDown;
        }
        let mut priority = priority;
        if let Some(waiting) = self.waiting.get(&key).copied() {
            priority = priority.max(self.priorities[&key]);
            match self.policy(waiting.kind) {
                DelayPolicy::Respect if !self.dirty.contains(&key) => {
                    self.priorities.insert(key, priority);
                    return Added::Merged;
                }
                DelayPolicy::Absorb => {
                    self.waiting.remove(&key);
                }
                _ => {}
            }
        }
        self.make_dirty(key, priority)
    }

    pub(crate) fn add_after(&mut self, key: Key, after: Duration, kind: DelayKind, priority: i32) -> Added {
        if self.mode.is_some() {
            return Added::ShutDown;
        }
        if after.is_zero() {
            return self.add(key, priority);
        }
        let until = self.now + after;
        let changes = self.would_change(key, until, kind);
        if self.waiting.contains_key(&key) || self.dirty.contains(&key) {
            self.raise(key, priority);
        } else {
            self.priorities.insert(key, priority);
        }
        // A delay merged into a retry stays a retry, and a requeue merged into a reminder stays a reminder.
        let kind = match (self.waiting.get(&key).map(|waiting| waiting.kind), kind) {
            (Some(DelayKind::Retry), _) => DelayKind::Retry,
            (Some(DelayKind::Reminder), DelayKind::Requeue) => DelayKind::Reminder,
            _ => kind,
        };
        if changes {
            self.waiting.insert(key, Waiting { until, kind });
            return Added::Scheduled;
        }
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.kind = kind;
        }
        Added::Merged
    }

    /// Adds a key after a failure. `is_held` is `true` if the failure is reported by the worker that processes the key.
    pub(crate) fn add_rate_limited(
        &mut self,
        key: Key,
        is_held: bool,
        after: Option<Duration>,
        priority: i32,
    ) -> Added {
        if self.mode.is_some() && !self.always_charge {
            return Added::ShutDown;
        }
        let failures = self.failures.get(&key).copied().unwrap_or(0);
        let delay = (0..failures).fold(self.base, |delay, _| delay * 2).min(self.max);
        let delay = delay.min(after.unwrap_or(Duration::MAX));
        let reminds = self.waiting.get(&key).is_some_and(|waiting| waiting.kind != DelayKind::Retry);
        let is_new = is_held || reminds || self.would_change(key, self.now + delay, DelayKind::Retry);
        if self.always_charge || is_new && self.mode.is_none() {
            self.failures.insert(key, failures + 1);
            self.idle.remove(&key);
        }
        if self.mode.is_some() {
            return Added::ShutDown;
        }
        self.add_after(key, delay, DelayKind::Retry, priority)
    }

    pub(crate) fn get(&mut self) -> Option<(Key, i32)> {
        if self.queue.is_empty() || self.is_exhausted() {
            return None;
        }
        let at = if self.by_priority {
            let best = self.queue.iter().map(|key| self.priorities[key]).max()?;
            self.queue.iter().position(|key| self.priorities[key] == best)?
        } else {
            0
        };
        let key = self.queue.remove(at);
        self.dirty.remove(&key);
        self.running.insert(key);
        self.gets += 1;
        Some((key, self.priorities[&key]))
    }

    pub(crate) fn done(&mut self, key: Key) {
        self.running.remove(&key);
        self.dones += 1;
        let waiting = self.waiting.get(&key).filter(|_| self.mode.is_none());
        if waiting.is_some_and(|waiting| self.policy(waiting.kind) == DelayPolicy::Respect) {
            self.dirty.remove(&key);
        }
        if self.dirty.contains(&key) {
            self.queue.push(key);
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> bool {
        self.queue.retain(|queued| *queued != key);
        self.dirty.remove(&key)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.queue.is_empty(),
            Some(_) => true,
        }
    }

    pub(crate) fn dirty_in_flight(&self) -> usize {
        self.dirty.intersection(&self.running).count()
    }

    pub(crate) fn depth(&self, priority: i32) -> usize {
        self.dirty.iter().filter(|key| self.priorities[key] == priority).count()
    }

    fn policy(&self, kind: DelayKind) -> DelayPolicy {
        match kind {
            DelayKind::Retry => self.retry,
            DelayKind::Requeue => DelayPolicy::Absorb,
            _ => self.reminder,
        }
    }

    fn would_change(&self, key: Key, until: Duration, kind: DelayKind) -> bool {
        match self.waiting.get(&key) {
            Some(waiting) => until < waiting.until,
            None => !(self.dirty.contains(&key) && self.policy(kind) == DelayPolicy::Absorb),
        }
    }

    fn make_dirty(&mut self, key: Key, priority: i32) -> Added {
        if !self.dirty.insert(key) {
            self.raise(key, priority);
            return Added::Merged;
        }
        self.adds += 1;
        self.priorities.insert(key, priority);
        if !self.running.contains(&key) {
            self.queue.push(key);
        }
        Added::Scheduled
    }

    fn raise(&mut self, key: Key, priority: i32) {
        let current = self.priorities[&key];
        if priority <= current {
            return;
        }
        self.priorities.insert(key, priority);
        // When the priority of a key rises, the key moves behind all other keys with this priority.
        if self.by_priority
            && let Some(at) = self.queue.iter().position(|queued| *queued == key)
        {
            self.queue.remove(at);
            self.queue.push(key);
        }
    }
}
