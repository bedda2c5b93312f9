//! Snapshots of the queue, for reports and debugging.

use std::time::{Duration, Instant};

use super::record::{Record, State};
use super::{DelayKind, Engine};
use crate::order::Ticket;

/// The number of keys in a queue, by state. A key with several states is counted once for each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of queued keys, like client-go's `Len`.
    pub queued: usize,
    /// The number of keys that workers are processing.
    pub in_flight: usize,
    /// The number of keys in flight that were added again. The queue queues such a key when its worker marks it as done.
    pub dirty_in_flight: usize,
    /// The number of keys with a pending delay.
    pub delayed: usize,
    /// The number of keys that are not queued, delayed or in flight, but whose failures the queue remembers.
    pub idle: usize,
}

/// The state of one key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyState<K> {
    /// The key.
    pub key: K,
    /// Whether the key needs processing. A dirty key is queued unless it is also in flight.
    pub dirty: bool,
    /// Whether a worker is processing the key.
    pub in_flight: bool,
    /// The kind and the deadline of the pending delay.
    pub delay: Option<(DelayKind, Instant)>,
    /// The number of failures that the queue remembers for the key.
    pub failures: u32,
    /// The highest priority with which the key was added since it was last dequeued.
    pub priority: i32,
}

/// The number of records that a snapshot copies in one critical section.
const COPIED_AT_ONCE: usize = 64;

impl<K> Engine<K> {
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

impl<K: Clone> Engine<K> {
    /// Appends the states of some of the keys to `states`. Returns the index of the record with which the next call
    /// must continue. Returns `None` if there are no more records.
    pub(crate) fn snapshot(&self, from: usize, epoch: Instant, states: &mut Vec<KeyState<K>>) -> Option<usize> {
        let to = self.table.bound().min(from + COPIED_AT_ONCE);
        for ticket in from..to {
            states.extend(self.state(Ticket(ticket as u32), epoch));
        }
        (to < self.table.bound()).then_some(to)
    }

    /// Returns the state of a key that has a record.
    pub(crate) fn key_state(&self, hash: u32, key: &K, epoch: Instant) -> Option<KeyState<K>>
    where
        K: Eq,
    {
        self.state(self.table.find(hash, key)?, epoch)
    }

    fn state(&self, ticket: Ticket, epoch: Instant) -> Option<KeyState<K>> {
        let Record { key, deadline, state, kind, failures, priority, .. } = &self.table[ticket];
        let key = key.clone()?;
        let end = || epoch + Duration::from_nanos(*deadline);
        Some(KeyState {
            key,
            dirty: state.has(State::DIRTY),
            in_flight: state.has(State::RUNNING),
            delay: state.has(State::WAITING).then(|| (*kind, end())),
            failures: u32::from(*failures),
            priority: *priority,
        })
    }
}

impl Counts {
    /// Returns the number of dirty keys. Dirty keys are queued keys, and keys that were added again while they were in
    /// flight. The metric `depth` has this value, as in client-go.
    pub fn depth(&self) -> usize {
        self.queued + self.dirty_in_flight
    }
}
