//! Pictures of the queue, for reports and debugging.

use std::time::{Duration, Instant};

use super::record::{Record, State};
use super::{DelayKind, Engine};
use crate::order::Ticket;

/// How many keys a queue holds, by state. A key in several states counts in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Waiting to be handed out: client-go's `Len`.
    pub queued: usize,
    /// Handed out.
    pub in_flight: usize,
    /// Handed out, and added again since: will be queued when done.
    pub dirty_in_flight: usize,
    /// Waiting for a deadline.
    pub delayed: usize,
    /// In no other state, but remembered for their failures.
    pub idle: usize,
}

/// What a queue knows of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyState<K> {
    /// The key.
    pub key: K,
    /// Whether it has work to do. It is queued then, unless it is also in flight.
    pub dirty: bool,
    /// Whether it is handed out.
    pub in_flight: bool,
    /// What its pending delay is for, and when that ends.
    pub delay: Option<(DelayKind, Instant)>,
    /// How many failures have been counted.
    pub failures: u32,
    /// The highest priority it was added with since the last hand-out.
    pub priority: i32,
}

/// How many records one section under the lock copies.
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
    /// Adds the states of some records to `states`. The answer is where to go on, if there are more.
    pub(crate) fn snapshot(&self, from: usize, epoch: Instant, states: &mut Vec<KeyState<K>>) -> Option<usize> {
        let to = self.table.bound().min(from + COPIED_AT_ONCE);
        for ticket in from..to {
            let Record { key, deadline, state, kind, failures, priority, .. } = &self.table[Ticket(ticket as u32)];
            let Some(key) = key else { continue };
            let end = || epoch + Duration::from_nanos(*deadline);
            states.push(KeyState {
                key: key.clone(),
                dirty: state.has(State::DIRTY),
                in_flight: state.has(State::RUNNING),
                delay: state.has(State::WAITING).then(|| (*kind, end())),
                failures: u32::from(*failures),
                priority: *priority,
            });
        }
        (to < self.table.bound()).then_some(to)
    }
}

impl Counts {
    /// How many keys have work to do that nobody is doing yet, queued or not: what the metric `depth` says, in client-go as
    /// here.
    pub fn depth(&self) -> usize {
        self.queued + self.dirty_in_flight
    }
}
