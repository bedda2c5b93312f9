//! The queue's own timer, for as long as tasks wait.

use std::fmt;
use std::sync::Arc;

use pintle_ratelimit::{Sleep, Timer};

/// What creates the sleeps of the alarm. `None`: the queue's clock, on any thread.
pub(crate) type Source = Option<Arc<dyn Timer>>;

/// The queue's own timer. It rings when a delay ends, or when a notified task has not come in time.
///
/// The timer belongs to the queue and not to a waiting task, since a task may be left unpolled for long: in a `select!` whose other
/// branch computes, or on a thread that computes. Its waker locks the queue and notifies whoever has to be notified by then.
#[derive(Default)]
pub(crate) struct Alarm {
    /// `None`: no task has waited yet, or the last source failed.
    source: Option<Source>,
    /// When it rings.
    at: Option<u64>,
    /// Tells the present sleep from earlier ones.
    generation: u64,
    sleep: Option<Sleep>,
}

/// An alarm to be set when the lock is free.
pub(crate) struct Arm {
    pub(crate) at: u64,
    pub(crate) source: Source,
    generation: u64,
}

impl Alarm {
    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// When it rings, if that is until `time`.
    pub(crate) fn rings_before(&self, time: u64) -> Option<u64> {
        self.at.filter(|at| *at <= time)
    }

    /// Has later sleeps come from `source`: from the executor that polled a task last. Returns what it replaces, to be dropped without
    /// the lock.
    pub(crate) fn set_source(&mut self, source: Source) -> Option<Source> {
        self.source.replace(source)
    }

    /// Sets it to ring at `at` or before, or unsets it. Returns a sleep to be dropped without the lock, and what is to be armed then.
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

    /// Keeps the sleep of an alarm that was armed, or gives it back if the alarm is another one by now.
    pub(crate) fn install(&mut self, arm: &Arm, sleep: Sleep) -> Option<Sleep> {
        if arm.generation != self.generation || self.at.is_none() {
            return Some(sleep);
        }
        self.sleep.replace(sleep)
    }

    /// It has rung, maybe too early. Returns the sleep, to be dropped without the lock.
    pub(crate) fn unset(&mut self) -> Option<Sleep> {
        self.at = None;
        self.sleep.take()
    }

    /// It cannot be set: its executor is gone, or its timer works on other threads only.
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
