//! Pictures of the whole queue, for reports and debugging.

use super::record::{Record, State};
use super::{DelayKind, Engine};
use crate::queue::{ShutdownMode, ShutdownReport};

/// What a queue knows of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct KeyState<K> {
    pub(crate) key: K,
    pub(crate) dirty: bool,
    pub(crate) in_flight: bool,
    /// In nanoseconds since the epoch.
    pub(crate) delayed_until: Option<(u64, DelayKind)>,
    pub(crate) failures: u32,
    pub(crate) priority: i32,
}

impl<K: Clone> Engine<K> {
    /// All records, in no particular order.
    pub(crate) fn snapshot(&self) -> Vec<KeyState<K>> {
        let state = |record: &Record<K>| KeyState {
            key: record.key.clone(),
            dirty: record.state.has(State::DIRTY),
            in_flight: record.state.has(State::RUNNING),
            delayed_until: record.state.has(State::WAITING).then(|| {
                let retry = record.state.has(State::RETRY);
                (record.deadline, if retry { DelayKind::Retry } else { DelayKind::Reminder })
            }),
            failures: record.failures,
            priority: record.priority,
        };
        self.records.iter().map(|(_, record)| state(record)).collect()
    }

    /// What is left now.
    pub(crate) fn report(&self) -> ShutdownReport<K> {
        let keys = |flag: fn(State) -> bool| {
            let records = self.records.iter().filter(|(_, record)| flag(record.state));
            records.map(|(_, record)| record.key.clone()).collect()
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
