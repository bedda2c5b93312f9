//! A key in the hands of a worker.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use pintle_ratelimit::{Clock, StdClock, Timer};

use crate::engine::{Added, Engine, Failed, Handout, Now};
use crate::get::{Get, Wait};
use crate::order::Ticket;
use crate::shared::Shared;
use crate::sync::Arc;

/// A key in the hands of a worker.
///
/// Nobody else is handed the same key while this guard lives. Dropping it is client-go's `Done`, and it is dropped when the
/// worker panics or its task is cancelled too. There is no other way to be done with a key, so nobody is done with it twice, or
/// without holding it.
///
/// It keeps its queue alive, and may be dropped on any thread. The drop may pass on a panic of a user's code, as any call of the queue
/// may: see [`WorkQueue`](crate::WorkQueue#panics).
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
///     Ok(Some(after)) => _ = item.revisit_after(after),
///     Err(()) => _ = item.retry(),
/// }
/// assert_eq!((queue.counts().in_flight, queue.counts().delayed), (0, 1));
/// ```
#[must_use = "dropping the guard means that the key is done"]
pub struct WorkItem<K, C: Clock = StdClock> {
    shared: Arc<Shared<K, C>>,
    /// `None`: done already.
    ticket: Option<Ticket>,
    priority: i32,
    key: K,
}

impl<K, C: Clock> WorkItem<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>, handout: Handout<K>) -> Self {
        Self { shared, ticket: Some(handout.ticket), priority: handout.priority, key: handout.key }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The highest priority that the key was added with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How often the key has been retried since it was last forgotten. 65,535 stands for any more, too.
    pub fn num_requeues(&self) -> u32 {
        let section = self.shared.section();
        self.ticket.map_or(0, |ticket| section.engine.failures(ticket, &section.now))
    }

    /// Done. The same as dropping the guard.
    pub fn done(self) {}

    /// Done, with success: forgets the failures.
    pub fn forget(self) {
        self.finish(|engine, ticket, _| engine.succeed(ticket));
    }

    /// Done, without success: counts a failure, and adds the key again after the limiter's delay, at the same priority.
    ///
    /// The failure counts also if the key runs earlier, because of a pending delay or another add. Once the queue is shutting down it
    /// counts only with [`Charge::Always`](crate::Charge).
    pub fn retry(self) -> Added {
        let priority = self.priority;
        self.finish(|engine, ticket, now| engine.retry(ticket, Failed::Held, None, priority, now))
            .unwrap_or(Added::ShutDown)
    }

    /// Done, with success: forgets the failures, and adds the key again after a time, at the same priority.
    pub fn revisit_after(self, after: Duration) -> Added {
        let priority = self.priority;
        let revisit = |engine: &mut Engine<K>, ticket, now: &Now<'_>| {
            engine.succeed(ticket);
            engine.revisit(ticket, after, priority, now)
        };
        self.finish(revisit).unwrap_or(Added::ShutDown)
    }

    /// Whoever takes the ticket is the one who is done with it.
    pub(crate) fn release(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// A last step, and done: all under one lock. If the step panics, it is done all the same.
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

impl<K: Clone, C: Clock> WorkItem<K, C> {
    /// Done, and takes the next key, in one step under the lock; otherwise as
    /// [`WorkQueue::blocking_get`](crate::WorkQueue::blocking_get).
    pub fn blocking_next(self) -> Option<Self> {
        let shared = Arc::clone(&self.shared);
        Wait::new(&shared, Some(self)).block()
    }

    /// Done, and takes the next key, in one step under the lock; otherwise as [`WorkQueue::get`](crate::WorkQueue::get). The key is
    /// done also if the future is dropped before its first poll.
    pub async fn next(self) -> Option<Self>
    where
        C: Timer,
    {
        let shared = Arc::clone(&self.shared);
        Get::new(Wait::new(&shared, Some(self))).await
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
