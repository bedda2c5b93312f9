//! Controllers, which reconcile the keys of a queue.

mod run;

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_meta::ObjectKey;
use pintle_metrics::{CatchPanic, Provider};
use pintle_workqueue::{Counts, KeyState};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::run::Run;
use crate::blocking::{Polls, Watchdog, Watched};
use crate::concurrency::Concurrency;
use crate::config::ControllerConfig;
use crate::error::{ControllerError, UnfinishedKeys};
use crate::history::Histories;
use crate::key::{RequestKey, text};
use crate::metrics::Metrics;
use crate::no_subscriber::NoSubscriberWarning;
use crate::panic::caught;
use crate::reconciler::AnyReconciler;
use crate::requests::{Queue, Requests};
use crate::source::{Named, Synced};
use crate::stop::Stop;

/// The time after which the controller logs a warning about unsynced caches. Without a tracing subscriber, the first
/// warning is printed to stderr.
const WARN_AFTER: Duration = Duration::from_secs(10);
/// The interval between further warnings about unsynced caches.
const WARN_AGAIN: Duration = Duration::from_secs(60);
/// The time for which a run waits for reconciliations of an earlier run if no cache sync timeout is configured.
const EARLIER_RUNS: Duration = Duration::from_secs(120);

/// Reconciles objects whenever they or related objects change.
///
/// Sources add keys to a queue. Workers take keys from the queue and call the reconciler. Reconciliations of the same
/// key never overlap, and at most [`max_concurrent_reconciles`](ControllerConfig::max_concurrent_reconciles)
/// reconciliations run at the same time. The first reconciliation starts after all caches have synced. The reconciler
/// is also called for deleted objects.
///
/// `K` is the key type. Controllers from [`Controller::of`] use each object's [`ObjectKey`]. For other key types, see
/// [`RequestKey`].
///
/// Clones refer to the same controller.
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
pub struct Controller<K = ObjectKey> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    name: String,
    config: ControllerConfig<K>,
    concurrency: Concurrency,
    sources: Vec<Named<K>>,
    reconciler: Arc<dyn AnyReconciler<K>>,
    metrics: Metrics,
    is_running: AtomicBool,
    requests: Requests<K>,
    polls: Arc<Polls<K>>,
    no_subscriber: Arc<NoSubscriberWarning>,
    tasks: TaskTracker,
}

impl<K: RequestKey> Controller<K> {
    pub(crate) fn new(
        requests: Requests<K>,
        mut config: ControllerConfig<K>,
        concurrency: Concurrency,
        mut sources: Vec<Named<K>>,
        reconciler: Arc<dyn AnyReconciler<K>>,
    ) -> Self {
        config.metrics = config.metrics.map(|provider| -> Arc<dyn Provider> {
            Arc::new(CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of a controller panicked and are disabled");
            }))
        });
        let tasks = TaskTracker::new();
        // Close the tracker, because `TaskTracker::wait` never returns for an open tracker. A closed tracker still
        // accepts new tasks.
        tasks.close();
        let name = requests.controller().to_owned();
        let metrics = Metrics::new(config.metrics.as_deref(), &name);
        sources.iter_mut().for_each(|source| source.attach(&requests));
        let polls = Arc::new(Polls::new(&name, config.blocked_after, metrics.clone()));
        let inner = Inner {
            name,
            config,
            concurrency,
            sources,
            reconciler,
            metrics,
            is_running: AtomicBool::new(false),
            requests,
            polls,
            no_subscriber: Arc::default(),
            tasks,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs the controller until the `stop` token is cancelled. After the stop request, the controller starts no new
    /// reconciliations and waits for running reconciliations. After
    /// [`graceful_shutdown_timeout`](ControllerConfig::graceful_shutdown_timeout), the controller drops the remaining
    /// reconciliations. A reconciliation that blocks its thread cannot be dropped. If a reconciliation still blocks its
    /// thread, the run returns an error that names the key.
    ///
    /// To use leader election, pass the controller to a [`Manager`](crate::Manager).
    ///
    /// A controller can be run again after a run has ended. Each run uses a new queue. Each run reconciles:
    ///
    /// - every object,
    /// - each key that the previous run did not finish,
    /// - each object that was deleted between the two runs. The controller starts to record deletions with the first
    ///   run or [`warm_up`](Self::warm_up), and remembers the newest 100,000 deleted objects until its last handle is
    ///   dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if:
    ///
    /// - a source cannot sync, has ended or has panicked,
    /// - user code of the queue has panicked: the [setup](ControllerConfig::queue), or an
    ///   [`Order`](pintle_workqueue::Order),
    /// - a worker has panicked outside of a reconciliation,
    /// - the controller did not stop within the timeout,
    /// - the controller is already running, or
    /// - a reconciliation of an earlier run still blocks its thread after the [sync
    ///   timeout](ControllerConfig::cache_sync_timeout), or after 2 minutes if no sync timeout is set.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the controller. Soon after the drop, the runtime drops the tasks of the running
    /// reconciliations. A task that another thread is polling runs until its next await. The next run of the controller
    /// waits until the tasks of earlier runs have ended.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ControllerError> {
        let _watchdog = Watchdog::start(vec![self.inner.polls.clone()], None);
        self.run_within(&Stop::new(stop.child_token(), self.inner.config.graceful_shutdown_timeout), None).await
    }

    /// Runs the controller like [`Controller::run`], with a stop signal that all controllers of a manager share. If
    /// this controller fails, it requests a stop, which also stops the other controllers. The controller drops running
    /// reconciliations when the `leadership` term ends.
    pub(crate) async fn run_within(&self, stop: &Stop, leadership: Option<&Leadership>) -> Result<(), ControllerError> {
        let panic = OnceLock::new();
        let ended = Run::begin(&self.inner, &panic)?.work(stop, leadership).await;
        ended.and(panic.into_inner().map_or(Ok(()), |panic| Err(self.panicked("dropping its queue", panic))))
    }

    /// Starts filling the caches, so that a later run can start immediately. This method has no effect if the caches
    /// are already filled.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime, or if a source panics.
    pub fn warm_up(&self) {
        self.inner.sources.iter().for_each(|named| named.source.warm_up());
    }

    /// Returns the controller's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the sources that have not synced, and the sources whose lists and watches have been failing for two
    /// minutes. Each pair contains the name of a source and the reason for its problem. The controller starts to
    /// reconcile after all sources have synced once.
    pub fn unsynced(&self) -> Vec<(String, String)> {
        self.sources().into_iter().filter_map(|(name, problem)| Some((name, problem?))).collect()
    }

    /// Returns the name of each source, in the order in which the sources were added. If a source is
    /// [unsynced](Self::unsynced), the second value of its pair is the reason.
    pub fn sources(&self) -> Vec<(String, Option<String>)> {
        let problem =
            |source: &Named<K>| source.problem().unwrap_or_else(|panic| Some(format!("the source panicked: {panic}")));
        self.inner.sources.iter().map(|source| (source.name().to_owned(), problem(source))).collect()
    }

    /// Returns the number of keys in each state. Returns `None` if the controller is not running, for example because
    /// this replica is not the leader.
    pub fn queue_counts(&self) -> Option<Counts> {
        self.with_queue(Queue::counts)
    }

    /// Returns the current limit on concurrent reconciliations.
    pub fn max_concurrent_reconciles(&self) -> usize {
        self.inner.concurrency.get()
    }

    /// Returns the keys whose reconciliations [block their thread](ControllerConfig::blocked_after), with the duration
    /// of each block.
    pub fn blocked_calls(&self) -> Vec<(K, Duration)> {
        let blocked = self.inner.polls.blocked().into_iter();
        blocked.map(|blocked| (K::clone(&blocked.key), blocked.since.elapsed())).collect()
    }

    pub(crate) fn panicked(&self, part: &str, panic: String) -> ControllerError {
        self.inner.panicked(part, panic)
    }

    pub(crate) fn blocked(&self) -> Option<String> {
        self.inner.polls.describe()
    }

    pub(crate) fn polls(&self) -> Arc<dyn Watched> {
        self.inner.polls.clone()
    }

    /// Returns a token that simulates a running task of the controller until the token is dropped.
    #[cfg(test)]
    pub(crate) fn blocked_task(&self) -> tokio_util::task::task_tracker::TaskTrackerToken {
        self.inner.tasks.token()
    }

    pub(crate) async fn ended(&self) {
        self.inner.tasks.wait().await;
    }

    /// Returns the error for reconciliations of an earlier run that still block their threads.
    pub(crate) fn still_blocked(&self, after: Duration) -> ControllerError {
        self.inner.still_blocked(after)
    }

    pub(crate) fn histories(&self) -> &Histories<K> {
        self.inner.requests.histories()
    }

    pub(crate) fn with_queue<R>(&self, read: impl FnOnce(&Queue<K>) -> R) -> Option<R> {
        self.inner.requests.with_queue(read)
    }

    pub(crate) fn unfinished(&self) -> Option<UnfinishedKeys> {
        let mut unfinished = UnfinishedKeys::default();
        for KeyState { key, in_flight, dirty, delay, .. } in self.with_queue(Queue::snapshot)? {
            if in_flight {
                unfinished.in_flight.push(text(&key));
            } else if dirty {
                unfinished.queued.push(text(&key));
            } else if delay.is_some() {
                unfinished.delayed.push(text(&key));
            }
        }
        Some(unfinished)
    }
}

pintle_meta::debug_struct!(Controller<K: RequestKey> |self| { name = self.inner.name, config = self.inner.config, .. });

impl<K: RequestKey> Inner<K> {
    async fn wait_for_previous_runs(&self) -> Result<(), ControllerError> {
        let limit = self.config.cache_sync_timeout.unwrap_or(EARLIER_RUNS);
        timeout(limit, self.tasks.wait()).await.map_err(|_| self.still_blocked(limit))
    }

    fn still_blocked(&self, after: Duration) -> ControllerError {
        let blocked = self.polls.describe().unwrap_or_else(|| "a source".into());
        ControllerError::Blocked { controller: self.name.clone(), blocked, after }
    }

    fn panicked(&self, part: &str, panic: String) -> ControllerError {
        ControllerError::Panicked { controller: self.name.clone(), part: part.into(), panic }
    }

    fn source_panicked(&self, source: usize, panic: String) -> ControllerError {
        self.panicked(&format!("its source {:?}", self.sources[source].name()), panic)
    }

    fn waits_for(&self, source: usize) -> String {
        let source = &self.sources[source];
        let problem = source.problem().unwrap_or_else(|panic| Some(format!("the source panicked: {panic}")));
        let problem = problem.unwrap_or_else(|| "its first list is being handled".into());
        format!("controller {:?} waits for its source {:?}: {problem}", self.name, source.name())
    }

    async fn sync(&self, syncs: Vec<Synced>) -> Result<(), ControllerError> {
        let limit = self.config.cache_sync_timeout;
        // If the addition overflows, wait without a deadline.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut warn_at = Instant::now() + WARN_AFTER;
        for (index, synced) in syncs.into_iter().enumerate() {
            let mut synced = pin!(caught(synced));
            let synced = loop {
                let wake = until.map_or(warn_at, |until| until.min(warn_at));
                match timeout_at(wake, &mut synced).await {
                    Ok(synced) => break Some(synced),
                    Err(_) if until.is_some_and(|until| until <= wake) => break None,
                    Err(_) => {}
                }
                warn_at = wake + WARN_AGAIN;
                let waits = self.waits_for(index);
                tracing::warn!("{waits}");
                self.no_subscriber.warn(|| waits);
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
                problem: problem.unwrap_or_else(|| "the source has ended".into()),
                after,
            });
        }
        Ok(())
    }
}
