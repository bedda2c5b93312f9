//! Tests which changes shorten or end a backoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pintle_controller::{
    Action, Controller, ControllerConfig, EnqueueMapped, Kind, ReconcileError, ReconcileRequest, Reconciler, Trigger,
    predicate::GenerationChanged,
};
use pintle_meta::{ApiError, Reason, Status};
use pintle_ratelimit::ExponentialFailureRateLimiter;
use pintle_testing::Collection;

use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{Child, Site, informer, key, sites_named, touch};

/// Sets up reconciliations of the site `x` that each write an annotation and then fail.
fn writes_and_fails(sites: &Collection<Site>, calls: &Recorder, error: fn(&'static str) -> ReconcileError) {
    let (written, tries) = (sites.clone(), AtomicUsize::new(0));
    calls.plan("x", move |_| {
        let number = tries.fetch_add(1, Ordering::Relaxed);
        // Write only in the first 1,000 calls, because a controller without backoff would otherwise reconcile
        // forever. The paused clock would never advance in such a loop.
        if number < 1_000 {
            written
                .change(&key("x"), |site| drop(site.metadata.annotations.insert("tries".into(), number.to_string())));
        }
        Err(error("no"))
    });
}

/// Waits until a call is running. In these tests, the longest backoff is 1,000 s.
async fn until_running(calls: &Recorder) {
    for _ in 0..20_000 {
        if calls.running() > 0 {
            return;
        }
        pass(0.1).await;
    }
    panic!("no call within 2,000 s");
}

#[tokio::test(start_paused = true)]
async fn call_that_writes_its_object_and_fails_backs_off() {
    for error in [|text| ReconcileError::new(text), |text| ReconcileError::terminal(text)]
        as [fn(&'static str) -> ReconcileError; 2]
    {
        let (sites, calls) = (sites_named(&["x"]), Recorder::new());
        writes_and_fails(&sites, &calls, error);
        let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
        let _running = run(&controller).await;
        pass(1_000.0).await;
        let count = calls.take().len();
        assert!((15..=25).contains(&count), "{count} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn call_of_an_hour_resets_the_backoff() {
    let sites = sites_named(&["x"]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let controller = Controller::of(&informer(&sites)).reconciler(move |_: ReconcileRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Err::<Action, _>(ReconcileError::new("no"))
        }
    });
    let _running = run(&controller).await;
    pass(3_601.0 * 30.0).await;
    assert_eq!(calls.load(Ordering::Relaxed), 31, "each call starts a few milliseconds after the one before");
}

#[tokio::test(start_paused = true)]
async fn call_that_writes_a_child_and_fails_backs_off() {
    let sites = sites_named(&[]);
    let site = sites.put(Site::named("x"));
    let children = Collection::<Child>::default();
    let (calls, written, tries) = (Recorder::new(), children.clone(), AtomicUsize::new(0));
    calls.plan("x", move |_| {
        let mut child = Child::of(&site, "child");
        child.metadata.generation = tries.fetch_add(1, Ordering::Relaxed) as i64;
        if child.metadata.generation < 1_000 {
            written.put(child);
        }
        Err(ReconcileError::new("no"))
    });
    let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(1_000.0).await;
    let count = calls.take().len();
    assert!((15..=25).contains(&count), "{count} calls");
}

/// The event of a reconciliation's write arrives before the reconciliation ends.
#[tokio::test(start_paused = true)]
async fn call_that_writes_waits_and_fails_backs_off() {
    let (sites, calls, tries) = (sites_named(&["x"]), Recorder::taking(0.1), AtomicUsize::new(0));
    let (written, recorder) = (sites.clone(), calls.clone());
    let controller = Controller::of(&informer(&sites)).reconciler(move |request: ReconcileRequest| {
        let number = tries.fetch_add(1, Ordering::Relaxed);
        if number < 1_000 {
            written.change(&key("x"), |site| drop(site.metadata.annotations.insert("n".into(), number.to_string())));
        }
        let calls = recorder.clone();
        async move {
            calls.reconcile(request).await?;
            Err::<Action, _>(ReconcileError::new("no"))
        }
    });
    let _running = run(&controller).await;
    pass(1_000.0).await;
    let count = calls.take().len();
    assert!((15..=25).contains(&count), "{count} calls");
}

/// Returns the number of seconds between `change` and the next reconciliation of a site that has failed many times.
async fn after(change: impl FnOnce(&Collection<Site>, &Trigger), wait: f64) -> f64 {
    let (sites, calls, trigger) = (sites_named(&["x"]), Recorder::new(), Trigger::new());
    calls.plan("x", |_| Err(ReconcileError::new("no")));
    let controller = Controller::of(&informer(&sites)).source(trigger.clone()).reconciler(calls.clone());
    let _running = run(&controller).await;
    // After 330 s, the delay of the next retry is 5 ms * 2^16 = 327.68 s.
    pass(330.0).await;
    let last = calls.take_timed().last().unwrap().0;
    pass(last + 327.7 - 330.0 + wait).await;
    let began = tokio::time::Instant::now();
    assert_eq!(calls.take().len(), 1, "the pending retry");
    change(&sites, &trigger);
    while calls.take().is_empty() {
        pass(0.01).await;
    }
    began.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn generation_deletion_and_trigger_end_a_backoff_at_once() {
    let generation = |sites: &Collection<Site>, _: &Trigger| {
        sites.change(&key("x"), |site| site.metadata.generation += 1);
    };
    assert!(after(generation, 1.0).await < 0.1);
    assert!(after(|sites, _| assert!(sites.remove(&key("x"))), 1.0).await < 0.1);
    assert!(after(|_, trigger| trigger.trigger(key("x")), 1.0).await < 0.1);
}

#[tokio::test(start_paused = true)]
async fn changes_long_after_failures_end_any_number_of_backoffs() {
    let (sites, calls) = (sites_named(&["x"]), Recorder::new());
    calls.plan("x", |_| Err(ReconcileError::new("no")));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    // By now, the delay is more than 600 s.
    pass(700.0).await;
    calls.take();
    for _ in 0..20 {
        touch(&sites, "x");
        pass(6.0).await;
        assert_eq!(calls.take(), ["x"]);
    }
}

#[tokio::test(start_paused = true)]
async fn other_changes_end_a_backoff_unless_right_after_failure() {
    assert!(after(|sites, _| touch(sites, "x"), 6.0).await < 0.1);
    let shortly_after = after(|sites, _| touch(sites, "x"), 1.0).await;
    assert!((29.9..30.1).contains(&shortly_after), "{shortly_after} s");
}

/// The reconciler never writes secrets, so an event of a secret ends the backoff immediately.
#[tokio::test(start_paused = true)]
async fn appearing_dependency_ends_the_wait_of_a_failed_key() {
    for error in [
        || ReconcileError::new("the secret is missing").retry_after(Duration::from_secs(600)),
        || ReconcileError::terminal("the secret is missing"),
    ] as [fn() -> ReconcileError; 2]
    {
        // Create the secret during the reconciliation (5 s) or afterwards (13 s).
        for wait in [5.0, 13.0] {
            let (sites, secrets) = (sites_named(&["x"]), Collection::<Child>::default());
            let (calls, exists) = (Recorder::taking(10.0), Arc::new(AtomicBool::new(false)));
            let there = exists.clone();
            calls.plan(
                "x",
                move |_| if there.load(Ordering::Relaxed) { Ok(Action::await_change()) } else { Err(error()) },
            );
            let by_name = EnqueueMapped::new(|child: &Child| Some(key(&child.metadata.name)));
            let controller =
                Controller::of(&informer(&sites)).watches(&informer(&secrets), by_name).reconciler(calls.clone());
            let _running = run(&controller).await;
            pass(wait).await;
            assert_eq!(calls.take(), ["x"]);
            secrets.put(Child::named("x"));
            pass(6.0).await;
            exists.store(true, Ordering::Relaxed);
            assert_eq!(calls.take(), ["x"], "changed {wait} s after the call began");
            pass(1_000.0).await;
            assert!(calls.take().is_empty());
        }
    }
}

/// The controller cannot recognize the reconciler's writes, because a handler maps the written objects to keys.
#[tokio::test(start_paused = true)]
async fn call_that_writes_mapped_objects_and_fails_backs_off() {
    for wait in [None, Some(Duration::from_secs(300))] {
        let (sites, children) = (sites_named(&["x"]), Collection::<Child>::default());
        let (calls, written, tries) = (Recorder::new(), children.clone(), AtomicUsize::new(0));
        calls.plan("x", move |_| {
            let mut child = Child::named("x");
            child.metadata.generation = tries.fetch_add(1, Ordering::Relaxed) as i64;
            if child.metadata.generation < 1_000 {
                written.put(child);
            }
            let error = ReconcileError::new("no");
            Err(wait.map_or_else(|| ReconcileError::new("no"), |wait| error.retry_after(wait)))
        });
        let by_name = EnqueueMapped::new(|child: &Child| Some(key(&child.metadata.name)));
        let controller =
            Controller::of(&informer(&sites)).watches(&informer(&children), by_name).reconciler(calls.clone());
        let _running = run(&controller).await;
        pass(1_000.0).await;
        let count = calls.take().len();
        assert!((11..=35).contains(&count), "{count} calls with {wait:?}");
    }
}

/// A change may have fixed the problem, so the controller must retry before the end of the full backoff.
#[tokio::test(start_paused = true)]
async fn change_around_a_failure_is_reconciled_within_thirty_seconds() {
    // Make the change during the reconciliation (5 s) or afterwards (13 s).
    for wait in [5.0, 13.0] {
        let (sites, children) = (sites_named(&[]), Collection::<Child>::default());
        let site = sites.put(Site::named("x"));
        children.put(Child::of(&site, "x"));
        let (calls, is_mended) = (Recorder::taking(10.0), Arc::new(AtomicBool::new(false)));
        let mended = is_mended.clone();
        calls.plan("x", move |_| {
            if mended.load(Ordering::Relaxed) {
                Ok(Action::await_change())
            } else {
                Err(ReconcileError::new("the child is not ready"))
            }
        });
        let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
        let _running = run(&controller).await;
        // The next failure raises the delay to more than 300 s.
        pass(450.0).await;
        until_running(&calls).await;
        calls.take();
        pass(wait).await;
        children.change(&key("x"), |child| drop(child.metadata.labels.insert("mended".into(), "true".into())));
        pass(10.0 - f64::min(wait, 10.0)).await;
        is_mended.store(true, Ordering::Relaxed);
        pass(31.0).await;
        assert_eq!(calls.take(), ["x"], "changed {wait} s after the call began");
    }
}

#[tokio::test(start_paused = true)]
async fn change_after_a_failure_keeps_the_requested_delay() {
    let (sites, calls) = (sites_named(&["x"]), Recorder::new());
    calls.plan("x", |_| Err(ReconcileError::new("busy").retry_after(Duration::from_secs(300))));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(1.0).await;
    touch(&sites, "x");
    pass(400.0).await;
    let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
    assert_eq!(times, [0.0, 300.0]);
}

#[tokio::test(start_paused = true)]
async fn reconciled_change_is_not_retried_again() {
    let (sites, calls) = (sites_named(&["x"]), Recorder::new());
    let is_mended = Arc::new(AtomicUsize::new(0));
    let mended = is_mended.clone();
    calls.plan("x", move |_| match mended.load(Ordering::Relaxed) {
        0 => Err(ReconcileError::new("no")),
        _ => Ok(Action::await_change()),
    });
    let controller = Controller::of(Kind::of(&informer(&sites)).when(GenerationChanged)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(400.0).await;
    calls.take();
    is_mended.store(1, Ordering::Relaxed);
    sites.change(&key("x"), |site| site.metadata.generation += 1);
    pass(5_000.0).await;
    assert_eq!(calls.take(), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn urgent_change_during_a_failing_call_is_reconciled_immediately() {
    let (sites, calls) = (sites_named(&["x"]), Recorder::taking(10.0));
    calls.plan("x", |_| Err(ReconcileError::new("no")));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(1_000.0).await;
    until_running(&calls).await;
    calls.take();
    sites.change(&key("x"), |site| site.metadata.generation += 1);
    pass(10.1).await;
    assert_eq!((calls.running(), calls.take().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_and_not_counted_as_error() {
    let (sites, calls, metrics) = (sites_named(&["x"]), Recorder::new(), TestMetrics::default());
    let tries = AtomicUsize::new(0);
    calls.plan("x", move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ReconcileError::from(ApiError::from(Status::failure(409, Reason::Conflict, "changed")))),
        1 => Err(ReconcileError::new(Wrapped(ApiError::from(Status::failure(409, Reason::Conflict, "changed"))))),
        _ => Ok(Action::await_change()),
    });
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(60.0).await;
    assert_eq!((calls.take().len(), metrics.results()), (3, [1.0, 0.0, 0.0]));
    assert_eq!(metrics.0.value("controller_runtime_reconcile_total", &[("result", "conflict")]), Some(2.0));
    assert_eq!(metrics.numbers(["reconcile_errors_total"]), [0.0]);
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write")]
struct Wrapped(#[source] ApiError);

#[tokio::test(start_paused = true)]
async fn retry_waits_for_the_servers_retry_after() {
    let (sites, calls) = (sites_named(&["x", "y", "z"]), Recorder::new());
    let throttled = |seconds| {
        let mut error = ApiError::from(Status::failure(429, Reason::TooManyRequests, "later"));
        error.retry_after = Some(Duration::from_secs(seconds));
        error
    };
    for (name, error) in [
        ("x", Box::new(move || ReconcileError::from(throttled(30))) as Box<dyn Fn() -> ReconcileError + Send + Sync>),
        ("y", Box::new(|| ReconcileError::new("busy").retry_after(Duration::from_secs(30)))),
        ("z", Box::new(move || Wrapped(throttled(40_000_000)).into())),
    ] {
        let tries = AtomicUsize::new(0);
        calls.plan(name, move |_| match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Err(error()),
            _ => Ok(Action::await_change()),
        });
    }
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(2_000.0).await;
    let times = calls.take_timed();
    let second = |name: &str| times.iter().filter(|(_, called)| called == name).nth(1).unwrap().0.round();
    assert_eq!((second("x"), second("y"), second("z"), times.len()), (30.0, 30.0, 1_000.0, 6));
}

#[tokio::test(start_paused = true)]
async fn retry_after_applies_with_a_limiter_without_delay() {
    for has_changed in [false, true] {
        let (sites, calls, tries) = (sites_named(&["x"]), Recorder::taking(10.0), AtomicUsize::new(0));
        calls.plan("x", move |_| match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Err(ReconcileError::new("busy").retry_after(Duration::from_secs(30))),
            _ => Ok(Action::await_change()),
        });
        let config = ControllerConfig {
            queue: Some(Arc::new(|queue| {
                queue.limiter = Box::new(ExponentialFailureRateLimiter::new(Duration::ZERO, Duration::ZERO));
            })),
            ..ControllerConfig::default()
        };
        let controller = Controller::of(&informer(&sites)).config(config).reconciler(calls.clone());
        let _running = run(&controller).await;
        pass(1.0).await;
        if has_changed {
            sites.change(&key("x"), |site| site.metadata.generation += 1);
        }
        pass(1_000.0).await;
        let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
        assert_eq!(times, [0.0, if has_changed { 10.0 } else { 40.0 }], "changed: {has_changed}");
    }
}

/// The retry of `x` stays in the queue, because the only worker reconciles `y`.
#[tokio::test(start_paused = true)]
async fn change_of_a_queued_retry_adds_no_call() {
    let (sites, calls, tries) = (sites_named(&["x", "y"]), Recorder::taking(3.0), AtomicUsize::new(0));
    calls.plan("x", move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ReconcileError::new("no")),
        _ => Ok(Action::await_change()),
    });
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    // The reconciliation of `x` fails after 3 s, and the reconciliation of `y` ends after 6 s.
    pass(4.0).await;
    touch(&sites, "x");
    pass(200.0).await;
    assert_eq!(calls.take(), ["x", "y", "x"]);
}

/// Until the test sets `is_idle`, the only worker reconciles `y` after each reconciliation of `x`.
#[tokio::test(start_paused = true)]
async fn changes_of_queued_retries_are_not_early_retries() {
    let (sites, calls, is_idle) = (sites_named(&["x", "y"]), Recorder::taking(4.0), Arc::<AtomicBool>::default());
    let y_is_idle = is_idle.clone();
    calls.plan("x", |_| Err(ReconcileError::new("no")));
    calls.plan("y", move |_| {
        if y_is_idle.load(Ordering::Relaxed) {
            Ok(Action::await_change())
        } else {
            Ok(Action::requeue_after(Duration::from_millis(1)))
        }
    });
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    // Each change arrives 3 s after a failure of `x`. When the change arrives, the retry is already queued, because
    // its delay was shorter.
    pass(7.0).await;
    for _ in 0..10 {
        touch(&sites, "x");
        pass(8.0).await;
    }
    is_idle.store(true, Ordering::Relaxed);
    // By now, the delay is more than 300 s.
    pass(700.0).await;
    until_running(&calls).await;
    pass(5.0).await;
    calls.take();
    touch(&sites, "x");
    pass(31.0).await;
    assert_eq!(calls.take(), ["x"]);
}
