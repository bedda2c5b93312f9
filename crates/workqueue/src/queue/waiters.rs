//! Those who wait for a key, and who of them is woken.

use std::collections::VecDeque;
use std::task::Waker;

/// Those who wait in `get`, in order of arrival.
///
/// # How no wake-up is lost
///
/// A waiter is *listed* from the poll that found nothing until it is woken; then it is *notified* until its next poll, or its
/// drop. [`settle`](Waiters::settle) runs at the end of every locked section that could have made work or taken a waiter
/// away, and restores two invariants:
///
/// 1. There are as many notified waiters as keys to hand out, or nobody is listed.
/// 2. If somebody is listed and nobody notified, one of the listed is the *timekeeper*, and sleeps until the earliest
///    deadline.
///
/// So the one who is dropped after being notified passes its wake-up on, by 1; and when the timekeeper leaves with a key or
/// is dropped, another waiter is woken to take over the clock, by 2. Only the timekeeper sleeps with a timer: when a delay
/// ends, one waiter is woken, not all.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    listed: VecDeque<(WaiterId, Waker)>,
    notified: usize,
    timekeeper: Option<Timekeeper>,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaiterId(u64);

#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    id: WaiterId,
    deadline: u64,
}

/// Wakers to be called when the lock is free. The first needs no allocation.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Waiters {
    pub(super) fn is_idle(&self) -> bool {
        self.listed.is_empty()
    }

    /// A waiter is polled, or dropped: it is neither listed nor notified any more. Gives back its waker, which is not to be
    /// dropped under the lock.
    pub(super) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        if self.timekeeper.is_some_and(|keeper| keeper.id == id) {
            self.timekeeper = None;
        }
        match self.listed.iter().position(|(listed, _)| *listed == id) {
            Some(at) => self.listed.remove(at).map(|(_, waker)| waker),
            None => {
                self.notified -= 1;
                None
            }
        }
    }

    /// Lists a waiter that found nothing. If it returns true the waiter is the timekeeper and has to sleep until
    /// `next_wake`.
    pub(super) fn join(&mut self, waker: Waker, next_wake: Option<u64>) -> (WaiterId, bool) {
        let id = WaiterId(self.next_id);
        self.next_id += 1;
        self.listed.push_back((id, waker));
        match (self.timekeeper, next_wake) {
            (None, Some(deadline)) => {
                self.timekeeper = Some(Timekeeper { id, deadline });
                (id, true)
            }
            _ => (id, false),
        }
    }

    /// Restores the invariants. `available` keys can be handed out now; otherwise nothing happens before `next_wake`.
    pub(super) fn settle(&mut self, available: usize, next_wake: Option<u64>, wakes: &mut Wakes) {
        while self.notified < available && !self.listed.is_empty() {
            self.notify(0, wakes);
        }
        let Some(next_wake) = next_wake else { return };
        if self.notified > 0 || self.listed.is_empty() {
            return;
        }
        let keeper = match self.timekeeper {
            Some(keeper) if keeper.deadline <= next_wake => return,
            Some(keeper) => self.listed.iter().position(|(id, _)| *id == keeper.id),
            None => None,
        };
        self.notify(keeper.unwrap_or(0), wakes);
    }

    pub(super) fn notify_all(&mut self, wakes: &mut Wakes) {
        while !self.listed.is_empty() {
            self.notify(0, wakes);
        }
    }

    fn notify(&mut self, at: usize, wakes: &mut Wakes) {
        let Some((id, waker)) = self.listed.remove(at) else { return };
        if self.timekeeper.is_some_and(|keeper| keeper.id == id) {
            self.timekeeper = None;
        }
        self.notified += 1;
        wakes.push(waker);
    }
}

impl Wakes {
    pub(super) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }

    /// To be called without the lock.
    pub(super) fn wake(self) {
        for waker in self.first.into_iter().chain(self.rest) {
            waker.wake();
        }
    }
}
