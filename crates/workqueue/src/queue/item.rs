//! A key in the hands of a worker.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use pintle_ratelimit::{Clock, StdClock};

use super::Shared;
use crate::engine::{Added, DelayKind, Handout};
use crate::order::Ticket;
use crate::sync::Arc;

/// A key in the hands of a worker.
///
/// Nobody else is handed the same key while this guard lives. Dropping it is client-go's `Done`, and it is dropped when the
/// worker panics or its task is cancelled too. There is no other way to be done with a key, so nobody is done with it twice, or
/// without holding it.
///
/// It keeps its queue alive, and may be dropped on any thread.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::RateLimitingQueue;
/// use std::time::Duration;
///
/// let queue: RateLimitingQueue<&str> = RateLimitingQueue::default();
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
    ticket: Ticket,
    priority: i32,
    key: K,
}

impl<K, C: Clock> WorkItem<K, C> {
    pub(super) fn new(shared: Arc<Shared<K, C>>, handout: Handout<K>) -> Self {
        Self { shared, ticket: handout.ticket, priority: handout.priority, key: handout.key }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The highest priority that the key was added with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Done. The same as dropping the guard.
    pub fn done(self) {}
}

impl<K: Hash + Eq + Clone, C: Clock> WorkItem<K, C> {
    /// How often the key has been retried since it was last forgotten.
    pub fn num_requeues(&self) -> u32 {
        self.shared.num_requeues(&self.key)
    }

    /// Done, with success: forgets the failures.
    pub fn forget(self) {
        self.shared.forget(&self.key);
    }

    /// Done, without success: counts a failure, and adds the key again after the limiter's delay, at the same priority.
    pub fn retry(self) -> Added {
        self.shared.add_rate_limited(self.key.clone(), None, self.priority)
    }

    /// Done, with success: forgets the failures, and adds the key again after a time, at the same priority.
    pub fn revisit_after(self, after: Duration) -> Added {
        self.shared.forget(&self.key);
        self.shared.add_after(self.key.clone(), after, DelayKind::Reminder, self.priority)
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
        self.shared.done(self.ticket);
    }
}
