//! The queue's timer for waiting tasks.

use std::fmt;
use std::sync::Arc;

use pintle_ratelimit::{Sleep, Timer};

/// Creates the sleeps of the alarm. `None` uses the queue's clock, on any thread.
pub(crate) type Source = Option<Arc<dyn Timer>>;

/// The queue's timer for waiting tasks. It rings when a delay ends, or when a notified task was not polled in time.
///
/// The timer belongs to the queue instead of a waiting task, because a task may not be polled for a long time: in a `select!` whose other
/// branch computes, or on a thread that computes. Its waker locks the queue and notifies waiters.
#[derive(Default)]
pub(crate) struct Alarm {
    /// `None` if no task has waited yet, or if the last source failed.
    source: Option<Source>,
    /// When the alarm rings.
    at: Option<u64>,
    /// Distinguishes the current sleep from earlier ones.
    generation: u64,
    sleep: Option<Sleep>,
}

/// An alarm to set outside the lock.
pub(crate) struct Arm {
    pub(crate) at: u64,
    pub(crate) source: Source,
    generation: u64,
}

impl Alarm {
    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// Returns the time of the alarm if it is not after `time`.
    pub(crate) fn rings_before(&self, time: u64) -> Option<u64> {
        self.at.filter(|at| *at <= time)
    }

    /// Sets the source of later sleeps: the executor that last polled a task. Returns the previous source, to be dropped outside the lock.
    pub(crate) fn set_source(&mut self, source: Source) -> Option<Source> {
        self.source.replace(source)
    }

    /// Plans to ring at `at` or earlier, or not at all. Returns a sleep to drop outside the lock, and the alarm to set then.
    pub(crate) fn plan(&mut self, at: Option<u64>) -> (Option<Sleep>, Option<Arm>) {
        let is_early_enough = match (self.at, at) {
            (None, None) => true,
            (Some(set), Some(at)) => set <= at,
            _ => false,
        };
        if is_early_enough {
            return (None, None);
        }
        self.generation += 1;
        let generation = self.generation;
        let arm = at.zip(self.source.clone()).map(|(at, source)| Arm { at, source, generation });
        self.at = arm.as_ref().map(|arm| arm.at);
        (self.sleep.take(), arm)
    }

    /// Stores the sleep of an alarm that was set. Returns the sleep if the alarm has changed in the meantime.
    pub(crate) fn install(&mut self, arm: &Arm, sleep: Sleep) -> Option<Sleep> {
        if arm.generation != self.generation || self.at.is_none() {
            return Some(sleep);
        }
        self.sleep.replace(sleep)
    }

    /// Handles the ring of the alarm, which can be early. Returns the sleep, to be dropped outside the lock.
    pub(crate) fn unset(&mut self) -> Option<Sleep> {
        self.at = None;
        self.sleep.take()
    }

    /// Handles an alarm that cannot be set, because its executor is gone or its timer works only on other threads.
    pub(crate) fn fail(&mut self, arm: &Arm) -> Option<Source> {
        if arm.generation != self.generation {
            return None;
        }
        self.at = None;
        self.source.take()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.at).finish_non_exhaustive()
    }
}
