//! Tests of the in-memory provider.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider, Value};

static COUNT: Metric = Metric { name: "count_total", help: "A count", kind: MetricKind::Counter, labels: &["name"] };
static LEVEL: Metric = Metric { name: "level", help: "A level", kind: MetricKind::Gauge, labels: &["name"] };
static OLDEST: Metric = Metric { name: "oldest", help: "An age", kind: MetricKind::MaxGauge, labels: &["name"] };
static TIME: Metric =
    Metric { name: "time", help: "A time", kind: MetricKind::Histogram(&[1.0, 2.0]), labels: &["name", "verb"] };

#[test]
fn series_exists_while_it_has_instruments() {
    let memory = InMemoryProvider::new();
    let names = || memory.samples().iter().map(|sample| sample.metric.name).collect::<Vec<_>>();
    let time = memory.histogram(&TIME, &["a", "GET"]);
    let (count, again) = (memory.counter(&COUNT, &["a"]), memory.counter(&COUNT, &["a"]));
    let level = memory.gauge(&LEVEL, &["a"]);
    let pulled = memory.pulled(&OLDEST, &["a"], Box::new(|| 1.0));
    assert_eq!(names(), ["count_total", "level", "oldest", "time"]);
    drop((count, level, time));
    assert_eq!(names(), ["count_total", "oldest"]);
    drop((again, pulled));
    assert!(names().is_empty());
}

#[test]
fn dropped_gauge_removes_its_value() {
    let memory = InMemoryProvider::new();
    let level = || memory.value("level", &[("name", "a")]);
    let (one, other) = (memory.gauge(&LEVEL, &["a"]), memory.gauge(&LEVEL, &["a"]));
    let pulled = memory.pulled(&LEVEL, &["a"], Box::new(|| 0.5));
    one.add(5);
    other.add(3);
    one.add(-1);
    assert_eq!(level(), Some(7.5));
    drop(one);
    assert_eq!(level(), Some(3.5));
    drop(other);
    assert_eq!(level(), Some(0.5));
    drop(pulled);
    assert_eq!(level(), None);
}

/// Prometheus interprets a decreasing counter as a reset, and would count the remaining value twice.
#[test]
fn counters_and_histograms_never_decrease_while_shared() {
    let memory = InMemoryProvider::new();
    let (one, other) = (memory.counter(&COUNT, &["a"]), memory.counter(&COUNT, &["a"]));
    one.add(5);
    other.add(3);
    drop(one);
    assert_eq!(memory.value("count_total", &[]), Some(8.0));
    drop(other);
    assert_eq!(memory.value("count_total", &[]), None);

    let (one, other) = (memory.histogram(&TIME, &["a", "GET"]), memory.histogram(&TIME, &["a", "GET"]));
    one.observe(0.5);
    other.observe(1.5);
    drop(one);
    let found = memory.distribution("time", &[]).unwrap();
    assert_eq!((found.count(), found.sum()), (2, 2.0));
    drop(other);
    assert_eq!(memory.distribution("time", &[]), None);
}

#[test]
fn max_gauge_returns_its_largest_share() {
    let memory = InMemoryProvider::new();
    let _shares = [3.0, 7.0, 5.0].map(|age| memory.pulled(&OLDEST, &["a"], Box::new(move || age)));
    assert_eq!(memory.value("oldest", &[]), Some(7.0));
}

#[test]
fn series_are_read_by_name_and_partial_labels() {
    let memory = InMemoryProvider::new();
    let _times = [("a", "GET", 0.5), ("a", "PUT", 1.5), ("b", "GET", 2.5)].map(|(name, verb, seconds)| {
        let time = memory.histogram(&TIME, &[name, verb]);
        time.observe(seconds);
        time
    });
    for (labels, sum) in [
        (&[][..], Some(4.5)),
        (&[("name", "a")], Some(2.0)),
        (&[("verb", "GET")], Some(3.0)),
        (&[("verb", "GET"), ("name", "b")], Some(2.5)),
        (&[("verb", "POST")], None),
        (&[("host", "a")], None),
    ] {
        assert_eq!(memory.distribution("time", labels).map(|found| found.sum()), sum, "{labels:?}");
    }
    assert_eq!(memory.value("time", &[]), None, "a histogram has no single value");
    let labels: Vec<_> = memory.samples().iter().map(|sample| sample.labels.join(" ")).collect();
    assert_eq!(labels, ["a GET", "a PUT", "b GET"]);
}

#[test]
#[should_panic(expected = "level is a Gauge")]
fn counter_for_a_gauge_metric_panics() {
    InMemoryProvider::new().counter(&LEVEL, &["a"]);
}

#[test]
#[should_panic(expected = "time has the labels [\"name\", \"verb\"]")]
fn missing_label_panics() {
    InMemoryProvider::new().histogram(&TIME, &["a"]);
}

/// A component creates and uses instruments while it holds its lock. The functions of its pulled gauges acquire the
/// same lock.
#[test]
fn concurrent_scrapes_and_components_do_not_deadlock() {
    let memory = InMemoryProvider::new();
    let done = Arc::new(AtomicBool::new(false));
    let scrapes = thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let mut scrapes = 0;
            while !done.load(Ordering::Relaxed) || scrapes == 0 {
                for sample in memory.samples() {
                    if let Value::Gauge(value) = sample.value {
                        assert!((0.0..=200.0).contains(&value), "{sample:?}");
                    }
                }
                scrapes += 1;
            }
            scrapes
        });
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..200 {
                        let state = Arc::new(Mutex::new(0));
                        let read = state.clone();
                        let pulled = memory.pulled(&LEVEL, &["a"], Box::new(move || f64::from(*read.lock().unwrap())));
                        let mut levels = Vec::new();
                        for step in 0..5 {
                            let mut state = state.lock().unwrap();
                            *state += 1;
                            let level = memory.gauge(&LEVEL, &[["a", "b"][(round + step) % 2]]);
                            level.add(1);
                            levels.push(level);
                        }
                        drop(pulled);
                        let _locked = state.lock().unwrap();
                        drop(levels);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        scraper.join().unwrap()
    });
    assert!(scrapes > 0 && memory.samples().is_empty());
}

/// `read` may lock the component, so the provider must not hold a lock during the call.
#[test]
fn dropped_gauge_is_not_read() {
    let (memory, reads) = (InMemoryProvider::new(), Arc::new(AtomicUsize::new(0)));
    let pulled = [(); 2].map(|()| {
        let reads = Arc::clone(&reads);
        let read = move || reads.fetch_add(1, Ordering::Relaxed) as f64;
        memory.pulled(&LEVEL, &["a"], Box::new(read))
    });
    drop(pulled);
    assert_eq!((reads.load(Ordering::Relaxed), memory.samples().len()), (0, 0));
}
