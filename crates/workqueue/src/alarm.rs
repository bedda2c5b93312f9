//! The alarm, which is the queue's timer for waiting tasks.

use std::fmt;
use std::sync::Arc;

use pintle_ratelimit::{Sleep, Timer};

/// The timer that creates the alarm's sleeps. With `None`, the queue's clock creates the sleeps.
pub(crate) type Source = Option<Arc<dyn Timer>>;

/// The queue's timer for waiting tasks. The timer fires when a key's delay ends, or when a notified task has not been polled within 1 ms.
///
/// The timer belongs to the queue instead of a waiting task, because the task may not be polled for a long time. For example, another
/// branch of the task's `select!`, or another task on the same thread, may block the thread. The timer's waker locks the queue and notifies
/// waiters.
#[derive(Default)]
pub(crate) struct Alarm {
    /// One timer for each executor with a registered waiting task. The alarm uses the last timer in this list. The last timer stays in the
    /// list after its executor's last task has stopped waiting, until a task of another executor waits. The list is empty if no task has
    /// waited yet, or if the last timer failed.
    sources: Vec<Listed>,
    /// The time at which the timer fires, in nanoseconds since the queue's creation.
    at: Option<u64>,
    executor: u64,
    /// Incremented for each new sleep, so that a thread can detect that another thread has replaced its sleep.
    generation: u64,
    sleep: Option<Sleep>,
    /// Whether the timer called the alarm's waker before the thread that created the new sleep stored the sleep.
    has_rung: bool,
    /// Executors without registered tasks. Their timers must be dropped outside the lock.
    unused: Vec<Listed>,
}

/// An executor, its timer, and its number of registered tasks. A task is registered (*listed*) while it waits for a key.
pub(crate) struct Listed {
    executor: u64,
    source: Source,
    tasks: usize,
}

/// A change of the alarm: the new time, and the timer that must create the new sleep. The caller must create the sleep outside the lock,
/// because the timer may be user code.
pub(crate) struct Arm {
    pub(crate) at: u64,
    pub(crate) source: Source,
    generation: u64,
}

#[derive(Default)]
pub(crate) struct Planned {
    pub(crate) arm: Option<Arm>,
    /// The old sleep, and the timers of unused executors. The caller must drop them outside the lock.
    pub(crate) unused: (Option<Sleep>, Vec<Listed>),
}

/// The result of storing a new sleep in the alarm. The caller has already polled the sleep once.
pub(crate) enum Installed {
    Done,
    /// Another thread has changed the alarm since the caller created this sleep. The caller must drop the sleep outside the lock.
    Outdated(Sleep),
    /// The timer has called the alarm's waker since the caller polled this sleep. The caller must poll the sleep again.
    HasRung(Sleep),
}

impl Alarm {
    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    pub(crate) fn rings_before(&self, time: u64) -> Option<u64> {
        self.at.filter(|at| *at <= time)
    }

    /// Counts a newly registered task of an executor, and makes the alarm use this executor's timer. The caller must drop the returned
    /// timer outside the lock.
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

    /// Plans the change after which the alarm fires at `at` or earlier. With `None`, the alarm is switched off. A new sleep replaces the
    /// current sleep if the alarm must now use another executor's timer.
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

    /// Returns `true` if a thread is currently setting the alarm. After that thread has polled the new sleep, it handles this call of the
    /// alarm's waker. The current thread can be that thread, because polling the sleep can call the waker.
    pub(crate) fn defer_ring(&mut self) -> bool {
        self.has_rung = self.at.is_some() && self.sleep.is_none();
        self.has_rung
    }

    /// Clears the alarm after a call to its waker. A timer may call the waker too early. The caller must drop the returned sleep outside
    /// the lock.
    pub(crate) fn unset(&mut self) -> Option<Sleep> {
        self.at = None;
        self.has_rung = false;
        self.sleep.take()
    }

    /// Removes all timers after the alarm's timer has failed. A timer fails if its executor has ended, or if it works only on other
    /// threads. The caller must drop the returned timers outside the lock.
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
