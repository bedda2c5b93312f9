//! The handle through which sources add keys to a controller's queue.

use std::fmt;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{AddOptions, Added, DelayKind, WorkQueue};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::attempts::{Attempts, ChangeAction, EARLY_RETRY, OwnWrite, Retry};
use crate::config::LOW_PRIORITY;
use crate::history::{CauseReason, Histories};
use crate::kept::{Kept, MAX_KEPT, Origin};
use crate::key::RequestKey;
use crate::panic::catch;

pub(crate) type Queue<K> = WorkQueue<K, TokioClock>;

/// Adds keys to a controller's queue. Clones add keys to the same controller. `K` is the key type: see [`RequestKey`].
///
/// While the controller is not running, it stores up to 100,000 different added keys for its next run. If more keys are
/// added, the controller drops the oldest keys and logs a warning.
///
/// # Examples
///
/// ```
/// use std::{future, time::Duration};
///
/// use pintle_controller::{Action, Controller, Feed, LOW_PRIORITY, ReconcileRequest, Requests, Source};
/// use pintle_meta::ObjectKey;
/// use pintle_workqueue::AddOptions;
/// use tokio_util::sync::CancellationToken;
///
/// struct Startup;
///
/// impl Source for Startup {
///     fn name(&self) -> &str {
///         "startup"
///     }
///
///     fn start(&self, requests: Requests) -> Feed {
///         let run = async move {
///             requests.add(ObjectKey::new("team-a", "now"));
///             let low = AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() };
///             requests.add_with(ObjectKey::new("team-a", "now-or-later"), low);
///             requests.add_after(ObjectKey::new("team-a", "later"), Duration::from_secs(60));
///             future::pending().await
///         };
///         Feed { synced: Box::pin(future::ready(true)), run: Box::pin(run) }
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("sites").source(Startup).reconciler(move |request: ReconcileRequest| {
///         println!("{}", request.key);
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Requests<K = ObjectKey> {
    shared: Arc<Shared<K>>,
}

pub(crate) type KeyFilter<K> = Arc<dyn Fn(&K) -> bool + Send + Sync>;

struct Shared<K> {
    controller: String,
    filter: Option<KeyFilter<K>>,
    /// Consistent even if a key's `Eq`, `Hash` or `Clone` panics.
    state: Mutex<State<K>>,
    /// The keys that are in flight or whose last reconciliation failed. The lock of `attempts` must be acquired before
    /// the queue's lock.
    attempts: Mutex<Attempts<K>>,
    histories: Histories<K>,
    synced: watch::Sender<bool>,
}

struct State<K> {
    /// The queue of the current run, or `None` between runs.
    queue: Option<Queue<K>>,
    /// The number of the current run, which distinguishes this run's queue from other queues.
    run: u64,
    is_closing: bool,
    kept: Kept<K>,
    /// Whether keys of events were dropped since a run last took the kept keys.
    has_dropped_events: bool,
    has_dropped_added: bool,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            queue: None,
            run: 0,
            is_closing: false,
            kept: Kept::default(),
            has_dropped_events: false,
            has_dropped_added: false,
        }
    }
}

impl<K> State<K> {
    fn is_open(&self) -> bool {
        self.queue.is_some() && !self.is_closing
    }
}

impl<K: RequestKey> Requests<K> {
    pub(crate) fn new(controller: &str, filter: Option<KeyFilter<K>>) -> Self {
        let (state, attempts, histories) = (Mutex::default(), Mutex::default(), Histories::default());
        let (controller, synced) = (controller.into(), watch::Sender::new(false));
        Self { shared: Arc::new(Shared { controller, filter, state, attempts, histories, synced }) }
    }

    pub(crate) fn controller(&self) -> &str {
        &self.shared.controller
    }

    fn accepts(&self, key: &K) -> bool {
        self.shared.filter.as_ref().is_none_or(|filter| filter(key))
    }

    /// Queues `key`. The next free worker reconciles the key. Adding a key that is already queued has no effect. A key
    /// that is added during its reconciliation is reconciled once more.
    pub fn add(&self, key: K) {
        self.add_with(key, AddOptions::default());
    }

    /// Queues `key` after the delay `after`. Adding the key without a delay cancels the delay only if a retry of the
    /// key is pending. If the key has several delays, including a requeue or a retry, only the earliest delay applies.
    /// If the controller is not running, the key is reconciled at the start of the controller's next run.
    pub fn add_after(&self, key: K, after: Duration) {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() });
    }

    /// Queues `key` with options such as a priority. Priorities have an effect only if the queue's order supports them.
    pub fn add_with(&self, key: K, options: AddOptions) {
        if !self.accepts(&key) {
            return;
        }
        self.histories().cause(&key, CauseReason::Program);
        _ = self.shared.attempts.lock().change(&key, OwnWrite::Impossible, Instant::now());
        _ = self.enqueue(key, options);
    }

    pub(crate) fn tick(&self, key: K) {
        self.change(key, CauseReason::Timer, LOW_PRIORITY, OwnWrite::Possible);
    }

    /// Queues `key` because of a change. A change that may be the failed reconciliation's write can shorten the backoff
    /// of the key, but does not end it.
    pub(crate) fn change(&self, key: K, reason: CauseReason, priority: i32, own_write: OwnWrite) {
        if !self.accepts(&key) {
            return;
        }
        self.histories().cause(&key, reason);
        let action = self.shared.attempts.lock().change(&key, own_write, Instant::now());
        let options = AddOptions { priority, ..AddOptions::default() };
        match action {
            ChangeAction::Add => _ = self.enqueue(key, options),
            ChangeAction::AddRateLimited => _ = self.enqueue(key, AddOptions { rate_limited: true, ..options }),
            ChangeAction::RetryEarly => self.shorten_backoff(key, priority),
            ChangeAction::Wait => {}
        }
    }

    /// Adds the key to the queue of the current run, and returns the result of the queue. Between runs, it keeps the
    /// key for the next run and returns `None`.
    fn enqueue(&self, key: K, options: AddOptions) -> Option<Added> {
        loop {
            let (queue, run) = {
                let state = self.shared.state.lock();
                match &state.queue {
                    None => {
                        self.keep_added(state, key, options.priority);
                        return None;
                    }
                    Some(queue) => (queue.clone(), state.run),
                }
            };
            let added = queue.add_with(key.clone(), options);
            self.drop_queue(queue);
            if added != Added::ShutDown {
                return Some(added);
            }
            let state = self.shared.state.lock();
            if state.run == run {
                self.keep_added(state, key, options.priority);
                return None;
            }
        }
    }

    /// Shortens the retry delay of a key, because a change arrived during the failed reconciliation.
    pub(crate) fn retry_early(&self, key: K, priority: i32) {
        if self.shared.attempts.lock().may_retry_early(&key) {
            self.shorten_backoff(key, priority);
        }
    }

    fn shorten_backoff(&self, key: K, priority: i32) {
        // If the current delay is already shorter than [`EARLY_RETRY`], `enqueue` keeps the delay. If the retry is
        // already queued, `enqueue` drops this delay, unless the queue is configured with another policy than `Absorb`
        // for retries. Neither case counts as an early retry.
        let early = AddOptions { priority, after: Some(EARLY_RETRY), kind: DelayKind::Retry, ..AddOptions::default() };
        if self.enqueue(key.clone(), early) == Some(Added::Scheduled) {
            self.shared.attempts.lock().retried_early(&key);
        }
    }

    /// Keeps the key of an event for the next run. If the next run has already started and may have taken the kept
    /// keys, adds the key to this run's queue instead.
    pub(crate) fn keep_event(&self, key: K, reason: CauseReason) {
        if !self.accepts(&key) {
            return;
        }
        self.histories().cause(&key, reason);
        let mut state = self.shared.state.lock();
        if state.is_open() {
            drop(state);
            return self.add_with(key, AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() });
        }
        let has_dropped = state.kept.insert(key, LOW_PRIORITY, Origin::Event, MAX_KEPT);
        let is_first = has_dropped && !std::mem::replace(&mut state.has_dropped_events, true);
        drop(state);
        if is_first {
            let (controller, most) = (&self.shared.controller, MAX_KEPT);
            tracing::info!(
                controller,
                most,
                "too many deleted objects for the standby to remember; dropping the oldest"
            );
        }
    }

    fn keep_added(&self, mut state: MutexGuard<'_, State<K>>, key: K, priority: i32) {
        let has_dropped = state.kept.insert(key, priority, Origin::Program, MAX_KEPT);
        let is_first = has_dropped && !std::mem::replace(&mut state.has_dropped_added, true);
        drop(state);
        if is_first {
            let (controller, most) = (&self.shared.controller, MAX_KEPT);
            tracing::warn!(
                controller,
                most,
                "too many keys were added while the controller does not run; dropping the oldest"
            );
        }
    }

    pub(crate) fn keep(&self, keys: impl IntoIterator<Item = K>) {
        let mut state = self.shared.state.lock();
        for key in keys {
            self.histories().cause(&key, CauseReason::Unfinished);
            state.kept.insert(key, LOW_PRIORITY, Origin::Unfinished, MAX_KEPT);
        }
    }

    pub(crate) fn histories(&self) -> &Histories<K> {
        &self.shared.histories
    }

    pub(crate) fn take_kept(&self) -> Vec<(K, i32)> {
        let mut state = self.shared.state.lock();
        (state.has_dropped_events, state.has_dropped_added) = (false, false);
        state.kept.take()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.state.lock().is_open()
    }

    pub(crate) fn stop_taking_keys(&self) {
        self.shared.state.lock().is_closing = true;
    }

    pub(crate) fn mark_synced(&self) {
        self.shared.synced.send_replace(true);
    }

    pub(crate) async fn synced(&self) {
        _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    pub(crate) fn open(&self, queue: Queue<K>) {
        self.shared.attempts.lock().clear();
        self.shared.synced.send_replace(false);
        let mut state = self.shared.state.lock();
        state.run += 1;
        state.is_closing = false;
        let before = state.queue.replace(queue);
        drop(state);
        drop(before);
    }

    pub(crate) fn close(&self) -> Option<Queue<K>> {
        let queue = self.shared.state.lock().queue.take();
        self.shared.attempts.lock().clear();
        queue
    }

    pub(crate) fn with_queue<R>(&self, read: impl FnOnce(&Queue<K>) -> R) -> Option<R> {
        let queue = self.shared.state.lock().queue.clone()?;
        let result = read(&queue);
        self.drop_queue(queue);
        Some(result)
    }

    pub(crate) fn begin(&self, key: &K) {
        self.shared.attempts.lock().begin(key);
    }

    pub(crate) fn succeed(&self, key: &K) {
        self.shared.attempts.lock().end(key);
    }

    /// Records that the key's last reconciliation failed. Removes the key from the queue, unless an urgent change has
    /// arrived since the reconciliation began. Returns `true` if the key was removed.
    pub(crate) fn fail(&self, queue: &Queue<K>, key: &K, retry: Retry) -> bool {
        let mut attempts = self.shared.attempts.lock();
        // Hold the lock of `attempts` for both steps, so that no urgent change arrives in between.
        attempts.fail(key, retry, Instant::now()) && queue.remove(key)
    }

    /// Delays the retry of a failed key by at least `after`, unless an urgent change has arrived. The caller must have
    /// added the key again while it was in flight.
    pub(crate) fn postpone(&self, queue: &Queue<K>, key: &K, after: Duration) -> Added {
        let attempts = self.shared.attempts.lock();
        // Hold the lock of `attempts` for all steps, so that no urgent change arrives in between.
        if attempts.is_urgent(key) || queue.postpone(key, after) || !queue.remove(key) {
            return Added::Scheduled;
        }
        // The key is already queued, because the rate limiter returned no delay.
        queue.replace_after(key.clone(), after, DelayKind::Retry)
    }

    /// Drops a queue handle and logs a panic. Dropping the last handle also drops the user's order and limiter, which
    /// may panic.
    fn drop_queue(&self, queue: Queue<K>) {
        if let Err(panic) = catch(|| drop(queue)) {
            tracing::error!(controller = self.shared.controller, panic, "the queue panicked when it was dropped");
        }
    }

    pub(crate) fn same_as(&self, other: &WeakRequests<K>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.shared), other.0.as_ptr())
    }

    pub(crate) fn downgrade(&self) -> WeakRequests<K> {
        WeakRequests(Arc::downgrade(&self.shared))
    }
}

pub(crate) struct WeakRequests<K>(Weak<Shared<K>>);

impl<K> WeakRequests<K> {
    pub(crate) fn upgrade(&self) -> Option<Requests<K>> {
        self.0.upgrade().map(|shared| Requests { shared })
    }
}

impl<K> fmt::Debug for Requests<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.state.lock().queue.clone();
        f.debug_struct("Requests").field("controller", &self.shared.controller).field("queue", &queue).finish()
    }
}

impl<K> fmt::Debug for WeakRequests<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upgrade().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use pintle_workqueue::{QueueConfig, ShutdownMode};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn queue() -> Queue<ObjectKey> {
        Queue::new(QueueConfig::new(TokioClock))
    }

    /// A source reads an event between two runs, but its handler returns the key only after the next run has started.
    #[tokio::test(start_paused = true)]
    async fn event_key_goes_to_a_run_that_opened_meanwhile() {
        let (requests, queue) = (Requests::new("c", None), queue());
        requests.open(queue.clone());
        assert!(requests.take_kept().is_empty());
        requests.keep_event(key("deleted"), CauseReason::Program);
        assert_eq!((queue.len(), requests.take_kept().len()), (1, 0));
    }

    /// A worker records a failure after the end of its run. In the next run, the key has no pending retry, so changes
    /// must be handled immediately.
    #[tokio::test(start_paused = true)]
    async fn run_does_not_wait_for_retries_of_another_run() {
        let (requests, first, second) = (Requests::new("c", None), queue(), queue());
        requests.open(first.clone());
        requests.begin(&key("x"));
        drop(requests.close());
        for retry in [Retry::AfterBackoff, Retry::AfterRequest, Retry::Never] {
            requests.fail(&first, &key("x"), retry);
            requests.open(second.clone());
            requests.change(key("x"), CauseReason::Program, 0, OwnWrite::Possible);
            assert_eq!(second.len(), 1, "{retry:?}");
            second.remove(&key("x"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_winds_down_is_not_open() {
        let (requests, queue) = (Requests::new("c", None), queue());
        assert!(!requests.is_open());
        requests.open(queue.clone());
        assert!(requests.is_open());
        requests.stop_taking_keys();
        drop(queue.shut_down(ShutdownMode::FinishInFlight));
        assert!(!requests.is_open());
        requests.keep_event(key("deleted"), CauseReason::Program);
        assert_eq!(requests.take_kept(), [(key("deleted"), LOW_PRIORITY)]);
        requests.open(self::queue());
        assert!(requests.is_open());
    }
}
