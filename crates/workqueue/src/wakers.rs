//! Wakers that are stored under the lock and called outside the lock.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::panic::{Panic, call_all};

#[derive(Debug, Default)]
pub(crate) struct Wakers {
    listed: BTreeMap<WaiterId, Waker>,
    next_place: u64,
}

/// A waiter's ID. Later waiters have higher IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId {
    place: u64,
    /// The executor of the waiting task, or `None` for a thread.
    pub(crate) executor: Option<u64>,
}

/// Wakers to be called outside the lock. The first waker is stored without an allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Registers a waiter. A waiter that already has an ID keeps its position. Returns the waiter's ID and its previous
    /// waker. The caller must drop this waker outside the lock.
    pub(crate) fn join(
        &mut self,
        id: Option<WaiterId>,
        executor: Option<u64>,
        waker: Waker,
    ) -> (WaiterId, Option<Waker>) {
        let place = id.map_or_else(
            || {
                self.next_place += 1;
                self.next_place
            },
            |id| id.place,
        );
        let id = WaiterId { place, executor };
        (id, self.listed.insert(id, waker))
    }

    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        self.listed.remove(&id)
    }

    pub(crate) fn pop_first(&mut self) -> Option<(WaiterId, Waker)> {
        self.listed.pop_first()
    }

    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        while let Some((_, waker)) = self.listed.pop_first() {
            wakes.push(waker);
        }
    }
}

impl Wakes {
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    /// Calls all wakers, even if one of them panics, and returns the first panic. The caller must not hold the lock.
    pub(crate) fn wake(self) -> Option<Panic> {
        call_all(self.first.into_iter().chain(self.rest).map(|waker| || waker.wake()))
    }
}
