//! The futures and functions that dequeue keys.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pintle_ratelimit::{Clock, Timer};

use crate::item::WorkItem;
use crate::panic::pass_on;
use crate::shared::Shared;
use crate::sync::Arc;
use crate::wait::{Step, Wait};
use crate::waiters::Waiter;

/// The future that [`WorkQueue::get`](crate::WorkQueue::get) returns.
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, K, C: Timer> {
    wait: Wait<'a, K, C>,
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
        Self { wait }
    }
}

impl<K: Clone, C: Timer> Future for Get<'_, K, C> {
    type Output = Option<WorkItem<K, C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let wait = &mut self.wait;
        let shared = wait.shared;
        match shared.clock.poll_proceed(cx) {
            Some(Poll::Ready(())) => {}
            Some(Poll::Pending) => return Poll::Pending,
            None if has_budget() => {}
            None => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let step = wait.poll(true, || {
            shared.sleep_until.get_or_init(|| C::sleep_until);
            let source = shared.clock.detached();
            let executor = source.as_ref().map_or(0, |timer| timer.executor_id());
            Waiter::Task { waker: cx.waker().clone(), source, executor }
        });
        match step {
            Step::Item(item) => Poll::Ready(Some(item)),
            Step::ShutDown => Poll::Ready(None),
            // The timeout applies to waiting threads. The queue's alarm wakes waiting tasks.
            Step::Wait(_) => {
                READY_IN_A_ROW.set(0);
                Poll::Pending
            }
        }
    }
}

thread_local! {
    static READY_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// The number of polls that return a key without waiting before `get` yields to the other tasks on its thread. This
/// number equals tokio's cooperative budget.
const BUDGET: u32 = 128;

/// Counts a poll of `get` that returned a key without waiting. Returns `false` if this poll must yield to other tasks.
/// Polls never yield in the model checkers loom and shuttle.
fn has_budget() -> bool {
    let ready = READY_IN_A_ROW.get();
    let has_budget = ready < BUDGET || cfg!(any(pintle_loom, pintle_shuttle));
    READY_IN_A_ROW.set(if has_budget { ready + 1 } else { 0 });
    has_budget
}

// No field is structurally pinned.
impl<K, C: Timer> Unpin for Get<'_, K, C> {}

pub(crate) fn try_get<K: Clone, C: Clock>(shared: &Arc<Shared<K, C>>) -> Result<WorkItem<K, C>, TryGetError> {
    let mut section = shared.section();
    let mut handout = section.hand_out();
    let (state, now) = section.parts();
    if handout.is_none() && state.engine.next_wake(now).is_some_and(|at| at <= now.nanos()) {
        // A critical section fires only some of the due timers, and these timers have queued no key. Therefore, fire
        // all due timers.
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
    if item.is_err() {
        // See [`Step::unless_panicked`] for why a panic propagates only if no key was dequeued.
        pass_on(panic);
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
