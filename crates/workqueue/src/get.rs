//! The futures and functions that dequeue keys.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pintle_ratelimit::__private::Budget;
use pintle_ratelimit::{Clock, Timer};

use crate::item::WorkItem;
use crate::panic::{discard, pass_on};
use crate::shared::Shared;
use crate::sync::Arc;
use crate::wait::{Step, Wait};
use crate::waiters::Waiter;

/// The future that [`WorkQueue::get`](crate::WorkQueue::get) returns.
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, K, C: Timer> {
    wait: Wait<'a, K, C>,
    budget: Budget,
}

/// The reason why [`WorkQueue::try_get`](crate::WorkQueue::try_get) returned no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryGetError {
    /// No key is available now.
    Empty,
    /// The queue is shutting down and has no more keys to dequeue.
    ShutDown,
}

impl<K: Clone, C: Clock> WorkItem<K, C> {
    /// Marks the key as done and dequeues the next key, in a single critical section. Blocks like
    /// [`WorkQueue::blocking_get`](crate::WorkQueue::blocking_get) if no key is available.
    pub fn blocking_next(self) -> Option<Self> {
        let shared = Arc::clone(&self.shared);
        Wait::new(&shared, Some(self)).block()
    }

    /// Marks the key as done and dequeues the next key, in a single critical section. Waits like
    /// [`WorkQueue::get`](crate::WorkQueue::get) if no key is available. The key is marked as done even if the future
    /// is dropped before it is first polled.
    pub async fn next(self) -> Option<Self>
    where
        C: Timer,
    {
        let shared = Arc::clone(&self.shared);
        Get::new(Wait::new(&shared, Some(self))).await
    }
}

impl<'a, K, C: Timer> Get<'a, K, C> {
    pub(crate) fn new(wait: Wait<'a, K, C>) -> Self {
        Self { wait, budget: Budget::default() }
    }
}

impl<K: Clone, C: Timer> Future for Get<'_, K, C> {
    type Output = Option<WorkItem<K, C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wait, budget } = &mut *self;
        let shared = wait.shared;
        budget.poll(&shared.clock, cx, |cx| {
            let step = wait.poll(true, || {
                shared.sleep_until.get_or_init(|| C::sleep_until);
                let source = shared.clock.detached();
                let executor = source.as_ref().map_or(0, |timer| timer.executor_id());
                Waiter::Task { waker: cx.waker().clone(), source, executor }
            });
            match step {
                Step::Item(item) => Poll::Ready(Some(item)),
                Step::ShutDown => Poll::Ready(None),
                // The timeout is only for threads, because the queue's alarm wakes waiting tasks.
                Step::Wait(_) => Poll::Pending,
            }
        })
    }
}

// No field is structurally pinned.
impl<K, C: Timer> Unpin for Get<'_, K, C> {}

pub(crate) fn try_get<K: Clone, C: Clock>(shared: &Arc<Shared<K, C>>) -> Result<WorkItem<K, C>, TryGetError> {
    let mut section = shared.section();
    let mut handout = section.hand_out();
    let (state, now) = section.parts();
    if handout.is_none() && state.engine.next_wake(now).is_some_and(|at| at <= now.nanos()) {
        // This critical section fired some of the due timers, but none of them queued a key, so fire the remaining
        // due timers.
        drop(section);
        section = shared.caught_up();
        handout = section.hand_out();
    }
    let item = match handout {
        Some(handout) => Ok(WorkItem::new(Arc::clone(shared), handout)),
        None if section.engine.is_exhausted() => Err(TryGetError::ShutDown),
        None => Err(TryGetError::Empty),
    };
    let panic = section.end();
    // A panic propagates only if no key was dequeued: see [`Step::unless_panicked`].
    match item {
        Ok(_) => discard(panic),
        Err(_) => pass_on(panic),
    }
    item
}

impl fmt::Display for TryGetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no key is available now",
            Self::ShutDown => "the queue is shut down",
        })
    }
}

impl std::error::Error for TryGetError {}
