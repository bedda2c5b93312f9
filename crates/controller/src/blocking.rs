//! A watchdog thread that detects reconciliations that block their thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::exit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pintle_meta::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::no_subscriber::with_current_subscriber;

/// The workers of one controller and the polls in progress. All runs of the controller share these workers.
pub(crate) struct Polls {
    controller: String,
    /// The time after which a poll counts as blocking its thread.
    limit: Duration,
    metrics: Metrics,
    workers: Mutex<Vec<Weak<Poll>>>,
}

/// The poll that a worker currently executes.
pub(crate) struct Poll {
    current: Mutex<Current>,
    metrics: Metrics,
}

#[derive(Default)]
struct Current {
    key: Option<ObjectKey>,
    since: Option<Instant>,
    /// Whether the watchdog has reported this poll.
    is_reported: bool,
}

/// A call of the reconciler that blocks its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) key: ObjectKey,
    pub(crate) since: Instant,
}

impl Polls {
    pub(crate) fn new(controller: &str, limit: Duration, metrics: Metrics) -> Self {
        let limit = limit.max(Duration::from_millis(1));
        Self { controller: controller.into(), limit, metrics, workers: Mutex::default() }
    }

    pub(crate) fn worker(&self) -> Arc<Poll> {
        let poll = Arc::new(Poll { current: Mutex::default(), metrics: self.metrics.clone() });
        let mut workers = lock(&self.workers);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&poll));
        poll
    }

    /// Returns the calls that have blocked their thread for at least the limit.
    pub(crate) fn blocked(&self) -> Vec<Blocked> {
        self.blocked_for(self.limit)
    }

    fn blocked_for(&self, limit: Duration) -> Vec<Blocked> {
        let now = Instant::now();
        self.polls().iter().filter_map(|poll| lock(&poll.current).blocked(limit, now)).collect()
    }

    fn polls(&self) -> Vec<Arc<Poll>> {
        lock(&self.workers).iter().filter_map(Weak::upgrade).collect()
    }

    /// Reports the calls that have started to block their thread since the last check.
    fn report_blocked(&self) {
        let now = Instant::now();
        for poll in self.polls() {
            let found = {
                let mut current = lock(&poll.current);
                let found = current.blocked(self.limit, now).filter(|_| !current.is_reported);
                current.is_reported |= found.is_some();
                found
            };
            let Some(Blocked { key, since }) = found else { continue };
            self.metrics.blocked(1);
            let (controller, blocked_for) = (&self.controller, now.duration_since(since));
            tracing::error!(
                controller,
                %key,
                ?blocked_for,
                "a reconciliation blocks its thread, so it cannot time out or be dropped; move blocking work to spawn_blocking"
            );
        }
    }

    /// Describes the blocked calls in one line.
    pub(crate) fn describe(&self) -> Option<String> {
        let blocked = self.blocked();
        let blocked: Vec<_> = blocked.iter().map(|blocked| blocked.describe(Instant::now())).collect();
        (!blocked.is_empty()).then(|| blocked.join("; "))
    }
}

impl Blocked {
    fn describe(&self, now: Instant) -> String {
        format!("the call for {} has blocked its thread for {} s", self.key, now.duration_since(self.since).as_secs())
    }
}

impl Current {
    fn blocked(&self, limit: Duration, now: Instant) -> Option<Blocked> {
        let since = self.since.filter(|since| now.duration_since(*since) >= limit)?;
        Some(Blocked { key: self.key.clone()?, since })
    }
}

impl Poll {
    /// Runs a call, and records when the call is being polled.
    pub(crate) async fn watch<F: Future>(&self, key: &ObjectKey, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _polling = self.enter(key);
            call.as_mut().poll(context)
        })
        .await
    }

    fn enter(&self, key: &ObjectKey) -> Polling<'_> {
        let mut current = lock(&self.current);
        if current.key.as_ref() != Some(key) {
            current.key = Some(key.clone());
        }
        current.since = Some(Instant::now());
        Polling(self)
    }
}

/// A poll in progress.
struct Polling<'a>(&'a Poll);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut current = lock(&self.0.current);
        let since = current.since.take();
        let was_reported = std::mem::take(&mut current.is_reported);
        let key = if was_reported { current.key.clone() } else { None };
        drop(current);
        if let (Some(key), Some(since)) = (key, since) {
            self.0.metrics.blocked(-1);
            tracing::warn!(%key, blocked_for = ?since.elapsed(), "a reconciliation no longer blocks its thread");
        }
    }
}

/// A thread that looks for blocked calls. A task cannot do this work, because blocked runtime threads run no tasks.
/// Dropping the watchdog ends the thread.
pub(crate) struct Watchdog(Arc<Shared>);

struct Shared {
    controllers: Mutex<Vec<Arc<Polls>>>,
    exit: Option<Exit>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

const SECOND: Duration = Duration::from_secs(1);

/// When to exit the process.
pub(crate) struct Exit {
    pub(crate) stop: CancellationToken,
    pub(crate) after: Duration,
}

impl Watchdog {
    /// Starts a watchdog for these controllers. If `exit` is set, the watchdog exits the process if calls still block
    /// their threads when the time for stopping has passed. The watchdog does so even after it was dropped, because
    /// nothing else can end these calls.
    pub(crate) fn start(controllers: Vec<Arc<Polls>>, exit: Option<Exit>) -> Self {
        let tick = controllers.iter().map(|polls| polls.limit / 2).min().unwrap_or(SECOND);
        let tick = if exit.is_some() { tick.min(SECOND) } else { tick };
        let (controllers, has_ended) = (Mutex::new(controllers), Mutex::new(false));
        let shared = Arc::new(Shared { controllers, exit, has_ended, ended: Condvar::new() });
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
            // Drop the controllers here rather than on the watchdog's thread, because their metrics are user code.
            drop(std::mem::take(&mut *lock(&self.0.controllers)));
        }
        *lock(&self.0.has_ended) = true;
        self.0.ended.notify_all();
    }
}

impl Shared {
    fn run(&self, tick: Duration) {
        let mut stopped = None;
        let mut has_ended = lock(&self.has_ended);
        loop {
            if let Some(exit) = self.exit.as_ref().filter(|exit| exit.stop.is_cancelled()) {
                let stopped = *stopped.get_or_insert_with(Instant::now);
                // With this additional time, `main` can end the process first.
                if stopped.elapsed() >= exit.after.saturating_add((exit.after / 10).min(Duration::from_secs(2))) {
                    self.end_process(exit);
                }
            }
            if *has_ended && (stopped.is_none() || self.held().is_empty()) {
                return;
            }
            drop(has_ended);
            self.controllers().iter().for_each(|polls| polls.report_blocked());
            has_ended = lock(&self.has_ended);
            if !*has_ended || stopped.is_some() {
                let waited = self.ended.wait_timeout(has_ended, if stopped.is_some() { tick / 10 } else { tick });
                has_ended = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn controllers(&self) -> Vec<Arc<Polls>> {
        lock(&self.controllers).clone()
    }

    /// Returns the calls that cannot be stopped, with their controllers.
    fn held(&self) -> Vec<(String, Blocked)> {
        const HELD: Duration = Duration::from_millis(100);
        let mut all = Vec::new();
        for polls in self.controllers() {
            let held = polls.blocked_for(HELD.min(polls.limit));
            all.extend(held.into_iter().map(|blocked| (polls.controller.clone(), blocked)));
        }
        all
    }

    #[expect(clippy::print_stderr, reason = "the process exits, and its logs may go nowhere")]
    fn end_process(&self, exit_after: &Exit) {
        let held = self.held();
        if held.is_empty() {
            return;
        }
        let now = Instant::now();
        let blocked =
            held.iter().map(|(controller, blocked)| format!("controller {controller:?}: {}", blocked.describe(now)));
        let blocked = blocked.collect::<Vec<_>>().join("; ");
        tracing::error!(after = ?exit_after.after, "the stop timed out with blocked calls; exiting the process: {blocked}");
        eprintln!(
            "pintle: the stop timed out after {:?} with blocked calls; exiting the process: {blocked}",
            exit_after.after
        );
        exit(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic halfway, so the state is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
