//! Pictures of the whole queue, for reports and debugging.

use std::time::Instant;

use super::record::{Record, State};
use super::{DelayKind, Engine};
use crate::queue::{ShutdownMode, ShutdownReport};

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

impl<K: Clone> Engine<K> {
    /// All records, in no particular order.
    pub(crate) fn snapshot(&self) -> Vec<KeyState<K>> {
        let state = |record: &Record<K>| KeyState {
            key: record.key().clone(),
            dirty: record.state.has(State::DIRTY),
            in_flight: record.state.has(State::RUNNING),
            delay: record.state.has(State::WAITING).then(|| (record.kind, self.instant(record.deadline))),
            failures: u32::from(record.failures),
            priority: record.priority,
        };
        self.records.iter().map(state).collect()
    }

    /// What is left now.
    pub(crate) fn report(&self) -> ShutdownReport<K> {
        let keys = |flag: fn(State) -> bool| {
            self.records.iter().filter(|record| flag(record.state)).map(|record| record.key().clone()).collect()
        };
        ShutdownReport {
            mode: self.mode.unwrap_or(ShutdownMode::FinishBacklog),
            complete: self.is_drained(),
            queued: keys(|state| state.has(State::DIRTY)),
            delayed: keys(|state| state.has(State::WAITING)),
            in_flight: keys(|state| state.has(State::RUNNING)),
            refused: self.refused,
        }
    }
}
