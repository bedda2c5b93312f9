//! What a controller tells of its work, whose its provider is, and for how long.

use std::sync::Arc;

use pintle_controller::{Action, Controller, ControllerConfig, QueueSetup, ReconcileError};
use pintle_workqueue::MetricsStyle;

use crate::recorder::{Recorder, Told, pass, run};
use crate::support::{informer, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn the_metrics_tell_what_happened() {
    let sites = sites_named(&["a", "b", "c", "d"]);
    let (calls, told) = (Recorder::taking(1.0), Told::default());
    let controller = Controller::of(&informer(&sites));
    let controller = controller.config(told.config()).reconciler(calls);
    let _running = run(&controller).await;
    let queue = |name: &str| told.0.value(&format!("workqueue_{name}"), &[("name", "site"), ("controller", "site")]);
    assert_eq!((told.numbers(["active_workers"]), queue("depth"), queue("adds_total")), ([1.0], Some(3.0), Some(4.0)));
    pass(5.0).await;
    assert_eq!((told.numbers(["active_workers"]), queue("depth"), told.results()), ([0.0], Some(0.0), [4.0, 0.0, 0.0]));
    // They waited for 0, 1, 2 and 3 seconds.
    let waited = told.0.distribution("workqueue_queue_duration_seconds", &[]).unwrap();
    let (p50, p99) = (waited.quantile(0.5).unwrap(), waited.quantile(0.99).unwrap());
    assert!((1.0..1.1).contains(&p50) && (3.0..3.2).contains(&p99), "{p50} {p99}");
    let took = told.0.distribution("controller_runtime_reconcile_time_seconds", &[]).unwrap();
    assert_eq!((took.count(), took.sum().round()), (4, 4.0));
}

#[tokio::test(start_paused = true)]
async fn the_depth_counts_a_key_that_is_added_again_while_it_is_reconciled() {
    let sites = sites_named(&["a"]);
    let told = Told::default();
    let controller = Controller::of(&informer(&sites)).config(told.config()).reconciler(Recorder::taking(10.0));
    let _running = run(&controller).await;
    assert_eq!(told.0.value("workqueue_depth", &[]), Some(0.0));
    touch(&sites, "a");
    pass(0.1).await;
    assert_eq!(told.0.value("workqueue_depth", &[]), Some(1.0));
}

/// Name, kind and labels by controller-runtime.
#[tokio::test(start_paused = true)]
async fn the_series_are_those_of_controller_runtime_and_go_with_their_owners() {
    let told = Told::default();
    let controller = Controller::of(&informer(&sites_named(&["a"]))).config(told.config());
    let controller = controller.reconciler(Recorder::new());
    let found = || {
        let samples = told.0.samples().into_iter();
        samples.map(|sample| (sample.metric.name.to_owned(), sample.labels.join(" "))).collect::<Vec<_>>()
    };
    let of_controller = [
        ("active_workers", "site"),
        ("blocked_workers", "site"),
        ("max_concurrent_reconciles", "site"),
        ("reconcile_errors_total", "site"),
        ("reconcile_panics_total", "site"),
        ("reconcile_time_seconds", "site"),
        ("reconcile_timeouts_total", "site"),
        ("reconcile_total", "site conflict"),
        ("reconcile_total", "site error"),
        ("reconcile_total", "site requeue_after"),
        ("reconcile_total", "site success"),
        ("terminal_reconcile_errors_total", "site"),
    ];
    let expected: Vec<_> = of_controller
        .iter()
        .map(|(name, labels)| (format!("controller_runtime_{name}"), (*labels).to_owned()))
        .collect();
    assert_eq!(found(), expected);
    for sample in told.0.samples() {
        let (name, metric) = (sample.metric.name, sample.metric);
        let labels = if name.ends_with("reconcile_total") { &["controller", "result"][..] } else { &["controller"] };
        assert_eq!(metric.labels, labels, "{name}");
        match metric.kind {
            pintle_metrics::MetricKind::Counter => assert!(name.ends_with("_total"), "{name}"),
            pintle_metrics::MetricKind::Histogram(bounds) => {
                assert_eq!((bounds.len(), bounds[39]), (40, 60.0), "{name}")
            }
            _ => assert!(!name.ends_with("_total"), "{name}"),
        }
    }
    let running = run(&controller).await;
    let queue = found().into_iter().filter(|(name, _)| name.starts_with("workqueue_")).count();
    assert_eq!((queue, found().len()), (10, expected.len() + 10));
    running.stop().await.unwrap();
    assert_eq!(found(), expected, "the queue went with its run");
    drop(controller);
    assert_eq!(found(), []);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_the_user_gave_the_queue_is_not_overwritten() {
    let (told, of_queue) = (Told::default(), Told::default());
    let theirs = of_queue.provider();
    let queue: QueueSetup = Arc::new(move |queue| {
        queue.metrics = theirs.clone();
        queue.metrics_style = MetricsStyle::ClientGo;
    });
    let config = ControllerConfig { queue: Some(queue), ..told.config() };
    let controller = Controller::of(&informer(&sites_named(&["a"]))).config(config);
    let controller = controller.reconciler(Recorder::new());
    let _running = run(&controller).await;
    assert_eq!(told.results(), [1.0, 0.0, 0.0]);
    assert_eq!(told.0.value("workqueue_adds_total", &[]), None);
    assert_eq!(of_queue.0.value("workqueue_adds_total", &[("name", "site")]), Some(1.0));
    assert_eq!(of_queue.0.samples().iter().map(|sample| sample.labels.len()).max(), Some(1), "client-go's labels");
}

#[tokio::test(start_paused = true)]
async fn without_a_provider_a_controller_tells_nothing_and_works() {
    let told = Told::default();
    let other = Controller::of(&informer(&sites_named(&["a"]))).config(told.config());
    let _other = other.reconciler(Recorder::new());
    let calls = Recorder::new();
    calls.plan("a", |_| Err::<Action, _>(ReconcileError::terminal("it makes no sense")));
    let controller = Controller::of(&informer(&sites_named(&["a"]))).reconciler(calls.clone());
    let _running = run(&controller).await;
    assert_eq!((calls.take().len(), told.results()), (1, [0.0; 3]));
    assert_eq!(told.0.value("workqueue_adds_total", &[]), None);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_add_up() {
    let told = Told::default();
    let make = || {
        let controller = Controller::of(&informer(&sites_named(&["a"])));
        let config = ControllerConfig { max_concurrent_reconciles: 3, ..told.config() };
        controller.config(config).reconciler(Recorder::taking(5.0))
    };
    let (one, other) = (make(), make());
    let (running, still) = (run(&one).await, run(&other).await);
    assert_eq!(told.numbers(["max_concurrent_reconciles", "active_workers"]), [6.0, 2.0]);
    running.stop().await.unwrap();
    pass(1.0).await;
    drop(one);
    assert_eq!(told.numbers(["max_concurrent_reconciles", "reconcile_total"]), [3.0, 2.0]);
    still.stop().await.unwrap();
}
