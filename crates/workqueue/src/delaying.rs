//! The second layer: adds that are delayed.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, StdClock};

use crate::config::QueueConfig;
use crate::engine::{Added, DelayKind};
use crate::queue::Queue;

/// A [`Queue`] whose adds can be delayed. client-go's `DelayingInterface`.
///
/// There is no background task: a thread or task that waits in `get` keeps the time.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::DelayingQueue;
/// use std::time::Duration;
///
/// let queue: DelayingQueue<&str> = DelayingQueue::default();
/// queue.add_after("later", Duration::from_millis(20));
/// queue.add_after("sooner", Duration::from_millis(10));
/// queue.add_after("never", Duration::MAX);
/// assert_eq!((queue.len(), queue.counts().delayed), (0, 3));
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"sooner"));
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"later"));
/// assert!(queue.cancel(&"never").is_some());
/// ```
pub struct DelayingQueue<K, C = StdClock> {
    queue: Queue<K, C>,
}

impl<K, C: Clock> DelayingQueue<K, C> {
    /// An empty queue. [`default`](Self::default) gives one with the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { queue: Queue::new(config) }
    }
}

impl<K: Hash + Eq, C: Clock> DelayingQueue<K, C> {
    /// Adds `key` once `after` has passed, as a reminder. If a delay of the key is pending already, the one that ends
    /// earlier stays.
    ///
    /// No delay at all is a plain add. One that ends more than 584 years after the queue was made never ends.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.queue.shared.add_after(key, after, DelayKind::Reminder, 0)
    }

    /// Sets the delay of `key` to `after` from now, whether one is pending or not.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        self.queue.shared.replace(key, after, kind)
    }

    /// Makes a pending delay of `key` end no earlier than `after` from now. Returns whether that changed anything.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        self.queue.shared.postpone(key, after)
    }

    /// Removes a pending delay of `key`, and returns when it would have ended. None: there was none.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        self.queue.shared.cancel(key)
    }
}

impl<K, C> Deref for DelayingQueue<K, C> {
    type Target = Queue<K, C>;

    fn deref(&self) -> &Queue<K, C> {
        &self.queue
    }
}

impl<K, C> Clone for DelayingQueue<K, C> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<K, C: Clock + Default> Default for DelayingQueue<K, C> {
    fn default() -> Self {
        Self::new(QueueConfig::default())
    }
}

impl<K, C> fmt::Debug for DelayingQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}
