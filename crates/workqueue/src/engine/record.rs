//! The record of one key.

use crate::key_state::DelayKind;
use crate::order::Ticket;

#[derive(Debug)]
pub(super) struct Record<K> {
    /// The key, or `None` if the record is vacant.
    pub(super) key: Option<K>,
    /// The end of the pending delay, or the time at which the failures of an idle key expire. The deadline is
    /// [`NEVER`] if the key has no pending delay and no failures that can expire. The engine has a timer for each
    /// record whose deadline is not [`NEVER`].
    pub(super) deadline: u64,
    /// The place that `Order::push` returned, if the key is queued.
    pub(super) place: u64,
    pub(super) priority: i32,
    pub(super) hash: u32,
    /// The number of failures, limited to `u16::MAX`. A limiter reaches its maximum delay long before.
    pub(super) failures: u16,
    pub(super) state: State,
    pub(super) kind: DelayKind,
    /// The next record in the list of vacant records, if this record is also [`LISTED`](State::LISTED).
    pub(super) next_vacant: Ticket,
}

/// A deadline that never passes, because it is 584 years after the queue's creation.
pub(super) const NEVER: u64 = u64::MAX;

/// The state flags of a key, which can be combined. A key without flags is idle. The queue keeps the record of an idle
/// key only if the key has failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl<K> Record<K> {
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
            None => unreachable!("the ticket of a vacant record was used"),
        }
    }
}

impl State {
    /// The key is dirty, and it is queued unless it is also in flight.
    pub(super) const DIRTY: Self = Self(1);
    pub(super) const RUNNING: Self = Self(2);
    pub(super) const WAITING: Self = Self(4);
    /// The record is in the list of vacant records. A reused record stays in this list until a later search skips it.
    /// Only the table of records uses this flag.
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
    fn record_has_48_bytes() {
        assert_eq!(size_of::<Record<Arc<str>>>(), 48);
    }
}
