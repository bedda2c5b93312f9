//! Snapshots of the queue for reports and for debugging.

use std::time::{Duration, Instant};

use super::Engine;
use super::record::{Record, State};
use crate::key_state::{Counts, KeyState};
use crate::order::Ticket;

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
    /// Appends the states of up to [`COPIED_AT_ONCE`] keys to `states`. Returns the index at which the next call must
    /// continue (`from`), or `None` after the last record.
    pub(crate) fn snapshot(&self, from: usize, epoch: Instant, states: &mut Vec<KeyState<K>>) -> Option<usize> {
        let to = self.table.bound().min(from + COPIED_AT_ONCE);
        for ticket in from..to {
            states.extend(self.state(Ticket(ticket as u32), epoch));
        }
        (to < self.table.bound()).then_some(to)
    }

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
