//! The third layer: retries, each later than the one before.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use pintle_ratelimit::{Clock, StdClock};

use crate::config::QueueConfig;
use crate::delaying::DelayingQueue;
use crate::engine::{Added, DelayKind};

/// A [`DelayingQueue`] that decides how long a key waits for its next try. client-go's `RateLimitingInterface`, and
/// controller-runtime's `PriorityQueue` with the right [`QueueConfig`].
///
/// # Examples
///
/// ```
/// use pintle_workqueue::RateLimitingQueue;
///
/// let queue: RateLimitingQueue<String> = RateLimitingQueue::default();
/// queue.add("team-a/blog".to_owned());
///
/// # let reconcile = |_: &str| Err::<(), ()>(());
/// let item = queue.blocking_get().expect("the queue is not shut down");
/// match reconcile(&item) {
///     Ok(()) => item.forget(),
///     Err(()) => {
///         item.retry(); // After 5 ms, then 10, then 20, at most 1000 s.
///     }
/// }
/// assert_eq!(queue.num_requeues(&"team-a/blog".to_owned()), 1);
/// ```
pub struct RateLimitingQueue<K, C = StdClock> {
    queue: DelayingQueue<K, C>,
}

/// How to add a key with [`RateLimitingQueue::add_with`].
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{AddOptions, RateLimitingQueue};
///
/// let queue: RateLimitingQueue<&str> = RateLimitingQueue::default();
/// queue.add_with("a", AddOptions { rate_limited: true, ..AddOptions::default() });
/// assert_eq!((queue.counts().delayed, queue.num_requeues(&"a")), (1, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Wait that long. If it is also rate-limited, the shorter of the two delays counts.
    pub after: Option<Duration>,
    /// Wait as long as the limiter says.
    pub rate_limited: bool,
    /// Larger is sooner, for an [`Order`](crate::Order) that looks at it.
    pub priority: i32,
}

impl<K, C: Clock> RateLimitingQueue<K, C> {
    /// An empty queue. [`default`](Self::default) gives one with the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { queue: DelayingQueue::new(config) }
    }
}

impl<K: Hash + Eq, C: Clock> RateLimitingQueue<K, C> {
    /// Counts a failure of `key`, and adds it once the limiter's delay has passed, as a retry.
    ///
    /// By default a retry that comes no earlier than a pending one is dropped, and counts no failure: see
    /// [`Charge`](crate::Charge).
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.queue.shared.add_rate_limited(key, None, 0)
    }

    /// Adds `key` in the way that `options` say.
    pub fn add_with(&self, key: K, options: AddOptions) -> Added {
        let AddOptions { after, rate_limited, priority } = options;
        match after {
            _ if rate_limited => self.queue.shared.add_rate_limited(key, after, priority),
            Some(after) => self.queue.shared.add_after(key, after, DelayKind::Reminder, priority),
            None => self.queue.shared.add(key, priority),
        }
    }

    /// Forgets the failures of `key`. A pending delay stays, and so does a guard that holds the key.
    pub fn forget(&self, key: &K) {
        self.queue.shared.forget(key);
    }

    /// How many failures of `key` have been counted since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.queue.shared.num_requeues(key)
    }
}

impl<K, C> Deref for RateLimitingQueue<K, C> {
    type Target = DelayingQueue<K, C>;

    fn deref(&self) -> &DelayingQueue<K, C> {
        &self.queue
    }
}

impl<K, C> Clone for RateLimitingQueue<K, C> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<K, C: Clock + Default> Default for RateLimitingQueue<K, C> {
    fn default() -> Self {
        Self::new(QueueConfig::default())
    }
}

impl<K, C> fmt::Debug for RateLimitingQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}
