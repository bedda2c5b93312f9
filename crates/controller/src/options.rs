use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_ratelimit::{ExponentialFailureRateLimiter, RateLimiter, TokioClock};
use pintle_workqueue::Config;

/// Changes what a queue is like. Each run of a controller has a queue of its own, so it is called for each run.
type QueueChange = Arc<dyn Fn(&mut Config<ObjectKey, TokioClock>) + Send + Sync>;

/// How a controller works. The defaults are those of controller-runtime.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How many keys are reconciled at the same time: 1, and never 0.
    pub max_concurrent_reconciles: usize,
    /// How long one reconciliation may take before it is dropped, which counts as an error. None, the default: for ever.
    pub reconcile_timeout: Option<Duration>,
    /// How long to wait for all caches to fill before the run fails. None, the default: for ever, since a missing permission
    /// or resource may come yet; readiness says what is missing.
    pub cache_sync_timeout: Option<Duration>,
    /// How long a stop waits for reconciliations to end before it drops them: 30 s.
    pub graceful_shutdown_timeout: Duration,
    queue: Option<QueueChange>,
}

impl Options {
    /// The delay after the first error of a key, which doubles with each further one, and the longest: 5 ms and 1000 s.
    #[must_use]
    pub fn with_backoff(self, base: Duration, max: Duration) -> Self {
        self.with_limiter(move || ExponentialFailureRateLimiter::new(base, max))
    }

    /// What decides on the delay after an error. It is made anew for each run.
    #[must_use]
    pub fn with_limiter<L: RateLimiter<ObjectKey> + 'static>(
        self,
        make: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        self.with_queue(move |config| config.limiter = Box::new(make()))
    }

    /// Changes what the queue is like, after what was changed before: its order, its limiter, how retries and changes get
    /// along. Its name and its metrics are the controller's.
    ///
    /// Keys from a first list and from resyncs are added with [`LOW_PRIORITY`], for an order that looks at it.
    #[must_use]
    pub fn with_queue(mut self, change: impl Fn(&mut Config<ObjectKey, TokioClock>) + Send + Sync + 'static) -> Self {
        let before = self.queue.take();
        self.queue = Some(Arc::new(move |config| {
            if let Some(before) = &before {
                before(config);
            }
            change(config);
        }));
        self
    }

    pub(crate) fn queue_config(&self) -> Config<ObjectKey, TokioClock> {
        let mut config = Config::with_clock(TokioClock);
        if let Some(change) = &self.queue {
            change(&mut config);
        }
        config
    }
}

/// The priority of keys that nothing has happened to: those from a first list and from resyncs. It is controller-runtime's.
pub const LOW_PRIORITY: i32 = -100;

impl Default for Options {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: 1,
            reconcile_timeout: None,
            cache_sync_timeout: None,
            graceful_shutdown_timeout: Duration::from_secs(30),
            queue: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_concurrent_reconciles", &self.max_concurrent_reconciles)
            .field("reconcile_timeout", &self.reconcile_timeout)
            .field("cache_sync_timeout", &self.cache_sync_timeout)
            .field("graceful_shutdown_timeout", &self.graceful_shutdown_timeout)
            .finish_non_exhaustive()
    }
}
