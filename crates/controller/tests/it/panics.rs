//! Tests of panics in user code. A run must continue or fail, but never hang.

use std::fmt;
use std::future::{Future, pending};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pintle_controller::{
    Action, Controller, ControllerConfig, ControllerError, Feed, Manager, QueueSetup, ReconcileError, ReconcileRequest,
    Requests, Source, Trigger,
};
use pintle_meta::ObjectKey;
use pintle_ratelimit::RateLimiter;
use pintle_testing::{Collection, PanickingProvider};
use pintle_workqueue::{Fifo, Order, Queued, Ticket};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::recorder::{Recorder, Running, TestMetrics, pass, run};
use crate::support::{Site, informer, sites_named, touch};

fn config(queue: QueueSetup, metrics: &TestMetrics) -> ControllerConfig {
    ControllerConfig { queue: Some(queue), ..metrics.config() }
}

/// Waits until a run fails without a stop request, and returns the error.
async fn end(running: Running) -> ControllerError {
    let ended = tokio::time::timeout(Duration::from_secs(1_000), running.task).await;
    ended.expect("the run is stuck").unwrap().unwrap_err()
}

#[track_caller]
fn assert_tells(error: &ControllerError, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} are not all in {text}");
}

/// Checks that the controller's only worker processes two keys again after the key `bad` has caused a panic.
async fn assert_goes_on(controller: &Controller, metrics: &TestMetrics, sites: &Collection<Site>, calls: &Recorder) {
    let running = run(controller).await;
    pass(0.5).await;
    let called = calls.take();
    assert!(["bad", "good"].iter().all(|name| called.contains(&(*name).to_owned())), "{called:?}");
    assert!(metrics.numbers(["reconcile_panics_total"]) > [0.0]);
    touch(sites, "good");
    pass(0.1).await;
    assert!(calls.take().contains(&"good".to_owned()), "the worker is dead");
    pass(100.0).await;
    assert!(calls.take().contains(&"bad".to_owned()), "the key is lost");
    let [active, panics, errors] =
        metrics.numbers(["active_workers", "reconcile_panics_total", "reconcile_errors_total"]);
    assert_eq!((active, panics), (0.0, errors));
    running.stop().await.unwrap();
}

struct BadLimiter;

impl RateLimiter<ObjectKey> for BadLimiter {
    fn delay(&mut self, _: &ObjectKey, _: u32, _: Instant) -> Duration {
        panic!("the limiter of the test panics")
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_limiter_retries_its_key() {
    let (log, _guard) = Log::here();
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    calls.plan("bad", |_| Err(ReconcileError::new("try again")));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites))
        .config(config(Arc::new(|queue| queue.limiter = Box::new(BadLimiter)), &metrics))
        .reconciler(calls.clone());
    assert_goes_on(&controller, &metrics, &sites, &calls).await;
    log.assert_tells(&["controller=\"site\"", "key=ns/bad", "the limiter of the test panics"]);
}

struct Unforgetting;

impl RateLimiter<ObjectKey> for Unforgetting {
    fn delay(&mut self, _: &ObjectKey, _: u32, _: Instant) -> Duration {
        Duration::from_secs(1)
    }

    fn forget(&mut self, _: &ObjectKey) {
        panic!("the forget of the test panics")
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_metrics_affect_no_key_and_no_run() {
    let (log, _guard) = Log::here();
    let sites = sites_named(&["a", "b"]);
    let calls = Recorder::new();
    let config = ControllerConfig { metrics: Some(Arc::new(PanickingProvider)), ..Default::default() };
    let controller = Controller::of(&informer(&sites)).config(config).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(500.0).await;
    assert_eq!(calls.take_sorted(), ["a", "b"]);
    touch(&sites, "a");
    pass(500.0).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.unwrap();
    drop(controller);
    assert_eq!(log.count("panicked"), 1);
}

#[tokio::test(start_paused = true)]
async fn panic_in_forget_causes_no_retry() {
    let (log, _guard) = Log::here();
    let calls = Recorder::new();
    calls.plan("later", |_| Ok(Action::requeue_after(Duration::from_secs(600))));
    calls.plan("never", |_| Err(ReconcileError::terminal("no use")));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites_named(&["later", "never", "once"])))
        .config(config(Arc::new(|queue| queue.limiter = Box::new(Unforgetting)), &metrics))
        .reconciler(calls.clone());
    let running = run(&controller).await;
    pass(500.0).await;
    assert_eq!(calls.take_sorted(), ["later", "never", "once"]);
    pass(500.0).await;
    assert_eq!(calls.take(), ["later"], "the requeued key is reconciled");
    assert_eq!(
        (metrics.results(), metrics.numbers(["reconcile_panics_total"])),
        ([0.0, 0.0, 4.0], [3.0]),
        "a terminal error does not call `forget`"
    );
    log.assert_tells(&["the forget of the test panics"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_dropping_the_limiter_fails_the_run() {
    struct Grenade;
    impl RateLimiter<ObjectKey> for Grenade {
        fn delay(&mut self, _: &ObjectKey, _: u32, _: Instant) -> Duration {
            Duration::ZERO
        }
    }
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("the limiter of the test panics")
        }
    }
    let setup: QueueSetup = Arc::new(|queue| queue.limiter = Box::new(Grenade));
    let sites = sites_named(&["a"]);
    let controller = Controller::of(&informer(&sites))
        .source(Trigger::new())
        .config(config(setup, &TestMetrics::default()))
        .reconciler(Recorder::new());
    for _ in 0..2 {
        let error = run(&controller).await.stop().await.unwrap_err();
        assert_tells(&error, &["\"site\"", "queue", "panicked", "the limiter of the test panics"]);
    }
    // Dropping the run's future must not propagate a panic of the queue's `Drop`.
    let stop = CancellationToken::new();
    let run = tokio::time::timeout(Duration::from_secs(1), controller.run(&stop));
    assert!(run.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn panic_in_error_display_retries_its_key() {
    #[derive(Debug)]
    struct Unspeakable;
    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("the Display of the test panics")
        }
    }
    impl std::error::Error for Unspeakable {}
    let (log, _guard) = Log::here();
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    calls.plan("bad", |_| Err(Unspeakable.into()));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    assert_goes_on(&controller, &metrics, &sites, &calls).await;
    log.assert_tells(&["controller=\"site\"", "key=ns/bad", "the Display of the test panics"]);
}

/// A future that never completes and panics when dropped.
struct Grenade;

impl Future for Grenade {
    type Output = Result<Action, ReconcileError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

#[tokio::test(start_paused = true)]
async fn panic_dropping_the_future_retries_its_key() {
    let (log, _guard) = Log::here();
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    let recorder = calls.clone();
    let metrics = TestMetrics::default();
    let config = ControllerConfig { reconcile_timeout: Some(Duration::from_millis(100)), ..metrics.config() };
    let controller = Controller::of(&informer(&sites)).config(config).reconciler(move |request: ReconcileRequest| {
        let recorder = recorder.clone();
        async move {
            let bad = request.key.name() == "bad";
            pintle_controller::Reconciler::reconcile(&recorder, request).await?;
            if bad { Grenade.await } else { Ok(Action::await_change()) }
        }
    });
    assert_goes_on(&controller, &metrics, &sites, &calls).await;
    log.assert_tells(&["controller=\"site\"", "key=ns/bad", "dropped"]);
}

#[tokio::test(start_paused = true)]
async fn panic_dropping_a_panic_payload_retries_its_key() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload of the test panics")
        }
    }
    struct Limiter;
    impl RateLimiter<ObjectKey> for Limiter {
        fn delay(&mut self, _: &ObjectKey, _: u32, _: Instant) -> Duration {
            panic_any(Bomb)
        }
    }
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    calls.plan("bad", |_| panic_any(Bomb));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites))
        .config(config(Arc::new(|queue| queue.limiter = Box::new(Limiter)), &metrics))
        .reconciler(calls.clone());
    assert_goes_on(&controller, &metrics, &sites, &calls).await;
}

/// A FIFO order whose methods panic on request.
#[derive(Debug, Default)]
struct BadOrder {
    fifo: Fifo,
    push: bool,
    pop: bool,
    /// A ticket that `pop` returned before and returns again.
    stale: Option<Ticket>,
    keep: bool,
    has_panicked: bool,
    calls_after_panic: Arc<AtomicUsize>,
}

impl BadOrder {
    fn called(&self) {
        self.calls_after_panic.fetch_add(self.has_panicked.into(), Ordering::Relaxed);
    }
}

impl Order<ObjectKey> for BadOrder {
    fn push(&mut self, key: Queued<'_, ObjectKey>) -> u64 {
        self.called();
        self.has_panicked |= self.push && key.key.name() == "bad";
        assert!(!self.has_panicked, "the push of the test panics");
        self.fifo.push(key)
    }

    fn remove(&mut self, key: Queued<'_, ObjectKey>, place: u64) {
        self.fifo.remove(key, place);
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.called();
        self.has_panicked |= self.pop;
        assert!(!self.has_panicked, "the pop of the test panics");
        let ticket = self.stale.or_else(|| Order::<ObjectKey>::pop(&mut self.fifo));
        self.stale = ticket.filter(|_| self.keep);
        ticket
    }

    fn len(&self) -> usize {
        self.called();
        Order::<ObjectKey>::len(&self.fifo)
    }
}

async fn end_by_order(make: impl Fn() -> BadOrder + Send + Sync + 'static) -> ControllerError {
    let sites = sites_named(&["good", "bad"]);
    let controller = Controller::of(&informer(&sites))
        .config(config(Arc::new(move |queue| queue.order = Box::new(make())), &TestMetrics::default()))
        .reconciler(Recorder::new());
    end(run(&controller).await).await
}

#[tokio::test(start_paused = true)]
async fn panicking_order_fails_the_run() {
    for (push, text) in [(false, "the pop of the test panics"), (true, "the push of the test panics")] {
        let calls: Arc<AtomicUsize> = Arc::default();
        let calls_after_panic = calls.clone();
        let make =
            move || BadOrder { push, pop: !push, calls_after_panic: calls_after_panic.clone(), ..Default::default() };
        assert_tells(&end_by_order(make).await, &["\"site\"", "order", text]);
        assert_eq!(calls.load(Ordering::Relaxed), 0, "the order must not be called again");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_worker_fails_the_run() {
    // This order returns the same ticket twice. The second ticket makes the queue panic, because the ticket's key
    // was already removed.
    let error = end_by_order(|| BadOrder { keep: true, ..Default::default() }).await;
    assert_tells(&error, &["\"site\"", "worker"]);
}

#[tokio::test(start_paused = true)]
async fn double_panic_fails_the_run_without_abort() {
    #[derive(Debug, Default)]
    struct Once(Fifo, usize);
    impl Order<ObjectKey> for Once {
        fn push(&mut self, key: Queued<'_, ObjectKey>) -> u64 {
            self.1 += 1;
            assert!(self.1 < 2, "the second push of the test panics");
            self.0.push(key)
        }

        fn remove(&mut self, key: Queued<'_, ObjectKey>, place: u64) {
            self.0.remove(key, place);
        }

        fn pop(&mut self) -> Option<Ticket> {
            Order::<ObjectKey>::pop(&mut self.0)
        }

        fn len(&self) -> usize {
            Order::<ObjectKey>::len(&self.0)
        }
    }
    let trigger = Trigger::new();
    let again = trigger.clone();
    let setup: QueueSetup = Arc::new(|queue| {
        queue.order = Box::new(Once::default());
        queue.limiter = Box::new(BadLimiter);
    });
    let controller = Controller::named("hand")
        .source(trigger.clone())
        .config(config(setup, &TestMetrics::default()))
        .reconciler(move |request: ReconcileRequest| {
            // Add the key again while it is in flight. Dropping the item then pushes the key into the order, while
            // the limiter's panic unwinds.
            again.trigger(request.key);
            async { Err(ReconcileError::new("try again")) }
        });
    trigger.trigger(ObjectKey::new("ns", "a"));
    let error = end(run(&controller).await).await;
    assert_tells(&error, &["\"hand\"", "order", "the second push of the test panics"]);
}

#[derive(Clone, Copy, PartialEq)]
enum BadSource {
    Name,
    Problem,
    Start,
    Sync,
    RunBeforeSync,
    Run,
}

impl Source for BadSource {
    fn name(&self) -> &str {
        assert!(*self != Self::Name, "the source of the test panics");
        "panicking source"
    }

    fn problem(&self) -> Option<String> {
        assert!(*self != Self::Problem, "the source of the test panics");
        None
    }

    fn start(&self, _: Requests) -> Feed {
        let part = *self;
        assert!(part != Self::Start, "the source of the test panics");
        Feed {
            synced: Box::pin(async move {
                assert!(part != Self::Sync, "the source of the test panics");
                match part {
                    Self::RunBeforeSync => pending().await,
                    part => part != Self::Problem,
                }
            }),
            run: Box::pin(async move {
                assert!(matches!(part, Self::Sync | Self::Problem), "the source of the test panics");
                pending().await
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_source_fails_the_run() {
    use BadSource::{Problem, Run, RunBeforeSync, Start, Sync};
    for source in [Problem, Start, Sync, RunBeforeSync, Run] {
        let controller = Controller::named("sea").source(source).reconciler(Recorder::new());
        let error = end(run(&controller).await).await;
        assert_tells(&error, &["\"sea\"", "panicking source", "panicked", "the source of the test panics"]);
        let error = end(run(&controller).await).await;
        assert!(!matches!(error, ControllerError::AlreadyRunning { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_source_name_fails_the_run() {
    let controller = Controller::named("sea").source(BadSource::Name).reconciler(Recorder::new());
    for _ in 0..2 {
        assert_tells(
            &end(run(&controller).await).await,
            &["\"sea\"", "name", "panicked", "the source of the test panics"],
        );
    }
}

#[test]
fn panic_in_source_problem_makes_it_unready() {
    let controller = Controller::named("sea").source(BadSource::Problem).reconciler(Recorder::new());
    let ready = Manager::new().controller(controller).status().ready().to_string();
    assert!(
        ["[-]sea", "panicking source", "panicked", "the source of the test panics"]
            .iter()
            .all(|part| ready.contains(part)),
        "{ready}"
    );
}

#[tokio::test(start_paused = true)]
async fn panicking_queue_setup_fails_the_run() {
    let setup: QueueSetup = Arc::new(|_| panic!("the setup of the test panics"));
    let controller = Controller::named("hand")
        .source(Trigger::new())
        .config(config(setup, &TestMetrics::default()))
        .reconciler(Recorder::new());
    for _ in 0..2 {
        assert_tells(&end(run(&controller).await).await, &["\"hand\"", "queue", "the setup of the test panics"]);
    }
}

#[tokio::test(start_paused = true)]
async fn queue_setup_can_call_the_controller() {
    let known: Arc<OnceLock<Controller>> = Arc::default();
    let asked = known.clone();
    let setup: QueueSetup = Arc::new(move |_| assert!(asked.get().unwrap().unsynced().is_empty()));
    let controller = Controller::named("hand")
        .source(Trigger::new())
        .config(config(setup, &TestMetrics::default()))
        .reconciler(Recorder::new());
    known.set(controller.clone()).unwrap();
    run(&controller).await.stop().await.unwrap();
}
