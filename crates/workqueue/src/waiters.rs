//! The registered waiters of a queue, and the rules for waking them.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::task::Waker;
use std::thread::available_parallelism;

use crate::alarm::{Alarm, Source};
use crate::wakers::{WaiterId, Wakers, Wakes};

/// The callers that are waiting in `get`.
///
/// # Why no wake-up is lost
///
/// If a poll finds no key, its waiter becomes *listed*. A listed waiter becomes *notified* when the queue notifies it,
/// until it is polled or dropped. At the end of each critical section with a listed waiter, [`settle`](Waiters::settle)
/// restores three invariants:
///
/// 1. There is one notified waiter per available key, but at most one per processor. Fewer waiters are notified only if
///    there are too few listed waiters.
/// 2. A notified task that is not polled within [`PATIENCE`] no longer counts as notified. If a key is available at
///    this time, all listed waiters are notified, because any single waiter might be late, too.
/// 3. While a waiter is listed and no key is available, a thread or the alarm checks the queue at the next deadline. If
///    threads are listed, one of them is the *timekeeper*, which parks until this deadline and then checks the queue.
///    If all listed waiters are tasks, the [`Alarm`] checks the queue.
///
/// When a notified waiter dequeues a key, the next waiter is notified in the same critical section (rule 1). When a
/// notified waiter is dropped, another waiter is notified (rule 1). When the timekeeper stops waiting, another thread
/// or the alarm takes over (rule 3). The alarm also fires after the time in rule 2. Therefore, the invariants hold even
/// if no other thread calls the queue.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    wakers: Wakers,
    threads: BTreeSet<WaiterId>,
    /// The waiters that were notified less than [`PATIENCE`] ago and have not been polled since then.
    notified: Vec<Notified>,
    timekeeper: Option<(WaiterId, u64)>,
    /// Whether the alarm's timer has failed. If `true`, each listed task must be polled again, to provide the timer of
    /// its executor.
    has_alarm_failed: bool,
    pub(crate) alarm: Alarm,
}

#[derive(Clone, Copy, Debug)]
struct Notified {
    id: WaiterId,
    at: u64,
}

pub(crate) enum Waiter {
    Thread(Waker),
    /// `source` is the timer of the task's executor.
    Task {
        waker: Waker,
        source: Source,
        executor: u64,
    },
}

impl Notified {
    fn is_task(&self) -> bool {
        self.id.executor.is_some()
    }
}

/// The time within which a notified waiter should be polled, in nanoseconds.
const PATIENCE: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Supply {
    pub(crate) available: usize,
    /// The earliest time at which more keys can become available.
    pub(crate) next: Option<u64>,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        self.notified.retain(|notified| notified.id != id);
        let waker = self.wakers.leave(id);
        if waker.is_some() {
            self.forget(id);
        }
        waker
    }

    /// Adds a task whose poll found no key to the listed waiters. A task that already has an ID keeps its position in
    /// the list of waiters. The caller must drop the returned timer outside the lock.
    pub(crate) fn join_task(
        &mut self,
        id: Option<WaiterId>,
        executor: u64,
        waker: Waker,
        source: Source,
    ) -> (WaiterId, Option<Source>) {
        (self.wakers.join(id, Some(executor), waker).0, self.alarm.join(executor, source))
    }

    /// Adds a thread that found no key to the listed waiters. A thread that already has an ID keeps its position in the
    /// list of waiters. If the returned flag is `true`, this thread is the timekeeper and must wake up at `next`.
    pub(crate) fn join_thread(&mut self, id: Option<WaiterId>, waker: Waker, next: Option<u64>) -> (WaiterId, bool) {
        let (id, _) = self.wakers.join(id, None, waker);
        self.threads.insert(id);
        match (self.timekeeper, next) {
            (None, Some(deadline)) => {
                self.timekeeper = Some((id, deadline));
                (id, true)
            }
            _ => (id, false),
        }
    }

    pub(crate) fn on_alarm_failure(&mut self) {
        self.has_alarm_failed = true;
    }

    /// Restores the invariants of [`Waiters`]. Returns the time for which the caller must set the alarm, or `None` if
    /// the alarm is not needed.
    ///
    /// An alarm for a notified task stays set after the task has been polled, because another task will be notified
    /// soon. An unnecessary alarm, which fires at most once per millisecond, is cheaper than setting the timer for each
    /// key.
    pub(crate) fn settle(&mut self, supply: Supply, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let alarm = self.notify_for(supply, now, wakes);
        let set = self.alarm.rings_before(now.saturating_add(PATIENCE));
        alarm.or(set.filter(|_| !self.is_empty()))
    }

    fn notify_for(&mut self, supply: Supply, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let is_due = supply.next.is_some_and(|next| next <= now);
        let wanted = (supply.available + usize::from(is_due)).min(processors());
        let is_held_up = self.drop_late(now) && wanted > 0;
        if is_held_up || std::mem::take(&mut self.has_alarm_failed) {
            self.notify_all(wakes);
        }
        while self.notified.len() < wanted && self.notify_first(now, wakes) {}
        if self.is_empty() {
            return None;
        }
        if wanted > 0 {
            let tasks = self.notified.iter().filter(|notified| notified.is_task());
            return tasks.map(|notified| notified.at.saturating_add(PATIENCE)).min();
        }
        self.keep_time(supply.next?, now, wakes)
    }

    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        self.wakers.notify_all(wakes);
        self.alarm.leave_all();
        self.threads.clear();
        self.timekeeper = None;
    }

    /// Makes sure that a thread or the alarm checks the queue at `next`. Returns `next` if the alarm must do this.
    fn keep_time(&mut self, next: u64, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let Some(thread) = self.timekeeper.map(|(id, _)| id).or(self.threads.first().copied()) else {
            return Some(next);
        };
        let is_kept = self.timekeeper.is_some_and(|(_, deadline)| deadline <= next);
        // A notified thread that finds no key parks until the next deadline and becomes the timekeeper.
        let is_coming = self.notified.iter().any(|notified| !notified.is_task());
        if !is_kept && !is_coming {
            self.notify(thread, now, wakes);
        }
        None
    }

    /// Removes the waiters that were notified [`PATIENCE`] ago or earlier from `notified`. Returns `true` if one of
    /// these waiters is a task.
    fn drop_late(&mut self, now: u64) -> bool {
        let is_late = |notified: &Notified| now.saturating_sub(notified.at) >= PATIENCE;
        let any = self.notified.iter().any(|notified| notified.is_task() && is_late(notified));
        self.notified.retain(|notified| !is_late(notified));
        any
    }

    fn notify(&mut self, id: WaiterId, now: u64, wakes: &mut Wakes) {
        if let Some(waker) = self.wakers.leave(id) {
            self.record_notified(id, waker, now, wakes);
        }
    }

    fn notify_first(&mut self, now: u64, wakes: &mut Wakes) -> bool {
        match self.wakers.pop_first() {
            Some((id, waker)) => self.record_notified(id, waker, now, wakes),
            None => return false,
        }
        true
    }

    fn record_notified(&mut self, id: WaiterId, waker: Waker, at: u64, wakes: &mut Wakes) {
        self.forget(id);
        self.notified.push(Notified { id, at });
        wakes.push(waker);
    }

    /// Removes the data of a waiter whose waker was already removed. For a task, updates the task counts of the alarm.
    /// For a thread, removes it from `threads`, and from the role of the timekeeper.
    fn forget(&mut self, id: WaiterId) {
        if let Some(executor) = id.executor {
            self.alarm.leave(executor);
            return;
        }
        self.threads.remove(&id);
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == id) {
            self.timekeeper = None;
        }
    }
}

/// Returns the maximum number of notified waiters: one per processor, because more waiters could not run at the same
/// time.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    if cfg!(any(pintle_loom, pintle_shuttle)) {
        2
    } else {
        *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, NonZeroUsize::get))
    }
}
