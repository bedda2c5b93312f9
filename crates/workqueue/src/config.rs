//! What can be configured of a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::Provider;
use pintle_ratelimit::{ExponentialFailureRateLimiter, RateLimiter, StdClock, TokenBucket};

use crate::metrics::MetricsStyle;
use crate::order::{Fifo, Order};

/// How a queue behaves. The default is client-go's behaviour with controller-runtime's retry delays.
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
    /// The queue's name in metrics and in `Debug` output.
    pub name: String,
    /// The clock of everything the queue does. For `async` waits it has to be a [`Timer`](pintle_ratelimit::Timer).
    pub clock: C,
    /// Which of the queued keys is next.
    pub order: Box<dyn Order<K>>,
    /// How long a key waits before its next try.
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Whether a rate-limited add that changes nothing counts as a failure.
    pub charge: Charge,
    /// How long a key's failures count once it is neither queued, nor delayed, nor in flight. `None`: until `forget`, as in
    /// client-go, at the price of a record for each key that is never forgotten.
    ///
    /// Whoever looks for a key then finds the record and drops it; a waiting `get` looks at once. The limiter is told, as by
    /// `forget`.
    pub keep_failures: Option<Duration>,
    /// What an add does to a pending retry of the same key, and the reverse.
    pub pending_retry: Pending,
    /// What an add does to a pending reminder of the same key, and the reverse.
    pub pending_reminder: Pending,
    /// Caps how many keys a second are handed out, over all workers. A key that has to wait for it stays queued, and a
    /// worker that stops waiting owes nothing.
    pub handout_limit: Option<TokenBucket>,
    /// Who is told what the queue does, from its making until it is dropped with its last guard; [`MetricsStyle`] lists what.
    /// `None`: nobody, which saves reading the clock. Queues of one name share their series.
    pub metrics: Option<Arc<dyn Provider>>,
    /// Whose labels and buckets the metrics have.
    pub metrics_style: MetricsStyle,
}

/// What an add does to a pending delay of the same key, and the reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// Nothing: the key runs now, and again when the delay is over. client-go's rule.
    #[default]
    Keep,
    /// One schedule per key, the earliest: an add takes the delay's place, and a delay asked for while the key is queued
    /// is dropped. controller-runtime's rule.
    Absorb,
    /// The add waits for the delay: an event does not bring a key out of its back-off.
    Respect,
}

/// When a rate-limited add is charged: it counts as a failure, and takes tokens of a limiter that has some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Charge {
    /// When it reports a new failure. Free are an add while an earlier retry of the key is pending, and an add that is dropped since the
    /// key is queued. [`WorkItem::retry`](crate::WorkItem::retry) always counts: the worker that held the key has failed once.
    #[default]
    IfScheduled,
    /// Always, even if the queue is shut down. client-go's rule.
    Always,
}

impl<K, C: Default> Default for QueueConfig<K, C> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

impl<K, C> QueueConfig<K, C> {
    /// The default behaviour with this clock.
    pub fn new(clock: C) -> Self {
        Self {
            name: String::new(),
            clock,
            order: Box::new(Fifo::default()),
            limiter: Box::new(ExponentialFailureRateLimiter::default()),
            charge: Charge::default(),
            keep_failures: Some(Duration::from_secs(3600)),
            pending_retry: Pending::default(),
            pending_reminder: Pending::default(),
            handout_limit: None,
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
            .field("handout_limit", &self.handout_limit)
            .field("metrics", &self.metrics)
            .field("metrics_style", &self.metrics_style)
            .finish_non_exhaustive()
    }
}
