//! What the queue knows of one key.

use super::DelayKind;

/// All that is known of one key. Half a line of the cache, for the keys that are counted references.
#[derive(Debug)]
pub(super) struct Record<K> {
    /// `None`: the record is dropped and waits to be removed from the index, or is vacant.
    pub(super) key: Option<K>,
    /// While [`WAITING`](State::WAITING): when the delay is over. While idle: since when. While vacant: the next such record.
    pub(super) deadline: u64,
    /// The highest priority of the adds since the last hand-out.
    pub(super) priority: i32,
    /// Counts up to its maximum, by which every delay has long reached its own.
    pub(super) failures: u16,
    pub(super) state: State,
    /// What the delay is for, while there is one.
    pub(super) kind: DelayKind,
}

/// What a key is. Any combination can be; none at all is idle, a key that is remembered for its failures only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl<K> Record<K> {
    /// An idle record.
    pub(super) fn new(key: K) -> Self {
        Self { key: Some(key), deadline: 0, priority: 0, failures: 0, state: State(0), kind: DelayKind::Reminder }
    }

    /// A record of nothing, in a list of such.
    pub(super) fn vacant(next: u32) -> Self {
        let deadline = u64::from(next);
        Self { key: None, deadline, priority: 0, failures: 0, state: State(0), kind: DelayKind::Reminder }
    }

    pub(super) fn next_vacant(&self) -> u32 {
        self.deadline as u32
    }

    /// The key of a record that is not dropped.
    pub(super) fn key(&self) -> &K {
        match &self.key {
            Some(key) => key,
            None => unreachable!("no ticket of a dropped record is in use"),
        }
    }
}

impl State {
    /// There is work to do. Queued, unless it is also in flight.
    pub(super) const DIRTY: Self = Self(1);
    /// Handed out.
    pub(super) const RUNNING: Self = Self(2);
    /// To be added when its deadline comes.
    pub(super) const WAITING: Self = Self(4);

    pub(super) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    pub(super) fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    pub(super) fn is_idle(self) -> bool {
        self.0 == 0
    }

    pub(super) fn is_queued(self) -> bool {
        self.0 & (Self::DIRTY.0 | Self::RUNNING.0) == Self::DIRTY.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_record_is_half_a_cache_line() {
        assert_eq!(size_of::<Record<Arc<str>>>(), 32);
    }
}
