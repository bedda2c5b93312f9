//! A watchdog thread for reconciliations that block their thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::exit;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Condvar, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pintle_meta::__private::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::key::{RequestKey, Text};
use crate::metrics::Metrics;
use crate::no_subscriber::with_current_subscriber;
use crate::report::{report, start_report};

/// The workers of one controller and their current polls. All runs of the controller share this list.
pub(crate) struct Polls<K> {
    controller: String,
    /// The time after which a poll counts as blocking.
    limit: Duration,
    metrics: Metrics,
    workers: Mutex<Vec<Weak<Poll<K>>>>,
}

pub(crate) struct Poll<K> {
    current: Mutex<CurrentPoll<K>>,
    metrics: Metrics,
}

struct CurrentPoll<K> {
    /// In an `Arc`, so that cloning the key under the lock runs no user code.
    key: Option<Arc<K>>,
    started_at: Option<Instant>,
    is_reported: bool,
}

pub(crate) struct Blocked<K> {
    pub(crate) key: Arc<K>,
    pub(crate) since: Instant,
}

impl<K: RequestKey> Polls<K> {
    pub(crate) fn new(controller: &str, limit: Duration, metrics: Metrics) -> Self {
        let limit = limit.max(Duration::from_millis(1));
        Self { controller: controller.into(), limit, metrics, workers: Mutex::default() }
    }

    pub(crate) fn add_worker(&self) -> Arc<Poll<K>> {
        let current = Mutex::new(CurrentPoll { key: None, started_at: None, is_reported: false });
        let poll = Arc::new(Poll { current, metrics: self.metrics.clone() });
        let mut workers = self.workers.lock();
        // Remove ended workers only when the vector is full, so that adding a worker is O(1) on average.
        if workers.len() == workers.capacity() {
            workers.retain(|worker| worker.strong_count() > 0);
        }
        workers.push(Arc::downgrade(&poll));
        poll
    }

    /// Returns the calls that have blocked their thread for at least `limit`.
    pub(crate) fn blocked(&self) -> Vec<Blocked<K>> {
        self.blocked_for(self.limit)
    }

    fn blocked_for(&self, limit: Duration) -> Vec<Blocked<K>> {
        let now = Instant::now();
        self.polls().iter().filter_map(|poll| poll.current.lock().blocked(limit, now)).collect()
    }

    fn polls(&self) -> Vec<Arc<Poll<K>>> {
        self.workers.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn new_reports(&self) -> Vec<Report> {
        let now = Instant::now();
        let new = self.polls().into_iter().filter_map(|poll| {
            let mut current = poll.current.lock();
            let found = current.blocked(self.limit, now).filter(|_| !current.is_reported);
            current.is_reported |= found.is_some();
            found
        });
        let reports = new.map(|Blocked { key, since }| {
            // Increment the gauge before the call can end, because its end decrements the gauge.
            self.metrics.blocked(1);
            let (controller, blocked_for) = (self.controller.clone(), now.duration_since(since));
            Box::new(move || {
                tracing::error!(
                    controller,
                    key = %Text(&*key),
                    ?blocked_for,
                    "a reconciliation blocks its thread, so it cannot time out or be dropped; move blocking work to spawn_blocking"
                );
            }) as Report
        });
        reports.collect()
    }

    pub(crate) fn describe(&self) -> Option<String> {
        let blocked = self.blocked();
        let blocked: Vec<_> = blocked.iter().map(|blocked| blocked.describe(Instant::now())).collect();
        (!blocked.is_empty()).then(|| blocked.join("; "))
    }
}

/// Logs a blocked call. The logger is user code and may block.
pub(crate) type Report = Box<dyn FnOnce() + Send>;

/// The methods of [`Polls`] that do not depend on the key type.
pub(crate) trait Watched: Send + Sync {
    fn limit(&self) -> Duration;

    fn has_blocked(&self) -> bool;

    fn new_reports(&self) -> Vec<Report>;

    fn describe_blocked_for(&self, limit: Duration) -> Vec<String>;
}

impl<K: RequestKey> Watched for Polls<K> {
    fn limit(&self) -> Duration {
        self.limit
    }

    fn has_blocked(&self) -> bool {
        let now = Instant::now();
        let is_blocked = |since| now.duration_since(since) >= self.limit;
        self.polls().iter().any(|poll| poll.current.lock().started_at.is_some_and(is_blocked))
    }

    fn new_reports(&self) -> Vec<Report> {
        Self::new_reports(self)
    }

    fn describe_blocked_for(&self, limit: Duration) -> Vec<String> {
        let now = Instant::now();
        let blocked = self.blocked_for(limit).into_iter();
        blocked.map(|blocked| format!("controller {:?}: {}", self.controller, blocked.describe(now))).collect()
    }
}

impl<K: RequestKey> Blocked<K> {
    fn describe(&self, now: Instant) -> String {
        format!(
            "the call for {} has blocked its thread for {} s",
            Text(&*self.key),
            now.duration_since(self.since).as_secs()
        )
    }
}

impl<K> CurrentPoll<K> {
    fn blocked(&self, limit: Duration, now: Instant) -> Option<Blocked<K>> {
        let since = self.started_at.filter(|since| now.duration_since(*since) >= limit)?;
        Some(Blocked { key: self.key.clone()?, since })
    }
}

impl<K: RequestKey> Poll<K> {
    /// Runs a call, and records the start and end of each poll of its future.
    pub(crate) async fn watch<F: Future>(&self, key: Arc<K>, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _polling = self.enter(&key);
            call.as_mut().poll(context)
        })
        .await
    }

    fn enter(&self, key: &Arc<K>) -> Polling<'_, K> {
        let mut current = self.current.lock();
        let old_key = match &current.key {
            Some(old_key) if Arc::ptr_eq(old_key, key) => None,
            _ => current.key.replace(key.clone()),
        };
        current.started_at = Some(Instant::now());
        drop(current);
        let polling = Polling(self);
        // Release the lock before dropping the key, because the key's `Drop` may run user code.
        drop(old_key);
        polling
    }
}

struct Polling<'a, K: RequestKey>(&'a Poll<K>);

impl<K: RequestKey> Drop for Polling<'_, K> {
    fn drop(&mut self) {
        let mut current = self.0.current.lock();
        let since = current.started_at.take();
        let was_reported = std::mem::take(&mut current.is_reported);
        let key = if was_reported { current.key.clone() } else { None };
        drop(current);
        if let (Some(key), Some(since)) = (key, since) {
            self.0.metrics.blocked(-1);
            tracing::warn!(key = %Text(&*key), blocked_for = ?since.elapsed(), "a reconciliation no longer blocks its thread");
        }
    }
}

/// A thread that detects blocked calls. A tokio task could not do this, because it does not run while the runtime's
/// threads are blocked. Dropping the `Watchdog` stops this thread.
pub(crate) struct Watchdog(Arc<Shared>);

struct Shared {
    controllers: Mutex<Vec<Arc<dyn Watched>>>,
    runtime: Option<Handle>,
    exit: Option<Exit>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

const SECOND: Duration = Duration::from_secs(1);

/// The maximum number of pending reports while the logger blocks.
const MAX_WAITING: usize = 100;

pub(crate) struct Exit {
    pub(crate) stop: CancellationToken,
    pub(crate) after: Duration,
}

impl Watchdog {
    /// Starts a watchdog for the given controllers. If `exit` is set, the watchdog exits the process when calls still
    /// block their threads after the stop timeout. The watchdog exits the process even after it was dropped, because
    /// nothing else can end such calls.
    pub(crate) fn start(controllers: Vec<Arc<dyn Watched>>, exit: Option<Exit>) -> Self {
        let tick = controllers.iter().map(|polls| polls.limit() / 2).min().unwrap_or(SECOND);
        let tick = if exit.is_some() { tick.min(SECOND) } else { tick };
        let (controllers, has_ended) = (Mutex::new(controllers), Mutex::new(false));
        let runtime = Handle::try_current().ok();
        let shared = Arc::new(Shared { controllers, runtime, exit, has_ended, ended: Condvar::new() });
        let watched = shared.clone();
        let run = with_current_subscriber(move || watched.run(tick));
        if let Err(error) = thread::Builder::new().name("pintle-watchdog".into()).spawn(run) {
            tracing::warn!(%error, "cannot start the thread that detects blocked reconciliations");
        }
        Self(shared)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let ends_process = self.0.exit.as_ref().is_some_and(|exit| exit.stop.is_cancelled());
        if !ends_process || self.0.held().is_empty() {
            // Drop the controllers on the calling thread, because their metrics are user code.
            drop(std::mem::take(&mut *self.0.controllers.lock()));
        }
        *self.0.has_ended.lock() = true;
        self.0.ended.notify_all();
    }
}

impl Shared {
    fn run(&self, tick: Duration) {
        let (mut stopped, mut running, mut reports) = (None, None::<Receiver<()>>, Vec::new());
        let mut woken = None;
        let mut has_ended = self.has_ended.lock();
        loop {
            if let Some(exit) = self.exit.as_ref().filter(|exit| exit.stop.is_cancelled()) {
                let stopped = *stopped.get_or_insert_with(Instant::now);
                // Wait longer than the stop timeout, so that `main` has time to exit first.
                if stopped.elapsed() >= exit.after.saturating_add((exit.after / 10).min(Duration::from_secs(2))) {
                    self.end_process(exit);
                }
            }
            if *has_ended && (stopped.is_none() || self.held().is_empty()) {
                return;
            }
            drop(has_ended);
            self.wake_another_thread(&mut woken);
            reports.extend(self.controllers().iter().flat_map(|polls| polls.new_reports()));
            reports.truncate(MAX_WAITING);
            let is_reporting = running.as_ref().is_some_and(|ended| ended.try_recv() == Err(TryRecvError::Empty));
            if !reports.is_empty() && !is_reporting {
                // Do not wait for the reports, because this thread must exit the process even if a report blocks.
                let reports = std::mem::take(&mut reports);
                running = Some(start_report(|| reports.into_iter().for_each(|report| report())));
            }
            has_ended = self.has_ended.lock();
            if !*has_ended || stopped.is_some() {
                let waited = self.ended.wait_timeout(has_ended, if stopped.is_some() { tick / 10 } else { tick });
                has_ended = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Wakes another thread of the runtime if a call blocks one of the runtime's threads. If the blocked thread was
    /// responsible for the runtime's timers and sockets, tokio does not by itself let another thread take over.
    ///
    /// `woken` is the task that the previous call of this method spawned. While `woken` waits for a thread, this method
    /// spawns no other task.
    fn wake_another_thread(&self, woken: &mut Option<JoinHandle<()>>) {
        if let Some(runtime) = &self.runtime
            && woken.as_ref().is_none_or(JoinHandle::is_finished)
            && self.controllers().iter().any(|polls| polls.has_blocked())
        {
            *woken = Some(runtime.spawn(async {}));
        }
    }

    fn controllers(&self) -> Vec<Arc<dyn Watched>> {
        self.controllers.lock().clone()
    }

    /// Describes the calls that still block their threads, including the controllers' names.
    fn held(&self) -> Vec<String> {
        const HELD: Duration = Duration::from_millis(100);
        let controllers = self.controllers();
        controllers.iter().flat_map(|polls| polls.describe_blocked_for(HELD.min(polls.limit()))).collect()
    }

    #[expect(clippy::print_stderr, reason = "the process exits, and its logs may go nowhere")]
    fn end_process(&self, exit_after: &Exit) {
        let held = self.held();
        if held.is_empty() {
            return;
        }
        let blocked = held.join("; ");
        let after = exit_after.after;
        report(move || {
            eprintln!("pintle: the stop timed out after {after:?} with blocked calls; exiting the process: {blocked}");
            tracing::error!(?after, "the stop timed out with blocked calls; exiting the process: {blocked}");
        });
        exit(1);
    }
}
