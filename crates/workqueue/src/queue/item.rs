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
/// Nobody else is handed the same key while this guard lives. Dropping it is client-go's `Done`: also when the worker
/// panics, and when its task is cancelled. There is no other way to say it, so no key is ever done twice, or by somebody who
/// does not hold it.
///
/// It keeps its queue alive, and may be dropped on any thread.
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

    /// Says that the key is done. The same as dropping the guard.
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

    /// Done, without success: comes back when the limiter says, at the same priority.
    pub fn retry(self) -> Added {
        self.shared.add_rate_limited(self.key.clone(), None, self.priority)
    }

    /// Done, with success, and to be looked at again after a time, at the same priority: forgets the failures.
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
