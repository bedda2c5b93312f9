//! The configuration of a controller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_metrics::Provider;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{DelayPolicy, MetricsStyle, Priority, QueueConfig};

use crate::key::RequestKey;
use crate::order::{GuardedOrder, OrderPanic};

/// The configuration of a [`Controller`](crate::Controller). The defaults are controller-runtime's. `K` is the type of
/// the keys: see [`RequestKey`]. Only [`queue`](Self::queue) depends on this type.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pintle_controller::{Action, Controller, ControllerConfig, ReconcileRequest};
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
/// let controller =
///     Controller::named("sites").config(config).reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
/// assert_eq!(controller.max_concurrent_reconciles(), 4);
/// ```
#[derive(Clone)]
pub struct ControllerConfig<K = ObjectKey> {
    /// The maximum number of keys that are reconciled concurrently. The default is 1. The number 0 is treated as 1,
    /// and a number above 10,000 as 10,000. To change the number while the controller runs, see
    /// [`Builder::concurrency`](crate::Builder::concurrency).
    pub max_concurrent_reconciles: usize,
    /// The time limit of one reconciliation. When the time limit expires, the reconciliation is dropped and counts as
    /// failed. `None`, the default, sets no limit.
    pub reconcile_timeout: Option<Duration>,
    /// How long a run of the controller waits until all caches have synced. After that time, the run fails with an
    /// error that names the cache that has not synced. With `None`, the default, the run waits without a limit, for
    /// example until a CustomResourceDefinition is installed or the server can be reached. While a run waits, the
    /// readiness check names the caches that have not synced. The controller logs a warning after 10 s, and then once a
    /// minute.
    pub cache_sync_timeout: Option<Duration>,
    /// How long a reconciliation may block its thread. After that time, the controller logs and counts the
    /// reconciliation, and the replica is not ready. The default is 5 s. The time is measured by the real clock, even
    /// if tokio's clock is paused.
    pub blocked_after: Duration,
    /// How long a stopping controller waits for running reconciliations before it drops them. The default is 25 s. In a
    /// [`Manager`](crate::Manager), the timeout of the manager applies instead.
    pub graceful_shutdown_timeout: Duration,
    /// A function that sets up the queue of each run. With `None`, the default, the queue follows these rules:
    ///
    /// - The keys of changed objects come before the keys of the initial list. The keys of the initial list have
    ///   [`LOW_PRIORITY`]. A waiting key gains one priority level every 3 s. So a key of the initial list comes before
    ///   the keys of changes that arrive 5 minutes later, and no key starves. Keys with the same priority are processed
    ///   first in, first out.
    /// - The first error of a key delays its retry by 5 ms. Each further error doubles the delay, up to 1000 s.
    /// - A change ends the delay, unless the failed call may have caused the change. If the reconciled object or one of
    ///   its dependents changes during a call or up to 5 s after it, the controller assumes that the call has caused
    ///   the change. Such a change only shortens the delay to 30 s, and does not shorten a delay that the server or the
    ///   reconciler requested. A change of another [watched](crate::Builder::watches) object ends the delay. Between
    ///   two successful reconciliations of a key, these changes shorten or end its delay at most ten times. So a
    ///   reconciler that writes and fails still backs off.
    /// - A new generation, a creation or a deletion of the reconciled object ends the delay immediately. Keys from a
    ///   [`Trigger`](crate::Trigger) or from your own sources also end the delay immediately.
    pub queue: Option<QueueSetup<K>>,
    /// The metrics provider. `None`, the default, disables metrics. The controller's metric series exist until its last
    /// handle is dropped and its last reconciliation has ended. The queue's metric series exist until the queue of the
    /// run is dropped.
    ///
    /// All metric series have the label `controller`. [`MetricsStyle`] lists the metric series of the queue. These
    /// series have the same labels as in controller-runtime.
    ///
    /// | name | kind | meaning |
    /// |---|---|---|
    /// | `controller_runtime_reconcile_total` | counter | reconciliations, by `result`: `success`, `requeue_after`, `conflict`, `error` |
    /// | `controller_runtime_reconcile_errors_total` | counter | failures of all kinds, including those below |
    /// | `controller_runtime_terminal_reconcile_errors_total` | counter | failures that are not retried |
    /// | `controller_runtime_reconcile_panics_total` | counter | panics |
    /// | `controller_runtime_reconcile_timeouts_total` | counter | reconciliations that timed out |
    /// | `controller_runtime_reconcile_time_seconds` | histogram | duration of reconciliations |
    /// | `controller_runtime_max_concurrent_reconciles` | gauge | the limit of concurrent reconciliations, or 0 while the controller does not run |
    /// | `controller_runtime_active_workers` | gauge | reconciliations in progress |
    /// | `controller_runtime_blocked_workers` | gauge | reconciliations that block their thread; not in controller-runtime |
    pub metrics: Option<Arc<dyn Provider>>,
}

/// A function that configures the queue of a run. The function sets the order, the rate limiter, and how retries and
/// changes interact.
///
/// Each run has its own queue, so the controller calls the function once for each run. The queue always has the
/// controller's name. The queue reports its metrics to the controller's provider, with controller-runtime's labels,
/// unless the function sets another provider.
///
/// Keys from the initial list and from resyncs are added with [`LOW_PRIORITY`]. The priority only affects an order that
/// uses priorities.
pub type QueueSetup<K = ObjectKey> = Arc<dyn Fn(&mut QueueConfig<K, TokioClock>) + Send + Sync>;

/// The priority of keys that the initial list or a resync adds. It is possible that the objects of these keys have not
/// changed. The value is the same as in controller-runtime.
pub const LOW_PRIORITY: i32 = -100;

/// How long a key must wait to gain one priority level.
const LEVEL: Duration = Duration::from_secs(3);

impl<K: RequestKey> ControllerConfig<K> {
    /// Returns the queue configuration for a run, and a receiver for the panic message if the code that orders the
    /// queue panics.
    pub(crate) fn queue_config(&self) -> (QueueConfig<K, TokioClock>, OrderPanic) {
        let mut config = QueueConfig {
            metrics: self.metrics.clone(),
            metrics_style: MetricsStyle::ControllerRuntime,
            order: Box::new(Priority::with_ageing(LEVEL)),
            // If a change triggers a call while a retry is pending, this call replaces the retry.
            pending_retry: DelayPolicy::Absorb,
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

impl<K> Default for ControllerConfig<K> {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: 1,
            reconcile_timeout: None,
            cache_sync_timeout: None,
            blocked_after: Duration::from_secs(5),
            graceful_shutdown_timeout: Duration::from_secs(25),
            queue: None,
            metrics: None,
        }
    }
}

impl<K> fmt::Debug for ControllerConfig<K> {
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
