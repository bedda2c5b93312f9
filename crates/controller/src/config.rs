//! How a controller works: the numbers and the queue that a user may set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_metrics::Provider;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{MetricsStyle, Pending, Priority, QueueConfig};

use crate::order::{GuardedOrder, OrderPanic};

/// How a controller works. The defaults are those of controller-runtime.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pintle_controller::ControllerConfig;
/// use pintle_ratelimit::ExponentialFailureRateLimiter;
///
/// let config = ControllerConfig {
///     max_concurrent_reconciles: 4,
///     queue: Some(Arc::new(|queue| {
///         let (first, longest) = (Duration::from_millis(100), Duration::from_secs(60));
///         queue.limiter = Box::new(ExponentialFailureRateLimiter::new(first, longest));
///     })),
///     ..ControllerConfig::default()
/// };
/// assert_eq!(config.reconcile_timeout, None);
/// ```
#[derive(Clone)]
pub struct ControllerConfig {
    /// How many keys are reconciled at the same time: 1. With 0 it is 1 as well.
    pub max_concurrent_reconciles: usize,
    /// How long one reconciliation may take before it is dropped, which counts as an error. None, the default: for ever.
    pub reconcile_timeout: Option<Duration>,
    /// How long to wait for all caches to fill before the run fails: 2 minutes by default. The error says what is missing. None: for
    /// ever, for a program that starts before its resources or permissions exist; then readiness says what is missing.
    pub cache_sync_timeout: Option<Duration>,
    /// How long a reconciliation may block its thread before it is logged, counted and makes the replica unready: 5 s by default.
    /// It is measured by the real clock, also where tokio's is paused.
    pub blocked_after: Duration,
    /// How long a stop waits for reconciliations to end before it drops them: 25 s. In a [`Manager`](crate::Manager), its time
    /// counts instead.
    pub graceful_shutdown_timeout: Duration,
    /// What the queue is like. None, the default:
    ///
    /// - Changes come before the keys of a first list, which have [`LOW_PRIORITY`]. A key that waits gains a level in 3 s, so a key of
    ///   a first list comes before changes that are 5 minutes younger, and none starves. Otherwise first come, first served.
    /// - The first error of a key delays it by 5 ms, and each further one by twice as long as before, up to 1000 s. A change ends that
    ///   delay, unless the failed call may have caused it: a change that is seen during the call or up to 5 s after it waits for the
    ///   retry. A new generation, a creation and a deletion of the object itself end the delay at once, as do a
    ///   [`Trigger`](crate::Trigger) and sources of your own.
    pub queue: Option<QueueSetup>,
    /// Who is told of the work, from the making of the controller until its last handle is dropped and its last reconciliation
    /// has ended; and of the queue of each run, for as long as that is there. None: nobody. All have the label `controller`;
    /// those of the queue are [its own](MetricsStyle), with controller-runtime's labels.
    ///
    /// | name | kind | says |
    /// |---|---|---|
    /// | `controller_runtime_reconcile_total` | counter | reconciliations, by `result`: `success`, `requeue_after`, `conflict`, `error` |
    /// | `controller_runtime_reconcile_errors_total` | counter | failures of all kinds, those below included |
    /// | `controller_runtime_terminal_reconcile_errors_total` | counter | failures that are not tried again |
    /// | `controller_runtime_reconcile_panics_total` | counter | panics |
    /// | `controller_runtime_reconcile_timeouts_total` | counter | reconciliations that took too long |
    /// | `controller_runtime_reconcile_time_seconds` | histogram | how long they took |
    /// | `controller_runtime_max_concurrent_reconciles` | gauge | how many there may be at a time |
    /// | `controller_runtime_active_workers` | gauge | how many are under way |
    /// | `controller_runtime_blocked_workers` | gauge | how many block their thread; not in controller-runtime |
    pub metrics: Option<Arc<dyn Provider>>,
}

/// Makes a queue what it should be: its order, its limiter, how retries and changes get along. Each run has a queue of its own,
/// so it is called for each run. The name is the controller's, whatever is set here; the metrics go where the controller's do,
/// with controller-runtime's labels, unless they are set to go elsewhere.
///
/// Keys from a first list and from resyncs are added with [`LOW_PRIORITY`], for an order that looks at it.
pub type QueueSetup = Arc<dyn Fn(&mut QueueConfig<ObjectKey, TokioClock>) + Send + Sync>;

/// The priority of keys that nothing has happened to: those from a first list and from resyncs. It is controller-runtime's.
pub const LOW_PRIORITY: i32 = -100;

/// The waiting time that is worth one level of priority.
const LEVEL: Duration = Duration::from_secs(3);

impl ControllerConfig {
    /// The queue of a run, and what tells when its order has panicked.
    pub(crate) fn queue_config(&self) -> (QueueConfig<ObjectKey, TokioClock>, OrderPanic) {
        let mut config = QueueConfig {
            metrics: self.metrics.clone(),
            metrics_style: MetricsStyle::ControllerRuntime,
            order: Box::new(Priority::with_ageing(LEVEL)),
            // A call that was made because of a change is the retry as well.
            pending_retry: Pending::Absorb,
            ..QueueConfig::new(TokioClock)
        };
        if let Some(setup) = &self.queue {
            setup(&mut config);
        }
        let (order, panic) = GuardedOrder::new(config.order);
        config.order = Box::new(order);
        (config, panic)
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: 1,
            reconcile_timeout: None,
            cache_sync_timeout: Some(Duration::from_secs(120)),
            blocked_after: Duration::from_secs(5),
            graceful_shutdown_timeout: Duration::from_secs(25),
            queue: None,
            metrics: None,
        }
    }
}

impl fmt::Debug for ControllerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerConfig")
            .field("max_concurrent_reconciles", &self.max_concurrent_reconciles)
            .field("reconcile_timeout", &self.reconcile_timeout)
            .field("cache_sync_timeout", &self.cache_sync_timeout)
            .field("blocked_after", &self.blocked_after)
            .field("graceful_shutdown_timeout", &self.graceful_shutdown_timeout)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}
