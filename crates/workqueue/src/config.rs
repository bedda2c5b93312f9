//! The configuration of a work queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::Provider;
use pintle_ratelimit::{ExponentialFailureRateLimiter, RateLimiter, StdClock, TokenBucket};

use crate::metrics::MetricsStyle;
use crate::order::{Fifo, Order};

/// The configuration of a [`WorkQueue`](crate::WorkQueue). With the default configuration, a queue behaves like
/// client-go's queue, but uses controller-runtime's retry delays.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::FastSlowRateLimiter;
/// use pintle_workqueue::{QueueConfig, WorkQueue};
/// use std::time::Duration;
///
/// let queue: WorkQueue<String> = WorkQueue::new(QueueConfig {
///     name: "websites".into(),
///     limiter: Box::new(FastSlowRateLimiter::new(Duration::from_millis(5), Duration::from_secs(10), 3)),
///     ..QueueConfig::default()
/// });
/// assert_eq!(queue.name(), "websites");
/// ```
pub struct QueueConfig<K, C = StdClock> {
    /// The name of the queue in metrics and in `Debug` output. The default is an empty name.
    pub name: String,
    /// The queue's clock. Async tasks can wait for a key only if this clock is a [`Timer`](pintle_ratelimit::Timer).
    pub clock: C,
    /// The order of the keys that workers receive. The default is [`Fifo`].
    pub order: Box<dyn Order<K>>,
    /// The limiter that computes the delay of a retry.
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Whether a rate-limited add counts as a failure if the key already has an earlier retry or is already queued.
    pub charge: RetryAccounting,
    /// How long the queue remembers the failures of an idle key. A key is idle if it is not queued, delayed or in
    /// flight. With `None`, failures are remembered until `forget` is called, as in client-go. A queue with `None`
    /// keeps a record of every key that has failed and was never forgotten. The default is one hour.
    ///
    /// After the `keep_failures` time, the next operation on the key removes its failures and calls `forget` on the
    /// limiter. Each `get` also removes the expired failures of a few keys, and `len` and `counts` remove all expired
    /// failures. While a worker waits for a key, the queue removes expired failures even without another call.
    pub keep_failures: Option<Duration>,
    /// What happens to the pending retry of a key that is added again without a delay. A retry is a delay after a failure.
    pub pending_retry: DelayPolicy,
    /// What happens to the pending reminder of a key that is added again without a delay. A reminder is a delay without a
    /// failure.
    pub pending_reminder: DelayPolicy,
    /// The maximum number of keys per second that all workers together can dequeue, or `None` for no limit. A key stays
    /// queued while it waits for a token. A worker that stops waiting for a key does not consume a token.
    pub dequeue_limit: Option<TokenBucket>,
    /// The metrics provider. With `None`, metrics are disabled, and the queue reads the clock less often. The metrics
    /// stay registered until the queue and its last guard have been dropped. Queues with the same name share their
    /// metric series. [`MetricsStyle`] lists the metrics.
    pub metrics: Option<Arc<dyn Provider>>,
    /// The labels and histogram buckets of the metrics.
    pub metrics_style: MetricsStyle,
}

/// Determines what happens to a pending delay if its key is added without a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayPolicy {
    /// Keeps both the add and the pending delay. The key is processed immediately, and again when the delay ends, as in
    /// client-go.
    #[default]
    Keep,
    /// Keeps only the earliest time for processing the key. Adding the key without a delay cancels a pending delay. A
    /// delay that is requested while the key is queued is ignored, as in controller-runtime.
    Absorb,
    /// Keeps only the pending delay. Adding the key has no effect while a delay is pending. The key is processed when
    /// the delay ends, so an event cannot shorten the backoff of a key. Adding an in-flight key also has no effect if
    /// a delay is pending when the key is marked as done.
    Respect,
}

/// Determines when a rate-limited add counts as a failure. Each failure also consumes a token if the limiter uses
/// tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAccounting {
    /// Counts a rate-limited add only if it reports a new failure. The add does not count if an earlier retry of the
    /// key is pending, or if the add is dropped because the key is queued. [`WorkItem::retry`](crate::WorkItem::retry)
    /// always counts, because the worker has just failed.
    #[default]
    IfScheduled,
    /// Counts every rate-limited add, even during a shutdown, as in client-go.
    Always,
}

impl<K, C: Default> Default for QueueConfig<K, C> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

impl<K, C> QueueConfig<K, C> {
    /// Creates the default configuration with the given clock.
    pub fn new(clock: C) -> Self {
        Self {
            name: String::new(),
            clock,
            order: Box::new(Fifo::default()),
            limiter: Box::new(ExponentialFailureRateLimiter::default()),
            charge: RetryAccounting::default(),
            keep_failures: Some(Duration::from_secs(3600)),
            pending_retry: DelayPolicy::default(),
            pending_reminder: DelayPolicy::default(),
            dequeue_limit: None,
            metrics: None,
            metrics_style: MetricsStyle::default(),
        }
    }
}

impl<K, C> fmt::Debug for QueueConfig<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueConfig")
            .field("name", &self.name)
            .field("order", &self.order)
            .field("charge", &self.charge)
            .field("keep_failures", &self.keep_failures)
            .field("pending_retry", &self.pending_retry)
            .field("pending_reminder", &self.pending_reminder)
            .field("dequeue_limit", &self.dequeue_limit)
            .field("metrics", &self.metrics)
            .field("metrics_style", &self.metrics_style)
            .finish_non_exhaustive()
    }
}
