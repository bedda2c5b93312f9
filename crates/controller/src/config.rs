//! The controller configuration.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_metrics::Provider;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{DelayPolicy, MetricsStyle, Priority, QueueConfig};

use crate::key::RequestKey;
use crate::order::{GuardedOrder, OrderPanic};

/// Configures a [`Controller`](crate::Controller). The defaults are the same as in controller-runtime. `K` is the [key
/// type](RequestKey). Only the type of the [`queue`](Self::queue) field depends on `K`.
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
    /// The maximum number of concurrent reconciliations, clamped to the range from 1 to 10,000. The default is 1. To
    /// change the limit while the controller runs, see [`Builder::concurrency`](crate::Builder::concurrency).
    pub max_concurrent_reconciles: usize,
    /// The reconciliation timeout. A reconciliation that exceeds the timeout is dropped and treated as failed. `None`,
    /// the default, disables the timeout.
    pub reconcile_timeout: Option<Duration>,
    /// The maximum time that a run waits for its caches to sync. After the timeout, the run fails with an error that
    /// names the unsynced cache. With `None` (the default), the run waits indefinitely, for example until a
    /// CustomResourceDefinition is installed. While a run waits for its caches, the readiness check names the unsynced
    /// caches. If a cache has not synced after 10 s, the controller logs a warning, and repeats the warning once a
    /// minute.
    pub cache_sync_timeout: Option<Duration>,
    /// The time after which the controller reports a reconciliation that blocks its thread. The report appears in the
    /// logs, the metrics and the readiness check. The default is 5 s. This timeout uses the real clock, even if tokio's
    /// clock is paused.
    pub blocked_after: Duration,
    /// The maximum time that a stopping controller waits for running reconciliations before it drops them. The default
    /// is 25 s. In a [`Manager`](crate::Manager), the manager's timeout is used instead.
    pub graceful_shutdown_timeout: Duration,
    /// A function that configures each run's queue. With `None`, the default, the queue uses these rules:
    ///
    /// - The queue returns keys of changed objects before keys from the initial list, which have [`LOW_PRIORITY`]. The
    ///   priority of a waiting key increases by one every 3 s, so no key starves. A key from the initial list is
    ///   processed before all changes that arrive more than 5 minutes later. Keys with the same priority are processed
    ///   in first-in, first-out order.
    /// - A key's first error delays its retry by 5 ms. Each further error doubles the delay, up to a maximum of 1000 s.
    /// - A change ends the delay, unless the change is attributed to the failed reconciliation. Changes to the
    ///   reconciled object or a dependent are attributed to the reconciliation if they arrive while it runs or up to
    ///   5 s later. A change that is attributed to the reconciliation does not end the delay, but shortens it to 30 s.
    ///   A change that is attributed to the reconciliation never shortens a delay that the server or the reconciler
    ///   requested. A change to a [watched](crate::Builder::watches) object other than the reconciled object or a
    ///   dependent ends the delay. Changes during a reconciliation or up to 5 s after its failure shorten or end a
    ///   key's delay at most ten times before the key succeeds. A reconciler that writes and then fails still backs
    ///   off. Changes that arrive later can end a delay any number of times.
    /// - A new generation, a creation or a deletion of the reconciled object always ends the delay immediately. If a
    ///   [`Trigger`](crate::Trigger) or a custom source adds a key, the key's delay also ends immediately.
    pub queue: Option<QueueSetup<K>>,
    /// The metrics provider. `None`, the default, disables metrics. The controller's metric series are removed when its
    /// last handle is dropped and its last reconciliation has ended. The queue's metric series are removed when the run
    /// ends.
    ///
    /// All metric series have the label `controller`. [`MetricsStyle`] lists the queue's metric series, which have the
    /// same labels as in controller-runtime.
    ///
    /// | name | kind | meaning |
    /// |---|---|---|
    /// | `controller_runtime_reconcile_total` | counter | reconciliations, by `result`: `success`, `requeue_after`, `conflict`, `error` |
    /// | `controller_runtime_reconcile_errors_total` | counter | failures of all kinds, including those below |
    /// | `controller_runtime_terminal_reconcile_errors_total` | counter | failures that are not retried |
    /// | `controller_runtime_reconcile_panics_total` | counter | panics |
    /// | `controller_runtime_reconcile_timeouts_total` | counter | reconciliations that timed out |
    /// | `controller_runtime_reconcile_time_seconds` | histogram | duration of reconciliations |
    /// | `controller_runtime_max_concurrent_reconciles` | gauge | the limit on concurrent reconciliations, or 0 while the controller does not run |
    /// | `controller_runtime_active_workers` | gauge | reconciliations in progress |
    /// | `controller_runtime_blocked_workers` | gauge | reconciliations that block their thread; not in controller-runtime |
    pub metrics: Option<Arc<dyn Provider>>,
}

/// A function that configures the queue of a run: the order, the rate limiter, and how a change affects a pending
/// retry.
///
/// The controller calls the function once per run, because each run has its own queue. The function cannot change the
/// queue's name, which is the controller's name. By default, the queue reports metrics to the controller's provider,
/// with the labels of controller-runtime.
///
/// Keys from the initial list and from resyncs have [`LOW_PRIORITY`]. A custom order may ignore priorities.
pub type QueueSetup<K = ObjectKey> = Arc<dyn Fn(&mut QueueConfig<K, TokioClock>) + Send + Sync>;

/// The priority of keys from the initial list and from resyncs. Objects whose keys have this priority may be unchanged.
/// controller-runtime uses the same value.
pub const LOW_PRIORITY: i32 = -100;

/// The priority of a waiting key increases by one each time this duration passes.
const LEVEL: Duration = Duration::from_secs(3);

impl<K: RequestKey> ControllerConfig<K> {
    pub(crate) fn queue_config(&self) -> (QueueConfig<K, TokioClock>, OrderPanic) {
        let mut config = QueueConfig {
            metrics: self.metrics.clone(),
            metrics_style: MetricsStyle::ControllerRuntime,
            order: Box::new(Priority::with_ageing(LEVEL)),
            // If a change queues a key, drop the key's pending retry.
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

pintle_meta::debug_struct!(ControllerConfig<K> {
    max_concurrent_reconciles, reconcile_timeout, cache_sync_timeout, blocked_after, graceful_shutdown_timeout, metrics,
    ..
});
