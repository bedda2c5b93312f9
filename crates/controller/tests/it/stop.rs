//! Tests how a run of a controller ends.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pintle_controller::{
    Action, Controller, ControllerConfig, ControllerError, Feed, ReconcileError, ReconcileRequest, Requests, Source,
    Trigger,
};
use pintle_meta::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{forbid, informer, key, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn stop_waits_for_in_flight_calls_only() {
    let sites = sites_named(&["a", "b", "c"]);
    let calls = Recorder::taking(10.0);
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(2.0).await;
    let start = tokio::time::Instant::now();
    running.stop().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 7, "the call had eight seconds to go");
    assert_eq!((calls.take().len(), calls.dropped().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn stop_timeout_drops_calls_and_names_their_keys() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::taking(1_000.0);
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { graceful_shutdown_timeout: Duration::from_secs(3), ..Default::default() })
        .reconciler(calls.clone());
    let running = run(&controller).await;
    let start = tokio::time::Instant::now();
    let error = running.stop().await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 3);
    assert!(
        matches!(&error, ControllerError::StopTimedOut { unfinished, .. } if unfinished.in_flight[0].as_str() == "ns/a")
    );
    assert!(error.to_string().contains("ns/a") && error.to_string().contains("3s"), "{error}");
    assert_eq!((calls.dropped().len(), calls.running()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn stop_before_caches_are_synced_ends_the_run() {
    let sites = sites_named(&["a"]);
    sites.faults().cut_off();
    let controller = Controller::of(&informer(&sites)).reconciler(Recorder::new());
    let running = run(&controller).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unsynced_caches_fail_a_run_with_a_limit() {
    let sites = sites_named(&["a"]);
    forbid(sites.faults());
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { cache_sync_timeout: Some(Duration::from_secs(120)), ..Default::default() })
        .reconciler(Recorder::new());
    let error = run(&controller).await.task.await.unwrap().unwrap_err();
    let text = error.to_string();
    for part in ["\"site\"", "\"Site\"", "120s", "you may not list this"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_fails_the_run() {
    let sites = sites_named(&["a"]);
    let informer = informer(&sites);
    let controller = Controller::of(&informer).reconciler(Recorder::new());
    let running = run(&controller).await;
    informer.shutdown().await;
    let error = running.task.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::SourceEnded { ref source_name, .. } if source_name == "Site"), "{error}");
    // Without its informer, the source cannot sync in a later run.
    let error = run(&controller).await.task.await.unwrap();
    assert!(error.is_err(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn controller_can_run_repeatedly_but_not_concurrently() {
    let sites = sites_named(&["a", "b"]);
    let calls = Recorder::new();
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    for _ in 0..3 {
        let running = run(&controller).await;
        assert_eq!(calls.take_sorted(), ["a", "b"]);
        let second = run(&controller).await.task.await.unwrap();
        assert!(matches!(second, Err(ControllerError::AlreadyRunning { .. })), "{second:?}");
        running.stop().await.unwrap();
    }
    assert_eq!(metrics.results(), [6.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_run_ends_all_its_tasks() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::taking(10.0);
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let running = run(&controller).await;
    assert_eq!(calls.running(), 1);
    running.task.abort();
    pass(0.1).await;
    assert_eq!((calls.running(), calls.dropped().len()), (0, 1));
    calls.take();
    touch(&sites, "a");
    pass(60.0).await;
    assert!(calls.take().is_empty());
    assert_eq!(metrics.numbers(["active_workers"]), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn overflowing_limits_mean_no_limit() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::taking(10.0);
    let config = ControllerConfig {
        reconcile_timeout: Some(Duration::MAX),
        cache_sync_timeout: Some(Duration::MAX),
        graceful_shutdown_timeout: Duration::MAX,
        ..Default::default()
    };
    let controller = Controller::of(&informer(&sites)).config(config).reconciler(calls.clone());
    run(&controller).await.stop().await.unwrap();
    assert_eq!((calls.take().len(), calls.dropped().len()), (1, 0));
}

struct Last;

impl Source for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn start(&self, requests: Requests) -> Feed {
        struct Farewell(Requests);
        impl Drop for Farewell {
            fn drop(&mut self) {
                self.0.add(ObjectKey::new("ns", "farewell"));
            }
        }
        let farewell = Farewell(requests);
        let run = async move {
            pending::<()>().await;
            drop(farewell);
        };
        Feed { synced: Box::pin(async { true }), run: Box::pin(run) }
    }
}

#[tokio::test(start_paused = true)]
async fn stop_closes_the_queue_before_sources_end() {
    let calls = Recorder::new();
    let controller = Controller::named("last").source(Last).reconciler(calls.clone());
    run(&controller).await.stop().await.unwrap();
    assert!(calls.take().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn run_starts_after_tasks_of_a_dropped_run_ended() {
    let (begun, begins) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let at_work = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counted, seen) = (at_work.clone(), most.clone());
    // Block the thread, which prevents the controller from dropping the reconciliation.
    let reconcile = move |request: ReconcileRequest| {
        seen.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        begun.send(()).unwrap();
        if request.key.name() == "blocks" {
            tokio::task::block_in_place(|| waits.lock().unwrap().recv().unwrap());
        }
        counted.fetch_sub(1, Ordering::SeqCst);
        async { Ok(Action::await_change()) }
    };
    let trigger = Trigger::new();
    let controller = Controller::named("hand").source(trigger.clone()).reconciler(reconcile);
    let spawn = || {
        let controller = controller.clone();
        tokio::spawn(async move { controller.run(&CancellationToken::new()).await })
    };
    let first = spawn();
    trigger.trigger(ObjectKey::new("ns", "blocks"));
    tokio::task::block_in_place(|| begins.recv().unwrap());
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    trigger.trigger(ObjectKey::new("ns", "next"));
    let second = spawn();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    tokio::task::block_in_place(|| begins.recv().unwrap());
    assert_eq!(most.load(Ordering::SeqCst), 1, "two runs overlapped");
    second.abort();
}

fn by_hand(calls: &Recorder) -> (Trigger, Controller) {
    let trigger = Trigger::new();
    let controller = Controller::named("hand").source(trigger.clone()).reconciler(calls.clone());
    (trigger, controller)
}

#[tokio::test(start_paused = true)]
async fn next_run_reconciles_keys_left_by_a_stop() {
    let calls = Recorder::taking(10.0);
    let (trigger, controller) = by_hand(&calls);
    let running = run(&controller).await;
    ["a", "b", "c"].into_iter().for_each(|name| trigger.trigger(ObjectKey::new("ns", name)));
    pass(1.0).await;
    // This task adds a key after the queue was shut down, but before the source is aborted.
    let (stop, hand) = (running.stop.clone(), trigger.clone());
    tokio::spawn(async move {
        stop.cancelled().await;
        hand.trigger(ObjectKey::new("ns", "e"));
    });
    pass(0.1).await;
    running.stop.cancel();
    pass(1.0).await;
    ["a", "d"].into_iter().for_each(|name| trigger.trigger(ObjectKey::new("ns", name)));
    running.stop().await.unwrap();
    assert_eq!(calls.take(), ["a"]);
    let _running = run(&controller).await;
    pass(100.0).await;
    assert_eq!(calls.take_sorted(), ["a", "b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn next_run_reconciles_keys_left_by_a_drop() {
    let calls = Recorder::taking(10.0);
    let (trigger, controller) = by_hand(&calls);
    let running = run(&controller).await;
    ["a", "b"].into_iter().for_each(|name| trigger.trigger(ObjectKey::new("ns", name)));
    pass(1.0).await;
    running.task.abort();
    assert!(running.task.await.is_err());
    assert_eq!(calls.take(), ["a"]);
    let _running = run(&controller).await;
    pass(100.0).await;
    assert_eq!(calls.take_sorted(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn next_run_retries_keys_that_failed_before_the_stop() {
    let sites = sites_named(&["waits", "fails-last", "fine"]);
    let calls = Recorder::taking(1.0);
    let clean_up = |request: &ReconcileRequest| match request.key.name() {
        "fine" => Ok(Action::await_change()),
        _ => Err(ReconcileError::new("cannot be cleaned up now")),
    };
    ["waits", "fails-last", "fine"].into_iter().for_each(|name| calls.plan(name, clean_up));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(100.0).await;
    ["waits", "fails-last", "fine"].into_iter().for_each(|name| assert!(sites.remove(&key(name))));
    pass(100.0).await;
    calls.take();
    // During the stop, one key waits for its retry, and another key fails while the controller waits for its
    // reconciliation.
    while calls.running() == 0 {
        pass(0.1).await;
    }
    running.stop().await.unwrap();
    calls.take();
    let _running = run(&controller).await;
    pass(100.0).await;
    let mut tried = calls.take_sorted();
    tried.dedup();
    assert_eq!(tried, ["fails-last", "waits"], "the objects do not exist, so nothing else adds the keys");
}

#[tokio::test(start_paused = true)]
async fn stop_timeout_names_in_flight_queued_and_delayed_keys() {
    let calls = Recorder::taking(100.0);
    let (trigger, controller) = by_hand(&calls);
    let running = run(&controller).await;
    trigger.trigger(key("held"));
    pass(1.0).await;
    ["next", "held"].into_iter().for_each(|name| trigger.trigger(key(name)));
    let error = running.stop().await.unwrap_err();
    let ControllerError::StopTimedOut { unfinished, .. } = &error else { panic!("{error}") };
    let mut queued = unfinished.queued.clone();
    queued.sort();
    let expected = (vec!["ns/held".to_owned()], vec!["ns/held".to_owned(), "ns/next".to_owned()]);
    assert_eq!((unfinished.in_flight.clone(), queued), expected);
    assert!(error.to_string().contains("in flight: ns/held; queued: ns/"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn stop_logs_unfinished_keys() {
    let (log, _guard) = crate::log::Log::here();
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    calls.plan("a", |_| Err(ReconcileError::new("no")));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(100.0).await;
    running.stop().await.unwrap();
    log.assert_tells(&["stopped", "delayed: ns/a"]);
}

#[tokio::test(start_paused = true)]
async fn manager_accepts_an_unlimited_stop_timeout() {
    let config = pintle_controller::ManagerConfig { graceful_shutdown_timeout: Duration::MAX, ..Default::default() };
    let controller = Controller::of(&informer(&sites_named(&["a"]))).reconciler(Recorder::new());
    let stop = CancellationToken::new();
    let run = pintle_controller::Manager::new().config(config).controller(controller);
    let token = stop.clone();
    let run = tokio::spawn(async move { run.run(&token).await });
    pass(1.0).await;
    stop.cancel();
    run.await.unwrap().unwrap();
}
