//! One controller and its runs.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pintle_leaderelect::Leadership;
use pintle_meta::ObjectKey;
use pintle_metrics::{CatchPanic, Provider};
use pintle_workqueue::{AddOptions, ShutdownMode};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::left::Left;
use crate::metrics::Metrics;
use crate::order::OrderPanic;
use crate::panic::{catch, caught, told};
use crate::reconciler::AnyReconciler;
use crate::source::{Feed, Named, Synced};
use crate::stop::Stop;
use crate::worker::Worker;
use crate::{ControllerConfig, ControllerError, LOW_PRIORITY, Requests};

/// Has objects reconciled whenever something about them changes.
///
/// Sources feed keys into a queue, and workers take them out and call the reconciler: one call at a time for each key, and
/// [`max_concurrent_reconciles`](ControllerConfig::max_concurrent_reconciles) in all. The first call comes after all caches are
/// complete. Deleted objects yield their keys as well.
///
/// Clones are handles to the same controller.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, ReconcileRequest};
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::ObjectMeta;
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog") }]);
///     let sites = SharedInformer::new(sites, InformerConfig::default());
///
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::of(&sites).reconciler(move |request: ReconcileRequest| {
///         println!("{} is to be reconciled", request.key);
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    config: ControllerConfig,
    sources: Vec<Named>,
    reconciler: Arc<dyn AnyReconciler>,
    metrics: Metrics,
    is_running: AtomicBool,
    /// The keys of the present run.
    requests: Mutex<Option<Requests>>,
    left: Arc<Left>,
    /// The tasks of all runs.
    tasks: TaskTracker,
}

impl Controller {
    pub(crate) fn new(
        name: String,
        mut config: ControllerConfig,
        sources: Vec<Named>,
        reconciler: Arc<dyn AnyReconciler>,
    ) -> Self {
        config.metrics = config.metrics.map(|provider| -> Arc<dyn Provider> {
            Arc::new(CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of a controller panicked, and are told nothing more");
            }))
        });
        let tasks = TaskTracker::new();
        // So that it can be waited for. Tasks can be added all the same.
        tasks.close();
        let metrics = Metrics::new(config.metrics.as_deref(), &name, config.max_concurrent_reconciles.max(1));
        let inner = Inner {
            name,
            config,
            sources,
            reconciler,
            metrics,
            is_running: AtomicBool::new(false),
            requests: Mutex::new(None),
            left: Arc::default(),
            tasks,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs until `stop` is cancelled: takes no further keys then, and waits for the reconciliations under way, for
    /// [`graceful_shutdown_timeout`](ControllerConfig::graceful_shutdown_timeout) at most. Then it drops them. One that holds its
    /// thread ends at its next await, and the run not before.
    ///
    /// For leader election, give it to a [`Manager`](crate::Manager).
    ///
    /// It can be run again afterwards, with a new queue: every object is reconciled anew, and so is each key that this run has
    /// left undone.
    ///
    /// # Errors
    ///
    /// A source could not be completed, has ended or panicked; the queue's setup or order panicked; a worker did, outside of a
    /// reconciliation; the stop took too long; or it runs already.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run. Its reconciliations are tasks, which the runtime drops as soon as it gets to it; one that
    /// another thread is polling just then goes on until its next await. The next run waits for them.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ControllerError> {
        self.run_within(&Stop::new(stop, self.inner.config.graceful_shutdown_timeout), None).await
    }

    /// As [`Controller::run`], with a stop that others share, which a failure gives; and with each reconciliation inside
    /// `leadership`: it is dropped when the term is over.
    pub(crate) async fn run_within(&self, stop: &Stop, leadership: Option<&Leadership>) -> Result<(), ControllerError> {
        let panic = OnceLock::new();
        let ended = Run::begin(&self.inner, &panic)?.work(stop, leadership).await;
        ended.and(panic.into_inner().map_or(Ok(()), |panic| Err(self.panicked("the end of its queue", panic))))
    }

    /// Begins to fill the caches, so that a later run can begin at once. Without effect if they are filled already.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, and if a source does.
    pub fn warm_up(&self) {
        self.inner.sources.iter().for_each(|named| named.source.warm_up());
    }

    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The sources that are not complete, each with what keeps it from being so. While there are any, nothing is reconciled.
    pub fn unsynced(&self) -> Vec<(String, String)> {
        let sources = self.inner.sources.iter();
        let problem = |source: &Named| source.problem().unwrap_or_else(|panic| Some(format!("it panicked: {panic}")));
        sources.filter_map(|source| Some((source.name().to_owned(), problem(source)?))).collect()
    }

    pub(crate) fn panicked(&self, part: &str, panic: String) -> ControllerError {
        self.inner.panicked(part, panic)
    }

    /// The keys that are being reconciled. None: it does not run.
    pub(crate) fn in_flight(&self) -> Option<Vec<ObjectKey>> {
        let requests = self.inner.requests()?;
        let keys = requests.queue().snapshot();
        Some(keys.into_iter().filter(|state| state.in_flight).map(|state| state.key).collect())
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
    /// A handle, so that the queue is never locked under our lock.
    fn requests(&self) -> Option<Requests> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Requests>> {
        // It is only ever replaced as a whole.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn panicked(&self, part: &str, panic: String) -> ControllerError {
        ControllerError::Panicked { controller: self.name.clone(), part: part.into(), panic }
    }

    fn source_panicked(&self, source: usize, panic: String) -> ControllerError {
        self.panicked(&format!("its source {:?}", self.sources[source].name()), panic)
    }

    async fn sync(&self, syncs: Vec<Synced>) -> Result<(), ControllerError> {
        let limit = self.config.cache_sync_timeout;
        // What the clock cannot count is no limit.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        for (index, synced) in syncs.into_iter().enumerate() {
            let synced = match until {
                None => Some(caught(synced).await),
                Some(until) => timeout_at(until, caught(synced)).await.ok(),
            };
            let after = match synced {
                Some(Ok(true)) => continue,
                Some(Ok(false)) => None,
                Some(Err(panic)) => return Err(self.source_panicked(index, panic)),
                None => limit,
            };
            let source = &self.sources[index];
            let problem = source.problem().map_err(|panic| self.source_panicked(index, panic))?;
            return Err(ControllerError::NotSynced {
                controller: self.name.clone(),
                source_name: source.name().to_owned(),
                problem: problem.unwrap_or_else(|| "it has ended".into()),
                after,
            });
        }
        Ok(())
    }
}

/// One run, from its beginning until it is dropped.
struct Run<'a> {
    inner: &'a Inner,
    requests: Requests,
    order_panic: OrderPanic,
    /// Each ends with its source's number, and with what a panic said.
    feeds: JoinSet<(usize, Result<(), String>)>,
    workers: JoinSet<()>,
    _running: Running<'a>,
}

/// Keeps a second run from beginning, and the queue from being dropped elsewhere: its limiter, order and metrics are a user's.
struct Running<'a> {
    inner: &'a Inner,
    requests: Option<Requests>,
    /// What a panic said when the queue was dropped.
    panic: &'a OnceLock<String>,
}

impl<'a> Run<'a> {
    fn begin(inner: &'a Inner, panic: &'a OnceLock<String>) -> Result<Self, ControllerError> {
        if inner.is_running.swap(true, Ordering::AcqRel) {
            return Err(ControllerError::AlreadyRunning { controller: inner.name.clone() });
        }
        let mut running = Running { inner, requests: None, panic };
        let setup = catch(|| inner.config.queue_config());
        let (config, order_panic) = setup.map_err(|panic| inner.panicked("the setup of its queue", panic))?;
        let requests = Requests::new(&inner.name, config);
        running.requests = Some(requests.clone());
        *inner.lock() = Some(requests.clone());
        let (feeds, workers) = (JoinSet::new(), JoinSet::new());
        Ok(Self { inner, requests, order_panic, feeds, workers, _running: running })
    }

    /// Works until the stop, and ends after all tasks have.
    async fn work(mut self, stop: &Stop, leadership: Option<&Leadership>) -> Result<(), ControllerError> {
        let ended = self.reconcile(pin!(stop.given_under(leadership)), leadership).await;
        if ended.is_err() {
            stop.give();
        }
        // First of all, so that no worker takes another key.
        let drain = self.requests.queue().shut_down(ShutdownMode::FinishInFlight);
        self.feeds.abort_all();
        let report = drain.with_timeout(stop.left()).await;
        self.workers.abort_all();
        // A reconciliation that holds its thread cannot be dropped. As long as it does, whoever calls us may not go on either:
        // not to another run, and not to the release of the lease.
        self.inner.tasks.wait().await;
        ended.and(match report.complete {
            true => Ok(()),
            false => Err(ControllerError::StopTimedOut {
                controller: self.inner.name.clone(),
                in_flight: report.in_flight,
                after: stop.timeout(),
            }),
        })
    }

    async fn reconcile(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
        leadership: Option<&Leadership>,
    ) -> Result<(), ControllerError> {
        let inner = self.inner;
        tokio::select! {
            biased;
            () = &mut stopped => return Ok(()),
            // Those of a run that was dropped.
            () = inner.tasks.wait() => {}
        }
        let syncs = self.start_sources()?;
        tokio::select! {
            biased;
            () = &mut stopped => return Ok(()),
            fault = self.fault() => return fault,
            synced = inner.sync(syncs) => synced?,
        }
        let low = AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() };
        inner.left.take().into_iter().for_each(|key| self.requests.add_with(key, low));
        tracing::info!(controller = inner.name, "caches are complete; reconciling");
        for _ in 0..inner.config.max_concurrent_reconciles.max(1) {
            let worker = Worker {
                controller: inner.name.clone(),
                queue: self.requests.queue().clone(),
                reconciler: inner.reconciler.clone(),
                metrics: inner.metrics.clone(),
                left: inner.left.clone(),
                timeout: inner.config.reconcile_timeout,
                leadership: leadership.cloned(),
            };
            self.workers.spawn(inner.tasks.track_future(worker.run()));
        }
        tokio::select! {
            biased;
            () = &mut stopped => Ok(()),
            fault = self.fault() => fault,
        }
    }

    fn start_sources(&mut self) -> Result<Vec<Synced>, ControllerError> {
        let mut syncs = Vec::new();
        for (index, Named { name, source }) in self.inner.sources.iter().enumerate() {
            let unnamed = |panic: &String| self.inner.panicked("the name of a source", panic.clone());
            name.as_ref().map_err(unnamed)?;
            let started = catch(|| source.start(self.requests.clone()));
            let Feed { synced, run } = started.map_err(|panic| self.inner.source_panicked(index, panic))?;
            syncs.push(synced);
            let feed = async move {
                // A block of its own, so that a panic of its drop is caught as well.
                let run = async move {
                    run.await;
                };
                (index, caught(run).await)
            };
            self.feeds.spawn(self.inner.tasks.track_future(feed));
        }
        Ok(syncs)
    }

    /// Waits until something ends that should not.
    async fn fault(&mut self) -> Result<(), ControllerError> {
        let inner = self.inner;
        tokio::select! {
            biased;
            panic = self.order_panic.told() => Err(inner.panicked("the order of its queue", panic)),
            Some(ended) = self.feeds.join_next() => Err(match ended {
                Ok((index, Ok(()))) => ControllerError::SourceEnded {
                    controller: inner.name.clone(),
                    source_name: inner.sources[index].name().to_owned(),
                },
                Ok((index, Err(panic))) => inner.source_panicked(index, panic),
                Err(error) => inner.panicked("a source", why(error)),
            }),
            // One that ends without a panic has seen the end of the term before we did.
            Some(ended) = self.workers.join_next() => ended.map_err(|error| inner.panicked("a worker", why(error))),
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Whoever still holds the queue finds it closed.
        let report = self.requests.queue().shut_down(ShutdownMode::Abandon).wait(); // Which is over at once.
        self.inner.left.extend(report.queued.into_iter().chain(report.delayed));
        let requests = self.inner.lock().take();
        drop(requests);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Err(panic) = catch(|| drop(self.requests.take())) {
            tracing::error!(controller = self.inner.name, panic, "the queue panicked when it was dropped");
            // The one call.
            _ = self.panic.set(panic);
        }
        self.inner.is_running.store(false, Ordering::Release);
    }
}

/// What the panic said by which a task ended.
fn why(error: JoinError) -> String {
    error.try_into_panic().map_or_else(|error| error.to_string(), told)
}
