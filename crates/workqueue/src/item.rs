//! The guard of a key that is in flight.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use pintle_ratelimit::{Clock, StdClock};

use crate::engine::{Engine, Failed, Handout};
use crate::key_state::Added;
use crate::now::Now;
use crate::order::Ticket;
use crate::shared::Shared;
use crate::sync::Arc;

/// A guard for a key that a worker is processing.
///
/// No other worker gets the same key while this guard exists. Dropping the guard marks the key as done, like
/// client-go's `Done`. The guard is also dropped if the worker panics or if its task is cancelled. Only the owner of
/// the guard can mark the key as done, and only once.
///
/// The guard keeps its queue alive, and can be dropped on any thread. Dropping the guard can propagate [a panic from
/// user code](crate::WorkQueue#panics).
///
/// # Examples
///
/// ```
/// use pintle_workqueue::WorkQueue;
/// use std::time::Duration;
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// # let reconcile = |_: &str| Ok::<Option<Duration>, ()>(Some(Duration::from_secs(60)));
/// queue.add("a");
/// let item = queue.blocking_get().expect("the queue is not shut down");
/// match reconcile(item.key()) {
///     Ok(None) => item.forget(),
///     Ok(Some(after)) => _ = item.requeue_after(after),
///     Err(()) => _ = item.retry(),
/// }
/// assert_eq!((queue.counts().in_flight, queue.counts().delayed), (0, 1));
/// ```
#[must_use = "dropping the guard marks the key as done"]
pub struct WorkItem<K, C: Clock = StdClock> {
    pub(crate) shared: Arc<Shared<K, C>>,
    /// The key's ticket, or `None` after the key was marked as done.
    ticket: Option<Ticket>,
    priority: i32,
    key: K,
}

impl<K, C: Clock> WorkItem<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>, handout: Handout<K>) -> Self {
        Self { shared, ticket: Some(handout.ticket), priority: handout.priority, key: handout.key }
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the highest priority that callers requested for the key before it was dequeued.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the number of failures of the key since the last call to `forget`, up to 65,535.
    pub fn num_requeues(&self) -> u32 {
        let section = self.shared.section();
        self.ticket.map_or(0, |ticket| section.engine.failures(ticket, &section.now))
    }

    /// Marks the key as done, like dropping the guard.
    pub fn done(self) {}

    /// Marks the key as done after a success, and resets its failure count.
    pub fn forget(self) {
        self.finish(|engine, ticket, _| engine.succeed(ticket));
    }

    /// Marks the key as done after a failure, increments its failure count, and adds the key again with the same
    /// priority after the limiter's delay.
    ///
    /// The failure counts even if the key becomes available earlier because of another add or a shorter pending delay.
    /// During a shutdown, the failure counts only with [`RetryAccounting::Always`](crate::RetryAccounting).
    #[doc(alias = "add_rate_limited")]
    pub fn retry(self) -> Added {
        let priority = self.priority;
        self.finish(|engine, ticket, now| engine.retry(ticket, Failed::Held, None, priority, now))
            .unwrap_or(Added::ShutDown)
    }

    /// Marks the key as done after a success, resets its failure count, and adds the key again with the same priority
    /// after the delay `after`.
    pub fn requeue_after(self, after: Duration) -> Added {
        let priority = self.priority;
        let revisit = |engine: &mut Engine<K>, ticket, now: &Now<'_>| {
            engine.succeed(ticket);
            engine.revisit(ticket, after, priority, now)
        };
        self.finish(revisit).unwrap_or(Added::ShutDown)
    }

    /// Takes the ticket out of the guard. The caller must then mark the key as done.
    pub(crate) fn release(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// Calls `step` and marks the key as done in a single critical section. The key is marked as done even if `step`
    /// panics.
    fn finish<T>(mut self, step: impl FnOnce(&mut Engine<K>, Ticket, &Now<'_>) -> T) -> Option<T> {
        let ticket = self.ticket?;
        let shared = Arc::clone(&self.shared);
        let mut section = shared.section();
        let (state, now) = section.parts();
        let result = step(&mut state.engine, ticket, now);
        self.ticket = None;
        state.engine.done(ticket, now);
        Some(result)
    }
}

impl<K, C: Clock> Deref for WorkItem<K, C> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: fmt::Debug, C: Clock> fmt::Debug for WorkItem<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem").field("key", &self.key).field("priority", &self.priority).finish_non_exhaustive()
    }
}

impl<K, C: Clock> Drop for WorkItem<K, C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.done(ticket);
        }
    }
}
