//! The time of a queue operation.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pintle_ratelimit::Clock;

use crate::panic::{Panic, catch};

/// The time of a queue operation, which is read from the clock when it is first needed. Most operations on a queue
/// without delays need no time.
///
/// If the clock panics, the operation continues with the latest known time. The panic propagates after the operation
/// has finished.
pub(crate) struct Now<'a> {
    clock: &'a dyn Clock,
    epoch: Instant,
    read: Cell<Option<u64>>,
    fallback: u64,
    panic: Cell<Option<Panic>>,
}

impl<'a> Now<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, epoch: Instant) -> Self {
        Self { clock, epoch, read: Cell::new(None), fallback: 0, panic: Cell::new(None) }
    }

    pub(crate) fn at(&self, time: u64) -> Self {
        Self { read: Cell::new(Some(time)), ..Self::new(self.clock, self.epoch) }
    }

    pub(crate) fn set_fallback(&mut self, fallback: u64) {
        self.fallback = fallback;
    }

    /// Returns the latest known time without reading the clock.
    pub(crate) fn latest(&self) -> u64 {
        self.read.get().unwrap_or(self.fallback)
    }

    pub(crate) fn take_panic(&self) -> Option<Panic> {
        self.panic.take()
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.read.get().unwrap_or_else(|| {
            let read = catch(|| nanos(self.clock.now().saturating_duration_since(self.epoch)));
            let now = read.unwrap_or_else(|panic| {
                self.panic.set(Some(panic));
                self.fallback
            });
            self.read.set(Some(now));
            now
        })
    }

    pub(crate) fn instant(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.nanos())
    }

    pub(crate) fn after(&self, wait: Duration) -> u64 {
        self.nanos().saturating_add(nanos(wait))
    }
}

/// Converts a duration to nanoseconds. Durations of more than 584 years become `u64::MAX`, which means "never".
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
