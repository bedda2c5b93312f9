//! Workers, which take keys from the queue and call the reconciler.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pintle_leaderelect::Leadership;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{AddOptions, Added, DelayKind, WorkItem};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;
use tracing::field::Empty;

use crate::attempts::Retry;
use crate::blocking::Poll;
use crate::history::{CauseReason, LastCall};
use crate::key::{RequestKey, Text};
use crate::metrics::{Metrics, Outcome};
use crate::no_subscriber::NoSubscriberWarning;
use crate::panic::{catch, caught};
use crate::reconciler::{Action, AnyReconciler, ReconcileError, ReconcileRequest};
use crate::requests::{Queue, Requests};

/// Takes keys from the queue and reconciles them one at a time, until the queue is shut down.
pub(crate) struct Worker<K> {
    pub(crate) controller: String,
    pub(crate) queue: Queue<K>,
    pub(crate) reconciler: Arc<dyn AnyReconciler<K>>,
    pub(crate) requests: Requests<K>,
    pub(crate) metrics: Metrics,
    pub(crate) poll: Arc<Poll<K>>,
    pub(crate) no_subscriber: Arc<NoSubscriberWarning>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) leadership: Option<Leadership>,
    /// The index of this worker, which ends when the concurrency limit is lowered to this index or below.
    pub(crate) index: usize,
    pub(crate) limit: watch::Receiver<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerEnd {
    /// The queue was shut down, or the leadership term ended.
    Stopped,
    /// The concurrency limit was lowered to the worker's index or below.
    Excess { index: usize },
}

/// The end of a reconciliation.
struct Conclusion<K: Clone> {
    is_done_or_queued: bool,
    /// The item, unless its key was marked as done.
    item: Option<WorkItem<K, TokioClock>>,
}

impl<K: Clone> From<bool> for Conclusion<K> {
    fn from(is_done_or_queued: bool) -> Self {
        Self { is_done_or_queued, item: None }
    }
}

enum CallResult {
    Returned(Result<Action, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

/// The number of consecutive conflicts after which the controller logs warnings.
const CONFLICTS_BEFORE_WARNING: u32 = 10;

/// The longest delay that a server or reconciler can request, which is also the longest delay of the default limiter.
const LONGEST_DELAY: Duration = Duration::from_secs(1_000);

/// The duration of a call after which the key's backoff is reset, as kubelet does for a container. Without this reset,
/// a service that fails once a day would wait longer after each of its failures.
const RESETS_BACKOFF: Duration = Duration::from_secs(600);

/// The retry delay after a panic in the rate limiter.
const DELAY_WITHOUT_LIMITER: Duration = Duration::from_secs(60);

impl<K: RequestKey> Worker<K> {
    pub(crate) async fn run(self) -> WorkerEnd {
        // The item of the last call, whose key is still in flight. `next` marks this key as done and gets the next key,
        // and takes the lock of the queue only once.
        let mut finished = None;
        let end = self.work(&mut finished).await;
        if let Err(panic) = catch(|| drop(finished)) {
            self.log_panic_of_done(&panic);
        }
        end
    }

    async fn work(&self, finished: &mut Option<WorkItem<K, TokioClock>>) -> WorkerEnd {
        let (index, mut limit) = (self.index, self.limit.clone());
        while self.may_work() {
            if *limit.borrow() <= index {
                return WorkerEnd::Excess { index };
            }
            let item = tokio::select! {
                biased;
                item = self.next(finished.take()) => item,
                Ok(_) = limit.wait_for(|limit| *limit <= index) => return WorkerEnd::Excess { index },
            };
            let Some(item) = item else { break };
            let (key, priority) = (item.key().clone(), item.priority());
            let in_progress = KeyInProgress::new(&self.requests, key.clone());
            let conclusion = caught(self.process(item)).await;
            let conclusion = conclusion.unwrap_or_else(|panic| self.put_back(key, priority, &panic).into());
            if conclusion.is_done_or_queued {
                in_progress.finish();
            }
            *finished = conclusion.item;
        }
        WorkerEnd::Stopped
    }

    /// Marks the key of `finished` as done, and waits for the next key.
    async fn next(&self, finished: Option<WorkItem<K, TokioClock>>) -> Option<WorkItem<K, TokioClock>> {
        if let Some(item) = finished {
            match caught(item.next()).await {
                Ok(next) => return next,
                Err(panic) => self.log_panic_of_done(&panic),
            }
        }
        self.queue.get().await
    }

    /// Logs a panic of user code that the queue called, such as the metrics provider. The key is done.
    fn log_panic_of_done(&self, panic: &str) {
        tracing::error!(controller = self.controller, panic, "panic while a key was marked as done");
    }

    fn may_work(&self) -> bool {
        self.leadership.as_ref().is_none_or(|leadership| leadership.check().is_ok())
    }

    async fn process(&self, item: WorkItem<K, TokioClock>) -> Conclusion<K> {
        let span =
            tracing::info_span!("reconcile", controller = self.controller, key = %Text(item.key()), cause = Empty);
        if !span.is_disabled()
            && let Some(history) = self.requests.histories().get(item.key())
            && let Some(cause) = history.causes.back()
        {
            span.record("cause", tracing::field::display(&cause.reason));
        }
        self.reconcile(item).instrument(span).await
    }

    async fn reconcile(&self, item: WorkItem<K, TokioClock>) -> Conclusion<K> {
        let _active = self.metrics.active();
        let start = Instant::now();
        // Read the system clock here, because a time computed from `start` would be wrong if a test has paused the
        // clock.
        let at = SystemTime::now();
        let request = ReconcileRequest {
            key: item.key().clone(),
            failures: item.num_requeues(),
            leadership: self.leadership.clone(),
            histories: Some(self.requests.histories().clone()),
        };
        let ended = match &self.leadership {
            None => self.call(request).await,
            Some(leadership) => match leadership.run(self.call(request)).await {
                Ok(ended) => ended,
                Err(lost) => {
                    tracing::info!(%lost, "the reconciliation was dropped");
                    return false.into();
                }
            },
        };
        let took = start.elapsed();
        self.metrics.took(took);
        if took > RESETS_BACKOFF {
            self.forget(&item, Outcome::Success);
        }
        self.record_call(&item, &ended, at, took);
        self.conclude(item, ended)
    }

    async fn call(&self, request: ReconcileRequest<K>) -> CallResult {
        let key = Arc::new(request.key.clone());
        let call = caught(self.poll.watch(key, self.reconciler.reconcile(request)));
        let ended = match self.timeout {
            None => call.await,
            Some(timeout) => match tokio::time::timeout(timeout, call).await {
                Ok(ended) => ended,
                Err(_) => return CallResult::TimedOut(timeout),
            },
        };
        ended.map_or_else(CallResult::Panicked, CallResult::Returned)
    }

    /// Records the reconciliation in the key's history. If the key will be queued again, it also records the reason.
    fn record_call(&self, item: &WorkItem<K, TokioClock>, ended: &CallResult, at: SystemTime, took: Duration) {
        let error = match ended {
            CallResult::Returned(Ok(_)) => None,
            // Format the error without holding a lock, because its `Display` may panic.
            CallResult::Returned(Err(error)) => Some(error.to_string()),
            CallResult::Panicked(panic) => Some(format!("panic: {panic}")),
            CallResult::TimedOut(timeout) => Some(format!("timed out after {timeout:?}")),
        };
        let histories = self.requests.histories();
        let failures = if error.is_some() { item.num_requeues() + 1 } else { 0 };
        let reason = match (ended, &error) {
            (CallResult::Returned(Ok(action)), _) => action.delay().map(|after| CauseReason::Requeue { after }),
            (CallResult::Returned(Err(error)), _) if error.is_terminal() => None,
            (_, error) => error.clone().map(|error| CauseReason::Retry { error }),
        };
        histories.called(item.key(), LastCall { at, took, error, failures });
        if let Some(reason) = reason {
            histories.cause(item.key(), reason);
        }
    }

    fn conclude(&self, item: WorkItem<K, TokioClock>, ended: CallResult) -> Conclusion<K> {
        let is_queued = match ended {
            CallResult::Returned(Ok(action)) => {
                return Conclusion { is_done_or_queued: self.succeed(&item, action), item: Some(item) };
            }
            CallResult::Returned(Err(error)) => self.fail(item, &error),
            CallResult::Panicked(panic) => {
                tracing::error!(panic, "the reconciler panicked");
                self.retry(item, Outcome::Panic, None)
            }
            CallResult::TimedOut(timeout) => {
                tracing::warn!(?timeout, "reconciliation timed out");
                self.retry(item, Outcome::Timeout, None)
            }
        };
        is_queued.into()
    }

    /// Forgets the failures of a key, and requeues it if the action has a delay. Returns `true` unless the queue was shut
    /// down before a requeue.
    fn succeed(&self, item: &WorkItem<K, TokioClock>, action: Action) -> bool {
        self.requests.succeed(item.key());
        let requeue = AddOptions { priority: item.priority(), ..AddOptions::default() };
        let (outcome, added) = match action.delay() {
            None => (self.forget(item, Outcome::Success), None),
            // Do not reset the rate limiter, so that repeated requeues have increasing delays.
            Some(Duration::ZERO) => {
                let requeue = AddOptions { rate_limited: true, ..requeue };
                (Outcome::RequeueAfter, Some(self.queue.add_with(item.key().clone(), requeue)))
            }
            Some(delay) => {
                let outcome = self.forget(item, Outcome::RequeueAfter);
                let requeue = AddOptions { after: Some(delay), kind: DelayKind::Requeue, ..requeue };
                (outcome, Some(self.queue.add_with(item.key().clone(), requeue)))
            }
        };
        self.metrics.count(outcome);
        added != Some(Added::ShutDown)
    }

    fn fail(&self, item: WorkItem<K, TokioClock>, error: &ReconcileError) -> bool {
        // Format the error before logging it, because a log subscriber may hold a lock while it formats the fields.
        let text = error.to_string();
        let failures = item.num_requeues() + 1;
        if error.is_conflict() {
            match failures {
                ..CONFLICTS_BEFORE_WARNING => {
                    tracing::debug!(error = %text, failures, "conflict; reconciling again")
                }
                _ => {
                    tracing::warn!(error = %text, failures, "repeated conflicts: another writer may react to each change")
                }
            }
            return self.retry(item, Outcome::Conflict, error.delay());
        }
        self.no_subscriber.warn(|| format!("controller {:?} fails for {}: {text}", self.controller, Text(item.key())));
        if !error.is_terminal() {
            tracing::warn!(error = %text, failures, "reconciliation failed");
            return self.retry(item, Outcome::Error, error.delay());
        }
        tracing::error!(error = %text, "reconciliation failed with a terminal error; waiting for a change");
        // If the key was added during its reconciliation, a write of the reconciliation may be the cause. Therefore,
        // let the key wait for the rate limiter's delay, like a retry.
        let has_changed = self.requests.fail(&self.queue, item.key(), Retry::Never);
        let added = has_changed.then(|| item.retry());
        self.metrics.count(Outcome::Terminal);
        added != Some(Added::ShutDown)
    }

    /// Retries a key after the delay of the rate limiter or the requested delay `after`, whichever is longer.
    fn retry(&self, item: WorkItem<K, TokioClock>, outcome: Outcome, after: Option<Duration>) -> bool {
        let (key, priority) = (item.key().clone(), item.priority());
        let kind = if after.is_some() { Retry::AfterRequest } else { Retry::AfterBackoff };
        let has_changed = self.requests.fail(&self.queue, &key, kind);
        let added = match after {
            None => {
                let added = item.retry();
                if has_changed {
                    self.requests.retry_early(key, priority);
                }
                added
            }
            Some(after) => {
                let retry = AddOptions { priority, rate_limited: true, ..AddOptions::default() };
                let added = self.queue.add_with(key.clone(), retry);
                // No worker can take this key before `postpone` is called, because the key is in flight until the item
                // is dropped.
                match added {
                    Added::ShutDown => Added::ShutDown,
                    _ => self.requests.postpone(&self.queue, &key, after.min(LONGEST_DELAY)),
                }
            }
        };
        self.metrics.count(outcome);
        added != Added::ShutDown
    }

    /// Resets a key's failure count. If the rate limiter panics, the outcome is a panic, and the key is not retried.
    fn forget(&self, item: &WorkItem<K, TokioClock>, outcome: Outcome) -> Outcome {
        match catch(|| self.queue.forget(item.key())) {
            Ok(()) => outcome,
            Err(panic) => {
                tracing::error!(panic, "the limiter panicked while forgetting a key");
                Outcome::Panic
            }
        }
    }

    /// Retries a key after a panic of user code other than the reconciler: the limiter, the error's `Display` or the
    /// future's `Drop`.
    fn put_back(&self, key: K, priority: i32, panic: &str) -> bool {
        let retry = AddOptions { priority, rate_limited: true, ..AddOptions::default() };
        let added = catch(|| self.queue.add_with(key.clone(), retry)).unwrap_or_else(|_| {
            let after = Some(DELAY_WITHOUT_LIMITER);
            let later = AddOptions { priority, after, kind: DelayKind::Retry, ..AddOptions::default() };
            self.queue.add_with(key.clone(), later)
        });
        self.metrics.count(Outcome::Panic);
        tracing::error!(controller = self.controller, key = %Text(&key), panic, "panic outside of the reconciler; retrying the key");
        added != Added::ShutDown
    }
}

/// A key that a worker is reconciling. If the `KeyInProgress` is dropped before [`finish`](Self::finish) is called, the
/// controller keeps the key for the next run.
struct KeyInProgress<'a, K: RequestKey> {
    requests: &'a Requests<K>,
    key: Option<K>,
}

impl<'a, K: RequestKey> KeyInProgress<'a, K> {
    fn new(requests: &'a Requests<K>, key: K) -> Self {
        requests.begin(&key);
        Self { requests, key: Some(key) }
    }

    fn finish(mut self) {
        self.key = None;
    }
}

impl<K: RequestKey> Drop for KeyInProgress<'_, K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.requests.succeed(&key);
            self.requests.keep([key]);
        }
    }
}
