//! Waiting for a key, in a thread or in a task.

use std::sync::Arc as StdArc;
use std::task::{Wake, Waker};
use std::time::Instant;

use pintle_ratelimit::Clock;

use crate::item::WorkItem;
use crate::order::Ticket;
use crate::panic::{Panic, catch, discard, first, pass_on};
use crate::shared::Shared;
use crate::sync::{Arc, thread};
use crate::waiters::Waiter;
use crate::wakers::WaiterId;

/// A caller that waits for a key. Dropping a `Wait` unregisters its waiter from the queue.
pub(crate) struct Wait<'a, K, C: Clock> {
    pub(crate) shared: &'a Arc<Shared<K, C>>,
    /// The guard of the caller's finished key, which the first poll marks as done.
    finished: Option<WorkItem<K, C>>,
    id: Option<WaiterId>,
}

pub(crate) enum Step<K, C: Clock> {
    Item(WorkItem<K, C>),
    ShutDown,
    /// No key is available yet, and a waiting thread must poll again at the given time, if any.
    Wait(Option<Instant>),
}

impl<'a, K, C: Clock> Wait<'a, K, C> {
    pub(crate) fn new(shared: &'a Arc<Shared<K, C>>, finished: Option<WorkItem<K, C>>) -> Self {
        Self { shared, finished, id: None }
    }
}

impl<K: Clone, C: Clock> Wait<'_, K, C> {
    pub(crate) fn poll(&mut self, is_task: bool, waits: impl FnMut() -> Waiter) -> Step<K, C> {
        let mut finished = self.finished.take();
        let ticket = finished.as_mut().and_then(WorkItem::release);
        let step = self.shared.poll_get(&mut self.id, ticket, is_task, waits);
        // The lock is not held here, so the key can be dropped.
        let panic = finished.and_then(|finished| catch(|| drop(finished)).err());
        step.unless_panicked(panic)
    }

    pub(crate) fn block(mut self) -> Option<WorkItem<K, C>> {
        let mut waker = None;
        loop {
            let make = || Waker::from(StdArc::new(Unpark(thread::current())));
            match self.poll(false, || Waiter::Thread(waker.get_or_insert_with(make).clone())) {
                Step::Item(item) => return Some(item),
                Step::ShutDown => return None,
                Step::Wait(deadline) => self.shared.clock.park_until(deadline),
            }
        }
    }
}

impl<K: Clone, C: Clock> Shared<K, C> {
    /// Polls a waiting `get`. `waiter` is the waiter's ID from the previous poll. If `finished` is set, its key is
    /// first marked as done.
    ///
    /// The closure `waits` creates the waiter. `waits` must be called outside the lock, because it runs executor code
    /// for a task. If the first poll of a task finds no key, it therefore releases the lock, calls `waits`, and
    /// acquires the lock again to register the waiter.
    fn poll_get(
        self: &Arc<Self>,
        waiter: &mut Option<WaiterId>,
        finished: Option<Ticket>,
        is_task: bool,
        mut waits: impl FnMut() -> Waiter,
    ) -> Step<K, C> {
        // Create the waiter first in later polls of the task, which then acquire the lock only once.
        let mut ready = waiter.filter(|_| is_task).map(|_| waits());
        let id = waiter.take();
        let mut section = self.section();
        let (state, now) = section.parts();
        let old = id.and_then(|id| state.waiters.leave(id));
        if let Some(ticket) = finished {
            state.engine.done(ticket, now);
        }
        let mut handout = section.hand_out();
        if handout.is_none() && !section.engine.is_exhausted() && ready.is_none() {
            if is_task {
                drop(section);
                ready = Some(waits());
                section = self.section();
                handout = section.hand_out();
            } else {
                ready = Some(waits());
            }
        }
        if handout.is_none() && section.is_inbox_open {
            // Close the inbox, because an add must wake the waiter from now on.
            section.set_inbox_open(false);
            handout = section.hand_out();
        }
        let mut unused = None;
        let step = match (handout, ready) {
            (Some(handout), _) => Step::Item(WorkItem::new(Arc::clone(self), handout)),
            (None, Some(ready)) if !section.engine.is_exhausted() => {
                let (id, step, source) = section.wait(id, ready);
                (*waiter, unused) = (Some(id), source);
                Step::Wait(step.map(|at| self.instant(at)))
            }
            (None, _) => Step::ShutDown,
        };
        let panic = section.end();
        let of_drop = if old.is_some() || unused.is_some() { catch(|| drop((old, unused))).err() } else { None };
        step.unless_panicked(first(panic, of_drop))
    }
}

impl<K, C: Clock> Step<K, C> {
    /// Propagates a panic of user code, unless this step has dequeued a key. A dequeued key must be returned, because
    /// no other worker would process it.
    #[inline]
    fn unless_panicked(self, panic: Option<Panic>) -> Self {
        match self {
            Self::Item(_) => discard(panic),
            _ => pass_on(panic),
        }
        self
    }
}

impl<K, C: Clock> Drop for Wait<'_, K, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.leave_get(id);
        }
    }
}

pub(crate) struct Unpark(pub(crate) thread::Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &StdArc<Self>) {
        self.0.unpark();
    }
}
