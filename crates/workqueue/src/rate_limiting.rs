use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use pintle_ratelimit::{Clock, RateLimiter, StdClock};

use crate::config::Config;
use crate::delaying::DelayingQueue;
use crate::engine::{Added, DelayKind};

/// A [`DelayingQueue`] that knows how long a key has to wait for its next try. client-go's `RateLimitingInterface`, and
/// controller-runtime's `PriorityQueue` if its [`Config`] says so.
///
/// ```
/// use pintle_workqueue::RateLimitingQueue;
///
/// let queue: RateLimitingQueue<String> = RateLimitingQueue::new();
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

/// How to add a key, when a plain add will not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Wait that long. If it is also rate-limited, the shorter of the two delays counts.
    pub after: Option<Duration>,
    /// Wait as long as the limiter says.
    pub rate_limited: bool,
    /// Larger is sooner, for an [`Order`](crate::Order) that looks at it.
    pub priority: i32,
}

impl<K, C: Clock + Default> RateLimitingQueue<K, C> {
    /// An empty queue with the default [`Config`].
    pub fn new() -> Self {
        Self::with_config(Config::default())
    }

    /// An empty queue whose retries wait as long as `limiter` says.
    pub fn with_limiter(limiter: impl RateLimiter<K> + 'static) -> Self {
        Self::with_config(Config { limiter: Box::new(limiter), ..Config::default() })
    }
}

impl<K, C: Clock> RateLimitingQueue<K, C> {
    /// An empty queue.
    pub fn with_config(config: Config<K, C>) -> Self {
        Self { queue: DelayingQueue::with_config(config) }
    }
}

impl<K, C: Clock> Config<K, C> {
    /// An empty queue that behaves so.
    pub fn into_queue(self) -> RateLimitingQueue<K, C> {
        RateLimitingQueue::with_config(self)
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

    /// Forgets the failures of `key`. Neither is the key done by it, nor a pending delay taken back.
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
        Self::new()
    }
}

impl<K, C> fmt::Debug for RateLimitingQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}
