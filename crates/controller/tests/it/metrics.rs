//! Tests of a controller's metrics: their values, providers and lifetimes.

use std::sync::Arc;

use pintle_controller::{Action, Controller, ControllerConfig, QueueSetup, ReconcileError};
use pintle_workqueue::MetricsStyle;

use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{informer, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn metrics_match_the_reconciliations() {
    let sites = sites_named(&["a", "b", "c", "d"]);
    let (calls, metrics) = (Recorder::taking(1.0), TestMetrics::default());
    let controller = Controller::of(&informer(&sites));
    let controller = controller.config(metrics.config()).reconciler(calls);
    let _running = run(&controller).await;
    let queue = |name: &str| metrics.0.value(&format!("workqueue_{name}"), &[("name", "site"), ("controller", "site")]);
    assert_eq!(
        (metrics.numbers(["active_workers"]), queue("depth"), queue("adds_total")),
        ([1.0], Some(3.0), Some(4.0))
    );
    pass(5.0).await;
    assert_eq!(
        (metrics.numbers(["active_workers"]), queue("depth"), metrics.results()),
        ([0.0], Some(0.0), [4.0, 0.0, 0.0])
    );
    // The four keys were queued for 0, 1, 2 and 3 seconds.
    let waited = metrics.0.distribution("workqueue_queue_duration_seconds", &[]).unwrap();
    let (p50, p99) = (waited.quantile(0.5).unwrap(), waited.quantile(0.99).unwrap());
    assert!((1.0..1.1).contains(&p50) && (3.0..3.2).contains(&p99), "{p50} {p99}");
    let took = metrics.0.distribution("controller_runtime_reconcile_time_seconds", &[]).unwrap();
    assert_eq!((took.count(), took.sum().round()), (4, 4.0));
}

#[tokio::test(start_paused = true)]
async fn depth_counts_keys_added_again_while_in_flight() {
    let sites = sites_named(&["a"]);
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(Recorder::taking(10.0));
    let _running = run(&controller).await;
    assert_eq!(metrics.0.value("workqueue_depth", &[]), Some(0.0));
    touch(&sites, "a");
    pass(0.1).await;
    assert_eq!(metrics.0.value("workqueue_depth", &[]), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn series_match_controller_runtime_and_end_with_owners() {
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites_named(&["a"]))).config(metrics.config());
    let controller = controller.reconciler(Recorder::new());
    let found = || {
        let samples = metrics.0.samples().into_iter();
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
    for sample in metrics.0.samples() {
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
    assert_eq!(found(), expected, "the queue's series end with the run");
    drop(controller);
    assert_eq!(found(), []);
}

#[tokio::test(start_paused = true)]
async fn provider_set_for_the_queue_is_kept() {
    let (metrics, of_queue) = (TestMetrics::default(), TestMetrics::default());
    let theirs = of_queue.provider();
    let queue: QueueSetup = Arc::new(move |queue| {
        queue.metrics = theirs.clone();
        queue.metrics_style = MetricsStyle::ClientGo;
    });
    let config = ControllerConfig { queue: Some(queue), ..metrics.config() };
    let controller = Controller::of(&informer(&sites_named(&["a"]))).config(config);
    let controller = controller.reconciler(Recorder::new());
    let _running = run(&controller).await;
    assert_eq!(metrics.results(), [1.0, 0.0, 0.0]);
    assert_eq!(metrics.0.value("workqueue_adds_total", &[]), None);
    assert_eq!(of_queue.0.value("workqueue_adds_total", &[("name", "site")]), Some(1.0));
    assert_eq!(of_queue.0.samples().iter().map(|sample| sample.labels.len()).max(), Some(1), "client-go's labels");
}

#[tokio::test(start_paused = true)]
async fn controller_works_without_a_provider() {
    let metrics = TestMetrics::default();
    let other = Controller::of(&informer(&sites_named(&["a"]))).config(metrics.config());
    let _other = other.reconciler(Recorder::new());
    let calls = Recorder::new();
    calls.plan("a", |_| Err::<Action, _>(ReconcileError::terminal("it makes no sense")));
    let controller = Controller::of(&informer(&sites_named(&["a"]))).reconciler(calls.clone());
    let _running = run(&controller).await;
    assert_eq!((calls.take().len(), metrics.results()), (1, [0.0; 3]));
    assert_eq!(metrics.0.value("workqueue_adds_total", &[]), None);
}

#[tokio::test(start_paused = true)]
async fn controllers_with_the_same_name_share_series() {
    let metrics = TestMetrics::default();
    let make = || {
        let controller = Controller::of(&informer(&sites_named(&["a"])));
        let config = ControllerConfig { max_concurrent_reconciles: 3, ..metrics.config() };
        controller.config(config).reconciler(Recorder::taking(5.0))
    };
    let (one, other) = (make(), make());
    let (running, still) = (run(&one).await, run(&other).await);
    assert_eq!(metrics.numbers(["max_concurrent_reconciles", "active_workers"]), [6.0, 2.0]);
    running.stop().await.unwrap();
    pass(1.0).await;
    drop(one);
    assert_eq!(metrics.numbers(["max_concurrent_reconciles", "reconcile_total"]), [3.0, 2.0]);
    still.stop().await.unwrap();
}
