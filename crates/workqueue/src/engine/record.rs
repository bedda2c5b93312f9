//! What the queue knows of one key.

use super::DelayKind;
use crate::order::Ticket;

/// All that is known of one key.
#[derive(Debug)]
pub(super) struct Record<K> {
    /// `None`: the record is vacant.
    pub(super) key: Option<K>,
    /// While [`WAITING`](State::WAITING): when the delay is over. While idle: when the failures expire. [`NEVER`] otherwise, and
    /// if that is when. There is a timer at any other time.
    pub(super) deadline: u64,
    /// While queued: what the order wants to know of it again.
    pub(super) place: u64,
    /// The highest priority of the adds since the last hand-out.
    pub(super) priority: i32,
    pub(super) hash: u32,
    /// Counts up to its maximum, by which every delay has long reached its own.
    pub(super) failures: u16,
    pub(super) state: State,
    /// What the delay is for, while there is one.
    pub(super) kind: DelayKind,
    /// While [`LISTED`](State::LISTED): what comes after it in the list.
    pub(super) next_vacant: Ticket,
}

/// A time that does not come: 584 years after the queue was made.
pub(super) const NEVER: u64 = u64::MAX;

/// What a key is. Any combination can be; none at all is idle, a key that is remembered for its failures only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl<K> Record<K> {
    /// An idle record.
    pub(super) fn new(hash: u32, key: Option<K>) -> Self {
        Self {
            key,
            deadline: NEVER,
            place: 0,
            priority: 0,
            hash,
            failures: 0,
            state: State(0),
            kind: DelayKind::Reminder,
            next_vacant: Ticket(0),
        }
    }

    pub(super) fn key(&self) -> &K {
        match &self.key {
            Some(key) => key,
            None => unreachable!("no ticket of a vacant record is in use"),
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
    /// In the list of vacant records, whether it is vacant or not: the table's own mark.
    pub(super) const LISTED: Self = Self(8);

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
        self.0 & (Self::DIRTY.0 | Self::RUNNING.0 | Self::WAITING.0) == 0
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
    fn a_record_is_three_quarters_of_a_cache_line() {
        assert_eq!(size_of::<Record<Arc<str>>>(), 48);
    }
}
