//! Waits for a key, in a thread or in a task.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use pintle_ratelimit::{Clock, Timer};

use crate::item::WorkItem;
use crate::panic::catch;
use crate::shared::{Shared, Step};
use crate::sync::{Arc, thread};
use crate::waiters::Waiter;
use crate::wakers::WaiterId;

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

/// A registered waiter. Dropping this value unregisters the waiter from the queue.
pub(crate) struct Wait<'a, K, C: Clock> {
    shared: &'a Arc<Shared<K, C>>,
    /// The guard of the key that the caller has finished. The first poll marks this key as done.
    finished: Option<WorkItem<K, C>>,
    id: Option<WaiterId>,
}

impl<'a, K, C: Clock> Wait<'a, K, C> {
    pub(crate) fn new(shared: &'a Arc<Shared<K, C>>, finished: Option<WorkItem<K, C>>) -> Self {
        Self { shared, finished, id: None }
    }
}

impl<K: Clone, C: Clock> Wait<'_, K, C> {
    fn poll(&mut self, is_task: bool, waits: impl FnMut() -> Waiter) -> Step<K, C> {
        let mut finished = self.finished.take();
        let ticket = finished.as_mut().and_then(WorkItem::release);
        let step = self.shared.poll_get(&mut self.id, ticket, is_task, waits);
        // Drop the key outside the lock.
        let panic = finished.and_then(|finished| catch(|| drop(finished)).err());
        step.unless_panicked(panic)
    }

    /// Blocks the thread until a key is available.
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
            // Only a waiting thread needs this timeout, because the queue's alarm wakes waiting tasks.
            Step::Wait(_) => {
                READY_IN_A_ROW.set(0);
                Poll::Pending
            }
        }
    }
}

thread_local! {
    /// How many polls of `get` in a row have returned a key without waiting, on this thread.
    static READY_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// After this number of polls without waiting, `get` yields to the other tasks of its thread. tokio uses the same
/// limit.
const BUDGET: u32 = 128;

/// Counts a poll of `get` that did not wait. Returns `false` if the poll must yield. Under a model checker, the poll
/// never yields.
fn has_budget() -> bool {
    let ready = READY_IN_A_ROW.get();
    let has_budget = ready < BUDGET || cfg!(any(pintle_loom, pintle_shuttle));
    READY_IN_A_ROW.set(if has_budget { ready + 1 } else { 0 });
    has_budget
}

// No field is structurally pinned.
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
            Self::Empty => "no key is available now",
            Self::ShutDown => "the queue is shut down",
        })
    }
}

impl std::error::Error for TryGetError {}
