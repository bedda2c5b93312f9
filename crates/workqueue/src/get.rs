//! The wait for a key, in a thread or in a task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pintle_ratelimit::{Clock, Sleep, Timer};

use crate::item::WorkItem;
use crate::shared::{Shared, Step};
use crate::sync::{Arc, thread};
use crate::waiters::WaiterId;

/// The future of [`WorkQueue::get`](crate::WorkQueue::get).
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, K, C: Timer> {
    wait: Wait<'a, K, C>,
    /// Armed while this waiter keeps the time.
    sleep: Option<(Instant, Sleep)>,
}

/// Why [`WorkQueue::try_get`](crate::WorkQueue::try_get) has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryGetError {
    /// Nothing may be handed out now.
    Empty,
    /// The queue is shutting down and has nothing to hand out.
    ShutDown,
}

/// A waiter, which leaves the queue when it is dropped.
pub(crate) struct Wait<'a, K, C: Clock> {
    shared: &'a Arc<Shared<K, C>>,
    /// What the waiter is done with, at its first look.
    finished: Option<WorkItem<K, C>>,
    id: Option<WaiterId>,
}

impl<'a, K, C: Clock> Wait<'a, K, C> {
    pub(crate) fn new(shared: &'a Arc<Shared<K, C>>, finished: Option<WorkItem<K, C>>) -> Self {
        Self { shared, finished, id: None }
    }
}

impl<K: Clone, C: Clock> Wait<'_, K, C> {
    fn poll(&mut self, waker: impl FnOnce() -> Waker) -> Step<K, C> {
        let mut finished = self.finished.take();
        let ticket = finished.as_mut().and_then(WorkItem::release);
        let step = self.shared.poll_get(&mut self.id, ticket, waker);
        // Its key, after the section.
        drop(finished);
        step
    }

    /// Blocks the thread.
    pub(crate) fn block(mut self) -> Option<WorkItem<K, C>> {
        let mut waker = None;
        loop {
            let make = || Waker::from(StdArc::new(Unpark(thread::current())));
            match self.poll(|| waker.get_or_insert_with(make).clone()) {
                Step::Item(item) => return Some(item),
                Step::ShutDown => return None,
                Step::Wait(deadline) => self.shared.clock.park_until(deadline),
            }
        }
    }
}

impl<'a, K, C: Timer> Get<'a, K, C> {
    pub(crate) fn new(wait: Wait<'a, K, C>) -> Self {
        Self { wait, sleep: None }
    }
}

impl<K: Clone, C: Timer> Future for Get<'_, K, C> {
    type Output = Option<WorkItem<K, C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = &mut *self;
            match this.wait.poll(|| cx.waker().clone()) {
                Step::Item(item) => return Poll::Ready(Some(item)),
                Step::ShutDown => return Poll::Ready(None),
                Step::Wait(None) => {
                    this.sleep = None;
                    return Poll::Pending;
                }
                Step::Wait(Some(deadline)) => {
                    if this.sleep.as_ref().is_none_or(|(armed, _)| *armed != deadline) {
                        this.sleep = Some((deadline, this.wait.shared.clock.sleep_until(deadline)));
                    }
                    let slept = this.sleep.as_mut().map(|(_, sleep)| sleep.as_mut().poll(cx));
                    if slept == Some(Poll::Pending) {
                        return Poll::Pending;
                    }
                    // The deadline came between the look at the queue and here.
                    this.sleep = None;
                }
            }
        }
    }
}

// Nothing in it is pinned.
impl<K, C: Timer> Unpin for Get<'_, K, C> {}

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

impl fmt::Display for TryGetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the queue has nothing to hand out now",
            Self::ShutDown => "the queue is shut down",
        })
    }
}

impl std::error::Error for TryGetError {}
