//! Tests of errors and retries.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pintle_controller::{Action, Controller, ControllerConfig, ReconcileError, ReconcileRequest};
use pintle_meta::{ApiError, Reason, Status, StatusDetails};

use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{informer, sites_named, touch};

fn millis(calls: Vec<(f64, String)>) -> Vec<u64> {
    let start = calls[0].0;
    calls.iter().map(|(time, _)| ((time - start) * 1_000.0).round() as u64).collect()
}

#[tokio::test(start_paused = true)]
async fn delay_doubles_with_each_error_and_success_resets_it() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    let tries = AtomicU32::new(0);
    calls.plan("a", move |request| match tries.fetch_add(1, Ordering::Relaxed) {
        failures @ 0..5 => {
            assert_eq!(request.failures, failures);
            Err(ReconcileError::new("not yet"))
        }
        5 => Ok(Action::requeue_after(Duration::from_secs(1))),
        6 => Err(ReconcileError::new("once more")),
        _ => Ok(Action::await_change()),
    });
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(60.0).await;
    let expected = [0, 5, 15, 35, 75, 155, 1_155, 1_160];
    for (found, expected) in millis(calls.take_timed()).into_iter().zip(expected) {
        // Allow for the resolution of tokio's timer, which is 1 ms.
        assert!((expected..=expected + 10).contains(&found), "{found} instead of {expected}");
    }
    assert_eq!(metrics.results(), [1.0, 1.0, 6.0]);
    assert_eq!(metrics.numbers(["reconcile_errors_total", "reconcile_panics_total"]), [6.0, 0.0]);
    assert_eq!(metrics.0.value("workqueue_retries_total", &[]), Some(7.0), "six errors and one requeue_after");
}

#[tokio::test(start_paused = true)]
async fn failing_key_does_not_delay_other_keys() {
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    calls.plan("bad", |_| Err(ReconcileError::new("never")));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(100.0).await;
    calls.take();
    touch(&sites, "good");
    pass(0.01).await;
    assert_eq!(calls.take(), ["good"]);
}

#[tokio::test(start_paused = true)]
async fn terminal_error_waits_for_a_change() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    calls.plan("a", |_| Err(ReconcileError::terminal("the spec makes no sense")));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(10_000.0).await;
    assert_eq!(calls.take(), ["a"]);
    touch(&sites, "a");
    pass(1.0).await;
    assert_eq!(calls.take(), ["a"]);
    assert_eq!(metrics.numbers(["reconcile_errors_total", "terminal_reconcile_errors_total"]), [2.0, 2.0]);
    assert_eq!(metrics.0.value("workqueue_retries_total", &[]), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn panic_is_an_error_of_its_key() {
    let sites = sites_named(&["bad", "good"]);
    let calls = Recorder::new();
    calls.plan("bad", |request| match request.failures {
        0..3 => panic!("the reconciler of the test panics"),
        _ => Ok(Action::await_change()),
    });
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(1.0).await;
    assert_eq!(calls.take_sorted(), ["bad", "bad", "bad", "bad", "good"]);
    assert_eq!((metrics.results(), metrics.numbers(["reconcile_panics_total"])), ([2.0, 0.0, 3.0], [3.0]));
    assert_eq!(metrics.0.value("workqueue_retries_total", &[]), Some(3.0));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_before_the_future_exists_is_an_error_too() {
    let sites = sites_named(&["a"]);
    let metrics = TestMetrics::default();
    let controller =
        Controller::of(&informer(&sites)).config(metrics.config()).reconciler(|request: ReconcileRequest| {
            assert!(request.failures > 0, "the reconciler of the test panics");
            async { Ok(Action::await_change()) }
        });
    let _running = run(&controller).await;
    pass(1.0).await;
    assert_eq!((metrics.results(), metrics.numbers(["reconcile_panics_total"])), ([1.0, 0.0, 1.0], [1.0]));
}

#[tokio::test(start_paused = true)]
async fn timed_out_call_is_dropped_and_retried() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::taking(100.0);
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { reconcile_timeout: Some(Duration::from_secs(2)), ..metrics.config() })
        .reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(5.0).await;
    assert_eq!(calls.dropped(), ["ns/a", "ns/a"]);
    assert_eq!(
        (metrics.results(), metrics.numbers(["reconcile_timeouts_total", "active_workers"])),
        ([0.0, 0.0, 2.0], [2.0, 1.0])
    );
}

fn conflict() -> Status {
    Status::failure(409, Reason::Conflict, "changed")
}

fn throttled() -> Status {
    let details = Some(StatusDetails { retry_after_seconds: 30, ..StatusDetails::default() });
    Status { details, ..Status::failure(429, Reason::TooManyRequests, "busy") }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Api(#[from] ApiError),
}

#[test]
fn conflict_and_retry_after_survive_wrappers() {
    type Wrap = fn(Status) -> ReconcileError;
    for (name, wrap) in [
        ("plain", (|status| ApiError::from(status).into()) as Wrap),
        ("anyhow", |status| anyhow::Error::from(ApiError::from(status)).into()),
        ("anyhow with a context", |status| anyhow::Error::from(ApiError::from(status)).context("cannot write").into()),
        ("transparent", |status| Failed::from(ApiError::from(status)).into()),
        ("transparent in anyhow", |status| anyhow::Error::from(Failed::from(ApiError::from(status))).into()),
    ] {
        let (conflict, throttled) = (wrap(conflict()), wrap(throttled()));
        assert!(conflict.is_conflict() && !throttled.is_conflict(), "{name}");
        assert_eq!((conflict.delay(), throttled.delay()), (None, Some(Duration::from_secs(30))), "{name}");
        let code = |error: &ReconcileError| error.api_error().and_then(|error| Some(error.status()?.code));
        assert_eq!((code(&conflict), code(&throttled)), (Some(409), Some(429)), "{name}");
        assert_eq!(conflict.to_string().matches("changed").count(), 1, "{name}: {conflict}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_in_anyhow_is_respected() {
    let (sites, calls) = (sites_named(&["a"]), Recorder::new());
    let tries = AtomicU32::new(0);
    calls.plan("a", move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err(anyhow::Error::from(ApiError::from(throttled())))?,
        _ => Ok(Action::await_change()),
    });
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(60.0).await;
    let times = millis(calls.take_timed());
    assert!(times.len() == 2 && times[1] >= 30_000, "{times:?}");
}

#[test]
fn error_display_includes_all_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the deployment")]
    struct Outer(#[source] std::io::Error);
    let fails = || -> Result<(), ReconcileError> { Err(Outer(std::io::Error::other("disk full")))? };
    let error = fails().unwrap_err();
    assert_eq!(error.to_string(), "cannot write the deployment: disk full");
    assert!(!error.is_terminal() && ReconcileError::terminal("x").is_terminal());
}

#[test]
fn errors_and_strings_convert_to_reconcile_error() {
    fn fails(way: u32) -> Result<(), ReconcileError> {
        match way {
            0 => Err("a text")?,
            1 => Err(String::from("a string"))?,
            2 => Err(anyhow::anyhow!("inner").context("outer"))?,
            _ => Err(std::io::Error::other("an error"))?,
        }
    }
    let text: Vec<_> = (0..4).map(|way| fails(way).unwrap_err().to_string()).collect();
    assert_eq!(text, ["a text", "a string", "outer: inner", "an error"]);
}
