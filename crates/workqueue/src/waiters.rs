//! Those who wait for a key, and who of them is woken.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Those who wait for something, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    listed: BTreeMap<WaiterId, Waker>,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

/// Those who wait in `get`.
///
/// # How no wake-up is lost
///
/// A waiter is *listed* from the poll that found nothing until it is woken; then it is *notified* until its next poll, or its
/// drop. [`settle`](Waiters::settle) runs at the end of every locked section, and restores two invariants:
///
/// 1. If there is a key to hand out, somebody is notified, or nobody is listed.
/// 2. If somebody is listed and nobody notified, one of the listed is the *timekeeper*, and sleeps until the earliest
///    deadline.
///
/// One at a time is notified, and the section in which it takes its key notifies the next if there is more. So the one who is
/// dropped after being notified passes its wake-up on, by 1; and when the timekeeper leaves with a key or is dropped, another waiter
/// is woken to take over the clock, by 2. Only the timekeeper sleeps with a timer: when a delay ends, one waiter is woken, not
/// all.
///
/// A notified waiter may not get to run, because of what its executor is busy with. So from [`PATIENCE`] on it counts for nothing in
/// the sections that come.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    wakers: Wakers,
    notified: usize,
    /// When somebody was last notified.
    notified_at: u64,
    timekeeper: Option<(WaiterId, u64)>,
}

/// How long a notified waiter is given to come, in nanoseconds.
const PATIENCE: u64 = 1_000_000;

/// Wakers to be called when the lock is free. The first needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Lists a waiter: in its old place, if it has one. The answer has its former waker, which is not to be dropped under the lock.
    pub(crate) fn join(&mut self, id: Option<WaiterId>, waker: Waker) -> (WaiterId, Option<Waker>) {
        let id = id.unwrap_or_else(|| {
            self.next_id += 1;
            WaiterId(self.next_id)
        });
        (id, self.listed.insert(id, waker))
    }

    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        self.listed.remove(&id)
    }

    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        while let Some((_, waker)) = self.listed.pop_first() {
            wakes.push(waker);
        }
    }
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// A waiter is polled, or dropped: it is neither listed nor notified any more.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == id) {
            self.timekeeper = None;
        }
        let waker = self.wakers.leave(id);
        self.notified -= usize::from(waker.is_none());
        waker
    }

    /// Lists a waiter that found nothing: in its old place, if it has one. If the answer is true the waiter is the timekeeper and
    /// has to sleep until `next_wake`.
    pub(crate) fn join(&mut self, id: Option<WaiterId>, waker: Waker, next_wake: Option<u64>) -> (WaiterId, bool) {
        let (id, _) = self.wakers.join(id, waker);
        match (self.timekeeper, next_wake) {
            (None, Some(deadline)) => {
                self.timekeeper = Some((id, deadline));
                (id, true)
            }
            _ => (id, false),
        }
    }

    /// Restores the invariants: there is a key to hand out now, or nothing happens before `next_wake`.
    pub(crate) fn settle(&mut self, available: bool, next_wake: Option<u64>, now: impl Fn() -> u64, wakes: &mut Wakes) {
        let is_coming = self.notified > 0 && now().saturating_sub(self.notified_at) <= PATIENCE;
        if is_coming {
            return;
        }
        let whom = match (self.timekeeper, next_wake) {
            _ if available => None,
            (_, None) => return,
            (Some((_, deadline)), Some(next_wake)) if deadline <= next_wake => return,
            (keeper, _) => keeper.map(|(id, _)| id),
        };
        self.notified_at = now();
        self.notify(whom, wakes);
    }

    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        while !self.is_empty() {
            self.notify(None, wakes);
        }
    }

    /// Notifies a waiter, or the one who came first.
    fn notify(&mut self, id: Option<WaiterId>, wakes: &mut Wakes) {
        let listed = &mut self.wakers.listed;
        let notified = match id {
            Some(id) => listed.remove_entry(&id),
            None => listed.pop_first(),
        };
        let Some((id, waker)) = notified else { return };
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == id) {
            self.timekeeper = None;
        }
        self.notified += 1;
        wakes.push(waker);
    }
}

impl Wakes {
    fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    /// To be called without the lock. A waker that panics does not keep the others from being woken: the first panic is the answer.
    pub(crate) fn wake(self) -> Option<Box<dyn Any + Send>> {
        let wake = |waker: Waker| catch_unwind(AssertUnwindSafe(|| waker.wake())).err();
        self.first.into_iter().chain(self.rest).filter_map(wake).fold(None, |first, panic| first.or(Some(panic)))
    }
}
