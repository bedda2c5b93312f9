//! The alarm, which is the queue's timer for waiting tasks.

use std::fmt;
use std::sync::Arc;

use pintle_ratelimit::{Sleep, Timer};

/// Creates the alarm's sleeps, or `None` if the queue's clock creates them.
pub(crate) type Source = Option<Arc<dyn Timer>>;

/// The queue's timer for waiting tasks, which fires when a key's delay ends or when a notified task is not polled
/// within 1 ms.
///
/// The queue owns this timer instead of a waiting task, because a task may not be polled for a long time. The thread of
/// a waiting task may be blocked by another task or by another branch of the task's `select!`. When the timer fires,
/// its waker locks the queue and notifies waiting tasks.
#[derive(Default)]
pub(crate) struct Alarm {
    /// One timer for each executor that has a registered waiting task. The alarm uses the last of these timers. If no
    /// task is waiting, the list still contains the last timer that the alarm used. The list is empty if no task has
    /// ever waited, or if the last timer has failed.
    sources: Vec<Listed>,
    /// When the timer fires, in nanoseconds since the queue was created.
    at: Option<u64>,
    executor: u64,
    /// The number of sleeps so far, with which a thread detects that its sleep has been replaced.
    generation: u64,
    sleep: Option<Sleep>,
    /// Whether the timer called the alarm's waker before a thread stored the new sleep.
    has_rung: bool,
    /// Executors without registered tasks, which the caller must drop outside the lock.
    unused: Vec<Listed>,
}

/// An executor, its timer, and the number of its registered tasks. A task is registered (*listed*) while it waits for a
/// key.
pub(crate) struct Listed {
    executor: u64,
    source: Source,
    tasks: usize,
}

/// A pending change of the alarm: its new time, and the timer that must create the new sleep. The caller must create
/// the sleep outside the lock, because the timer may be user code.
pub(crate) struct Arm {
    pub(crate) at: u64,
    pub(crate) source: Source,
    generation: u64,
}

#[derive(Default)]
pub(crate) struct Planned {
    pub(crate) arm: Option<Arm>,
    /// The old sleep and the timers of unused executors, which the caller must drop outside the lock.
    pub(crate) unused: (Option<Sleep>, Vec<Listed>),
}

/// The result of storing a new sleep, which the caller has polled once, in the alarm.
pub(crate) enum Installed {
    Done,
    /// Another thread has changed the alarm, so the caller must drop this sleep outside the lock.
    Outdated(Sleep),
    /// The timer has called the alarm's waker, so the caller must poll this sleep again.
    HasRung(Sleep),
}

impl Alarm {
    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    pub(crate) fn rings_before(&self, time: u64) -> Option<u64> {
        self.at.filter(|at| *at <= time)
    }

    /// Counts a newly registered task of an executor, and makes the alarm use the timer of this executor. The caller
    /// must drop the returned timer outside the lock.
    pub(crate) fn join(&mut self, executor: u64, source: Source) -> Option<Source> {
        match self.sources.iter().position(|listed| listed.executor == executor) {
            Some(at) => {
                let last = self.sources.len() - 1;
                self.sources.swap(at, last);
                let listed = &mut self.sources[last];
                listed.tasks += 1;
                Some(std::mem::replace(&mut listed.source, source))
            }
            None => {
                self.sources.push(Listed { executor, source, tasks: 1 });
                self.drop_unused();
                None
            }
        }
    }

    pub(crate) fn leave(&mut self, executor: u64) {
        if let Some(listed) = self.sources.iter_mut().find(|listed| listed.executor == executor) {
            listed.tasks -= 1;
            if listed.tasks == 0 {
                self.drop_unused();
            }
        }
    }

    pub(crate) fn leave_all(&mut self) {
        self.sources.iter_mut().for_each(|listed| listed.tasks = 0);
        self.drop_unused();
    }

    fn drop_unused(&mut self) {
        while self.sources.len() > 1
            && let Some(at) = self.sources.iter().position(|listed| listed.tasks == 0)
        {
            self.unused.push(self.sources.remove(at));
        }
    }

    /// Returns the change that makes the alarm fire no later than `at`, or that disables the alarm if `at` is `None`.
    /// The current sleep is also replaced if the alarm must switch to the timer of another executor.
    pub(crate) fn plan(&mut self, at: Option<u64>) -> Planned {
        let unused = std::mem::take(&mut self.unused);
        let last = self.sources.last();
        let is_early_enough = match (self.at, at) {
            (None, None) => true,
            (Some(set), Some(at)) => set <= at && last.is_some_and(|last| last.executor == self.executor),
            _ => false,
        };
        if is_early_enough {
            return Planned { arm: None, unused: (None, unused) };
        }
        self.generation += 1;
        let generation = self.generation;
        let arm = at.zip(last).map(|(at, last)| Arm { at, source: last.source.clone(), generation });
        self.executor = last.map_or(self.executor, |last| last.executor);
        self.at = arm.as_ref().map(|arm| arm.at);
        self.has_rung = false;
        Planned { arm, unused: (self.sleep.take(), unused) }
    }

    pub(crate) fn install(&mut self, arm: &Arm, sleep: Sleep) -> Installed {
        if arm.generation != self.generation || self.at.is_none() {
            return Installed::Outdated(sleep);
        }
        if std::mem::take(&mut self.has_rung) {
            return Installed::HasRung(sleep);
        }
        self.sleep = Some(sleep);
        Installed::Done
    }

    /// Returns `true` if a thread is currently setting the alarm. The thread that sets the alarm handles the call of
    /// the waker after it has polled the new sleep. The calling thread may itself be setting the alarm, because polling
    /// the sleep can call the waker.
    pub(crate) fn defer_ring(&mut self) -> bool {
        self.has_rung = self.at.is_some() && self.sleep.is_none();
        self.has_rung
    }

    /// Clears the alarm after the timer has called its waker, which may have been too early. The caller must drop the
    /// returned sleep outside the lock.
    pub(crate) fn unset(&mut self) -> Option<Sleep> {
        self.at = None;
        self.has_rung = false;
        self.sleep.take()
    }

    /// Removes all timers after the timer of the alarm has failed. A timer fails if its executor has ended or if the
    /// timer only works on other threads. The caller must drop the returned timers outside the lock.
    pub(crate) fn fail(&mut self, arm: &Arm) -> Vec<Listed> {
        if arm.generation != self.generation {
            return Vec::new();
        }
        self.at = None;
        std::mem::take(&mut self.sources)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.at).finish_non_exhaustive()
    }
}
