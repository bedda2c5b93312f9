//! Tests of metrics, including the tests of client-go and controller-runtime (rows M1, M2, C27, X11 and X12 in
//! tests/ROWS.md).

use std::any::Any;
use std::iter::zip;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, MetricKind, Provider, Pulled, Value};
use pintle_workqueue::ratelimit::{Clock, ManualClock, StdClock};
use pintle_workqueue::{AddOptions, MetricsStyle, Priority, QueueConfig, ShutdownMode, WorkQueue};

use crate::support::at;
use crate::watch::ends;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn named<K: 'static, C>(name: &str, style: MetricsStyle, memory: &InMemoryProvider, clock: C) -> QueueConfig<K, C> {
    QueueConfig {
        name: name.into(),
        order: Box::new(Priority::strict()),
        metrics: Some(Arc::new(memory.clone())),
        metrics_style: style,
        ..QueueConfig::new(clock)
    }
}

fn queue() -> (WorkQueue<&'static str, ManualClock>, ManualClock, InMemoryProvider) {
    let (clock, memory) = (ManualClock::new(), InMemoryProvider::new());
    (WorkQueue::new(named("q", MetricsStyle::ClientGo, &memory, clock.clone())), clock, memory)
}

fn value(memory: &InMemoryProvider, name: &str) -> Option<f64> {
    memory.value(&format!("workqueue_{name}"), &[])
}

fn seconds(memory: &InMemoryProvider, name: &str) -> Duration {
    Duration::from_secs_f64(value(memory, name).unwrap())
}

fn durations(memory: &InMemoryProvider, name: &str) -> (u64, Duration) {
    let found = memory.distribution(&format!("workqueue_{name}"), &[]).unwrap();
    (found.count(), Duration::from_secs_f64(found.sum()))
}

/// client-go stops its metrics ticker at shutdown. Pintle computes gauges when they are read, and removes them when the
/// queue is dropped.
#[test]
fn m1_metrics_end_with_the_queue() {
    let (queue, _clock, memory) = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    drop(queue.shut_down(ShutdownMode::Abandon));
    drop(queue);
    assert!(value(&memory, "unfinished_work_seconds").is_some(), "the key is still in flight");
    item.done();
    assert!(memory.samples().is_empty(), "{:?}", memory.samples());
}

#[test]
fn m2_metrics() {
    let (queue, clock, memory) = queue();
    let counts = || ["adds_total", "depth"].map(|name| value(&memory, name).unwrap());
    queue.add("foo");
    assert_eq!(counts(), [1.0, 1.0]);
    clock.advance(50 * US);

    let item = queue.try_get().unwrap();
    assert_eq!((durations(&memory, "queue_duration_seconds"), counts()), ((1, 50 * US), [1.0, 0.0]));
    // Five adds of an in-flight key count as one add. The key counts in `depth`, but not in `len`.
    for _ in 0..5 {
        queue.add("foo");
    }
    assert_eq!((counts(), queue.len()), ([2.0, 1.0], 0));
    clock.advance(25 * US);

    item.done();
    assert_eq!((durations(&memory, "work_duration_seconds"), counts()), ((1, 25 * US), [2.0, 1.0]));
    let item = queue.try_get().unwrap();
    assert_eq!(durations(&memory, "queue_duration_seconds"), (2, 75 * US));
    clock.advance(MS);
    for gauge in ["unfinished_work_seconds", "longest_running_processor_seconds"] {
        assert_eq!(seconds(&memory, gauge), MS, "{gauge}");
    }
    item.done();
    assert_eq!(durations(&memory, "work_duration_seconds"), (2, MS + 25 * US));
    for gauge in ["unfinished_work_seconds", "longest_running_processor_seconds", "oldest_queued_seconds", "delayed"] {
        assert_eq!(value(&memory, gauge), Some(0.0), "{gauge}");
    }
}

#[test]
fn delays_and_ages_are_reported() {
    let (queue, clock, memory) = queue();
    queue.add("a");
    clock.advance(MS);
    queue.add("b");
    queue.add_after("c", 10 * MS);
    queue.add_rate_limited("d");
    clock.advance(MS);
    assert_eq!((value(&memory, "delayed"), seconds(&memory, "oldest_queued_seconds")), (Some(2.0), 2 * MS));
    assert_eq!(durations(&memory, "retry_delay_seconds"), (1, 5 * MS));
    let (a, b) = (queue.try_get().unwrap(), queue.try_get().unwrap());
    clock.advance(MS);
    assert_eq!(seconds(&memory, "unfinished_work_seconds"), 2 * MS);
    a.done();
    for (gauge, expected) in [
        ("unfinished_work_seconds", MS),
        ("longest_running_processor_seconds", MS),
        ("oldest_queued_seconds", Duration::ZERO),
    ] {
        assert_eq!(seconds(&memory, gauge), expected, "{gauge}");
    }
    b.done();
    queue.cancel(&"c");
    assert_eq!(value(&memory, "delayed"), Some(1.0));
}

/// Removing the last key of a burst first updates the metrics of this key, and then frees the memory of the burst.
#[test]
fn removal_after_a_burst_updates_the_metrics() {
    let memory = InMemoryProvider::new();
    let queue: WorkQueue<u32, _> = WorkQueue::new(named("q", MetricsStyle::ClientGo, &memory, ManualClock::new()));
    (0..2000).for_each(|key| queue.add(key));
    (0..1999).for_each(|_| queue.try_get().unwrap().done());
    assert!(queue.remove(&1999));
    assert_eq!((value(&memory, "depth"), value(&memory, "oldest_queued_seconds")), (Some(0.0), Some(0.0)));
    queue.add(1);
    assert_eq!((value(&memory, "depth"), value(&memory, "adds_total")), (Some(1.0), Some(2001.0)));
}

/// Gauges are still updated after a shutdown, whereas client-go's gauges keep their last value.
#[test]
fn x12_gauges_after_shutdown() {
    let (queue, clock, memory) = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    drop(queue.shut_down(ShutdownMode::FinishInFlight));
    clock.advance(MS);
    assert_eq!(seconds(&memory, "unfinished_work_seconds"), MS);
    item.done();
    assert_eq!(seconds(&memory, "unfinished_work_seconds"), Duration::ZERO);
}

#[derive(Clone, Default)]
struct CountedClock(Arc<AtomicUsize>);

impl Clock for CountedClock {
    fn now(&self) -> Instant {
        self.0.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }
}

/// A queue without a metrics provider does not read the clock, and does not use another queue's provider, even under
/// the same name.
#[test]
fn no_metrics_without_a_provider() {
    let (memory, clock) = (InMemoryProvider::new(), CountedClock::default());
    let observed: WorkQueue<&str, _> = WorkQueue::new(named("q", MetricsStyle::ClientGo, &memory, clock.clone()));
    let untold: WorkQueue<&str, _> =
        WorkQueue::new(QueueConfig { metrics: None, ..named("q", MetricsStyle::ClientGo, &memory, clock.clone()) });
    let work = |queue: &WorkQueue<&'static str, CountedClock>| {
        let before = clock.0.load(Ordering::Relaxed);
        queue.add("foo");
        queue.try_get().unwrap().done();
        let adds = value(&memory, "adds_total").unwrap();
        (adds, clock.0.load(Ordering::Relaxed) - before)
    };
    assert_eq!(work(&observed), (1.0, 3));
    assert_eq!(work(&untold), (1.0, 0));
}

#[test]
fn dropped_queue_no_longer_counts_in_the_depth() {
    for style in [MetricsStyle::ClientGo, MetricsStyle::ControllerRuntime] {
        let memory = InMemoryProvider::new();
        let [one, other] = [5, 2].map(|keys| {
            let queue: WorkQueue<i32, _> = WorkQueue::new(named("sites", style, &memory, StdClock));
            for key in 0..keys {
                queue.add(key);
            }
            queue
        });
        assert_eq!(value(&memory, "depth"), Some(7.0));
        drop(one);
        assert_eq!((value(&memory, "depth"), value(&memory, "adds_total")), (Some(2.0), Some(7.0)), "{style:?}");
        drop(other);
        assert!(memory.samples().is_empty(), "{style:?}: {:?}", memory.samples());
    }
}

#[test]
fn series_match_client_go_and_controller_runtime() {
    let names = [
        ("adds_total", "counter"),
        ("depth", "gauge"),
        ("longest_running_processor_seconds", "gauge"),
        ("queue_duration_seconds", "histogram"),
        ("retries_total", "counter"),
        ("unfinished_work_seconds", "gauge"),
        ("work_duration_seconds", "histogram"),
    ];
    let ours = ["delayed", "oldest_queued_seconds", "retry_delay_seconds"];
    for (style, labels, of_depth, buckets, last) in [
        (MetricsStyle::ClientGo, &["name"][..], &["name"][..], 10, 10.0),
        (MetricsStyle::ControllerRuntime, &["name", "controller"], &["name", "controller", "priority"], 12, 1000.0),
    ] {
        let memory = InMemoryProvider::new();
        let queue: WorkQueue<i32, _> = WorkQueue::new(named("sites", style, &memory, StdClock));
        queue.add_with(1, at(-100));
        let found: Vec<_> =
            memory.samples().into_iter().filter(|sample| !ours.contains(&&sample.metric.name[10..])).collect();
        assert_eq!(found.len(), names.len(), "{found:?}");
        for (sample, (name, kind)) in zip(&found, names) {
            assert_eq!(sample.metric.name, format!("workqueue_{name}"));
            let expected = if name == "depth" { of_depth } else { labels };
            assert_eq!(sample.metric.labels, expected, "{name}");
            let values = ["sites", "sites", "-100"];
            assert_eq!(sample.labels, values[..expected.len()], "{name}");
            match (sample.metric.kind, kind) {
                (MetricKind::Counter, "counter") | (MetricKind::Gauge | MetricKind::MaxGauge, "gauge") => {}
                (MetricKind::Histogram(bounds), "histogram") => {
                    assert_eq!((bounds.len(), bounds[0], bounds[buckets - 1]), (buckets, 1e-8, last));
                }
                (found, _) => panic!("{name} is a {found:?}"),
            }
        }
    }
}

#[test]
fn controller_runtime_style_ignores_zero_delays() {
    for (style, expected) in [(MetricsStyle::ClientGo, 2.0), (MetricsStyle::ControllerRuntime, 1.0)] {
        let memory = InMemoryProvider::new();
        let queue: WorkQueue<&str, _> = WorkQueue::new(named("q", style, &memory, ManualClock::new()));
        queue.add_after("a", Duration::ZERO);
        queue.add_after("b", MS);
        assert_eq!(value(&memory, "retries_total"), Some(expected), "{style:?}");
    }
}

/// The histogram `workqueue_retry_delay_seconds` records the limiter's delay, even if the caller requested a shorter
/// delay. The retry counter instead depends on the shorter delay.
#[test]
fn limiter_delay_is_reported_unchanged() {
    for (after, delayed) in [(Duration::ZERO, 0.0), (2 * MS, 1.0)] {
        let memory = InMemoryProvider::new();
        let config = named("q", MetricsStyle::ControllerRuntime, &memory, ManualClock::new());
        let queue: WorkQueue<&str, _> = WorkQueue::new(config);
        queue.add_with("a", AddOptions { after: Some(after), rate_limited: true, ..AddOptions::default() });
        assert_eq!(durations(&memory, "retry_delay_seconds"), (1, 5 * MS), "{after:?}");
        assert_eq!(value(&memory, "retries_total"), Some(delayed), "{after:?}");
    }
}

#[test]
fn scrape_works_while_queues_are_created_and_dropped() {
    let (memory, done) = (InMemoryProvider::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for sample in memory.samples() {
                    let Value::Gauge(value) = sample.value else { continue };
                    assert!(value >= 0.0, "{} is {value}", sample.metric.name);
                }
            }
        });
        let owners: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..100 {
                        let name = ["a", "b"][round % 2];
                        let config = named(name, MetricsStyle::ControllerRuntime, &memory, StdClock);
                        let queue: WorkQueue<usize> = WorkQueue::new(config);
                        for key in 0..40 {
                            queue.add_with(key, at(key as i32));
                        }
                        let _held: Vec<_> = (0..round % 30).map(|_| queue.try_get().unwrap()).collect();
                    }
                })
            })
            .collect();
        owners.into_iter().for_each(|owner| owner.join().unwrap());
        done.store(true, Ordering::Relaxed);
        scraper.join().unwrap();
    });
    assert!(memory.samples().is_empty());
}

fn by_priority<K: Eq + Send + 'static>() -> (WorkQueue<K, ManualClock>, InMemoryProvider) {
    let memory = InMemoryProvider::new();
    (WorkQueue::new(named("q", MetricsStyle::ControllerRuntime, &memory, ManualClock::new())), memory)
}

fn depths(memory: &InMemoryProvider) -> (usize, Option<f64>) {
    let all = memory.samples().iter().filter(|sample| sample.metric.name == "workqueue_depth").count();
    (all, memory.value("workqueue_depth", &[("priority", "exceeded_cardinality_limit")]))
}

#[test]
fn c27a_cardinality_limit() {
    for (distinct, expected) in [(10, (10, None)), (25, (25, None)), (26, (26, Some(1.0))), (30, (26, Some(5.0)))] {
        let (queue, memory) = by_priority();
        thread::scope(|scope| {
            for priority in 0..distinct {
                let queue = &queue;
                scope.spawn(move || queue.add_with(priority, at(priority)));
            }
        });
        assert_eq!(depths(&memory), expected, "{distinct}");
    }
}

#[test]
fn c27b_same_priority_many_adds() {
    let (queue, memory) = by_priority();
    thread::scope(|scope| {
        for key in 0..200 {
            let queue = &queue;
            scope.spawn(move || queue.add_with(key, at(1)));
        }
    });
    assert_eq!(depths(&memory), (1, None));
    assert_eq!(memory.value("workqueue_depth", &[("priority", "1")]), Some(200.0));
}

/// Dequeuing a key changes the same series as adding it, so no series keeps an outdated value or becomes negative.
#[test]
fn x11_cardinality_latch_then_decrements() {
    let (queue, memory) = by_priority();
    for priority in 0..30 {
        queue.add_with(priority, at(priority));
    }
    while queue.try_get().is_ok() {}
    assert_eq!(depths(&memory), (26, Some(0.0)));
    for sample in memory.samples().iter().filter(|sample| sample.metric.name == "workqueue_depth") {
        assert_eq!(sample.value, Value::Gauge(0.0), "{:?}", sample.labels);
    }
}

/// No call uses the queue when three delays end, because all workers are busy.
#[test]
fn key_due_during_busy_workers_ages_from_its_deadline() {
    for style in [MetricsStyle::ClientGo, MetricsStyle::ControllerRuntime] {
        for first in ["depth", "delayed", "oldest_queued_seconds"] {
            let (clock, memory) = (ManualClock::new(), InMemoryProvider::new());
            let queue: WorkQueue<&str, _> = WorkQueue::new(named("q", style, &memory, clock.clone()));
            queue.add("long");
            let busy = queue.try_get().unwrap();
            for (priority, key) in zip(0.., ["a", "b", "c"]) {
                queue.add_with(key, AddOptions { after: Some(1000 * MS), priority, ..AddOptions::default() });
            }
            clock.advance(20_000 * MS);
            queue.add_with("now", at(7));
            clock.advance(40_000 * MS);
            // The values of the gauges must not depend on the order in which the test reads them.
            _ = value(&memory, first);
            assert_eq!((value(&memory, "depth"), value(&memory, "delayed")), (Some(4.0), Some(0.0)), "{first}");
            assert_eq!(seconds(&memory, "oldest_queued_seconds"), 59_000 * MS);
            busy.done();
            let taken: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).collect();
            assert_eq!(taken.len(), 4);
            assert_eq!(durations(&memory, "queue_duration_seconds"), (5, (3 * 59_000 + 40_000) * MS));
            assert_eq!(
                (value(&memory, "depth"), seconds(&memory, "oldest_queued_seconds")),
                (Some(0.0), Duration::ZERO)
            );
        }
    }
}

/// The queue notices the end of a delay only when the key is added again.
#[test]
fn key_added_after_its_delay_ages_from_the_deadline() {
    let (queue, clock, memory) = queue();
    queue.add_after("a", MS);
    queue.add_after("b", 2 * MS);
    clock.advance(10 * MS);
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.try_get().map(|item| *item), Ok("b"));
    assert_eq!(durations(&memory, "queue_duration_seconds"), (1, 8 * MS));
    assert_eq!(seconds(&memory, "oldest_queued_seconds"), 9 * MS);
}

#[derive(Debug)]
struct Eager(InMemoryProvider);

impl Provider for Eager {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        self.0.counter(metric, labels)
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        self.0.gauge(metric, labels)
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        self.0.histogram(metric, labels)
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        _ = read();
        self.0.pulled(metric, labels, read)
    }
}

#[test]
fn provider_can_read_a_gauge_during_registration() {
    ends(|| {
        let (memory, style) = (InMemoryProvider::new(), MetricsStyle::ControllerRuntime);
        let config = QueueConfig {
            metrics: Some(Arc::new(Eager(memory.clone()))),
            ..named("q", style, &memory, ManualClock::new())
        };
        let queue: WorkQueue<&str, _> = WorkQueue::new(config);
        queue.add_with("a", at(3));
        queue.add_with("a", at(5));
        let depth = |priority| memory.value("workqueue_depth", &[("priority", priority)]);
        assert_eq!((depth("3"), depth("5")), (Some(0.0), Some(1.0)));
    });
}
