//! One controller and its runs.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_workqueue::ShutdownMode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::reconciler::AnyReconciler;
use crate::source::{Feed, Source, Synced};
use crate::worker::Worker;
use crate::{ControllerConfig, ControllerError, ControllerMetrics, Requests};

/// Has objects reconciled whenever something about them changes.
///
/// Sources feed keys into a queue, and workers take them out and call the reconciler: one call at a time for each key, and
/// [`max_concurrent_reconciles`](ControllerConfig::max_concurrent_reconciles) in all. The first call comes after all caches are
/// complete. Deleted objects yield their keys as well.
///
/// Clones are handles to the same controller.
#[derive(Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    config: ControllerConfig,
    sources: Vec<Box<dyn Source>>,
    reconciler: Arc<dyn AnyReconciler>,
    metrics: Arc<Metrics>,
    /// The queue of the present run.
    run: Mutex<Option<Requests>>,
}

impl Controller {
    pub(crate) fn new(
        name: String,
        config: ControllerConfig,
        sources: Vec<Box<dyn Source>>,
        reconciler: Arc<dyn AnyReconciler>,
    ) -> Self {
        let (metrics, run) = (Arc::new(Metrics::new()), Mutex::new(None));
        Self { inner: Arc::new(Inner { name, config, sources, reconciler, metrics, run }) }
    }

    /// Runs until `stop` is cancelled: takes no further keys then, and waits for the reconciliations under way, for
    /// [`graceful_shutdown_timeout`](ControllerConfig::graceful_shutdown_timeout) at most.
    ///
    /// It can be run again afterwards, with a new queue: every object is reconciled anew.
    ///
    /// # Errors
    ///
    /// A source could not be completed or has ended, the stop took too long, or it runs already.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the reconciliations under way and ends all that belongs to the run.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ControllerError> {
        self.run_under(stop, None).await
    }

    /// As [`Controller::run`], with each reconciliation inside `leadership`: it is dropped when the term is over.
    ///
    /// # Errors
    ///
    /// As [`Controller::run`].
    ///
    /// # Panics
    ///
    /// As [`Controller::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Controller::run`].
    pub async fn run_under(
        &self,
        stop: &CancellationToken,
        leadership: Option<&Leadership>,
    ) -> Result<(), ControllerError> {
        let run = Run::begin(&self.inner)?;
        let stopped = async {
            match leadership {
                None => stop.cancelled().await,
                Some(leadership) => tokio::select! {
                    () = stop.cancelled() => {}
                    () = leadership.cancelled() => {}
                },
            }
        };
        run.work(pin!(stopped), leadership).await
    }

    /// Begins to fill the caches, so that a later run can begin at once. Without effect if they are filled already.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn warm_up(&self) {
        self.inner.sources.iter().for_each(|source| source.warm_up());
    }

    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The sources that are not complete, each with what keeps it from being so. While there are any, nothing is reconciled.
    pub fn unsynced(&self) -> Vec<(String, String)> {
        let sources = self.inner.sources.iter();
        sources.filter_map(|source| Some((source.name().to_owned(), source.problem()?))).collect()
    }

    /// The counters, over all runs.
    pub fn metrics(&self) -> ControllerMetrics {
        let inner = &self.inner;
        let depth = inner.run().as_ref().map_or(0, |requests| requests.queue().len());
        inner.metrics.snapshot(&inner.name, inner.config.max_concurrent_reconciles.max(1), depth)
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.inner.name)
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn run(&self) -> MutexGuard<'_, Option<Requests>> {
        // It is only ever replaced as a whole.
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run, from its beginning until it is dropped.
struct Run<'a> {
    inner: &'a Inner,
    requests: Requests,
}

impl<'a> Run<'a> {
    fn begin(inner: &'a Inner) -> Result<Self, ControllerError> {
        let mut run = inner.run();
        if run.is_some() {
            return Err(ControllerError::AlreadyRunning { controller: inner.name.clone() });
        }
        let requests = Requests::new(&inner.name, &inner.config, inner.metrics.clone());
        *run = Some(requests.clone());
        Ok(Self { inner, requests })
    }

    async fn work(
        &self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        leadership: Option<&Leadership>,
    ) -> Result<(), ControllerError> {
        let Inner { name, config, sources, .. } = self.inner;
        let mut feeds = JoinSet::new();
        let mut syncs = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let Feed { synced, run } = source.start(self.requests.clone());
            syncs.push((index, synced));
            feeds.spawn(async move {
                run.await;
                index
            });
        }
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            synced = self.sync(syncs) => synced?,
        }
        tracing::info!(controller = name, "caches are complete; reconciling");
        let mut workers = JoinSet::new();
        for _ in 0..config.max_concurrent_reconciles.max(1) {
            let worker = Worker {
                controller: name.clone(),
                queue: self.requests.queue().clone(),
                reconciler: self.inner.reconciler.clone(),
                metrics: self.inner.metrics.clone(),
                timeout: config.reconcile_timeout,
                leadership: leadership.cloned(),
            };
            workers.spawn(worker.run());
        }
        let ended = tokio::select! {
            biased;
            () = &mut stop => Ok(()),
            Some(ended) = feeds.join_next() => Err(ControllerError::SourceEnded {
                controller: name.clone(),
                // A feed that panics takes its name with it.
                source_name: ended.map_or_else(|panic| panic.to_string(), |index| sources[index].name().to_owned()),
            }),
        };
        feeds.shutdown().await;
        let drained = self.drain(config.graceful_shutdown_timeout).await;
        workers.shutdown().await;
        ended.and(drained)
    }

    async fn sync(&self, syncs: Vec<(usize, Synced)>) -> Result<(), ControllerError> {
        let Inner { name, config, sources, .. } = self.inner;
        let limit = config.cache_sync_timeout;
        let until = limit.map(|limit| tokio::time::Instant::now() + limit);
        for (index, synced) in syncs {
            let synced = match until {
                None => Ok(synced.await),
                Some(until) => tokio::time::timeout_at(until, synced).await,
            };
            if synced != Ok(true) {
                let problem = sources[index].problem().unwrap_or_else(|| "it has ended".into());
                return Err(ControllerError::NotSynced {
                    controller: name.clone(),
                    source_name: sources[index].name().to_owned(),
                    problem,
                    after: limit.filter(|_| synced.is_err()),
                });
            }
        }
        Ok(())
    }

    /// Hands out no more keys, and waits for those in flight.
    async fn drain(&self, timeout: Duration) -> Result<(), ControllerError> {
        let queue = self.requests.queue();
        let report = queue.shut_down(ShutdownMode::FinishInFlight).with_timeout(timeout).await;
        match report.complete {
            true => Ok(()),
            false => Err(ControllerError::StopTimedOut {
                controller: self.inner.name.clone(),
                in_flight: report.in_flight,
                after: timeout,
            }),
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Whoever still holds the queue finds it closed.
        drop(self.requests.queue().shut_down(ShutdownMode::Abandon));
        *self.inner.run() = None;
    }
}
