//! client-go's tests of its metrics, M1 and M2, controller-runtime's C27, and X11 and X12.

use std::sync::Arc;
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Queue, QueueConfig, RateLimitingQueue, ShutdownMode};

use crate::recorder::Recorder;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn queue() -> (RateLimitingQueue<&'static str, ManualClock>, ManualClock, Recorder) {
    let (clock, metrics) = (ManualClock::new(), Recorder::default());
    let mut config = QueueConfig::new(clock.clone());
    config.metrics = Some(Arc::new(metrics.clone()));
    (RateLimitingQueue::new(config), clock, metrics)
}

/// There, a ticker that is stopped by the shutdown. Here, nothing ticks: the gauges are read, and are gone with the queue.
#[test]
fn m1_metrics_end_with_the_queue() {
    let (queue, _clock, metrics) = queue();
    let gauges = metrics.read().gauges.unwrap();
    queue.add("foo");
    assert!(gauges.read().is_some() && !metrics.read().dropped);
    drop(queue.shut_down(ShutdownMode::Abandon));
    drop(queue);
    assert!(gauges.read().is_none() && metrics.read().dropped);
}

#[test]
fn m2_metrics() {
    let (queue, clock, metrics) = queue();
    queue.add("foo");
    assert_eq!(metrics.counts(), (1, 0, vec![(0, 1)]));
    clock.advance(50 * US);

    let item = queue.try_get().unwrap();
    assert_eq!((metrics.read().queue_durations, metrics.counts().2), (vec![50 * US], vec![(0, 0)]));
    // Five adds while it is held are one, which is not in `len` but in the depth.
    for _ in 0..5 {
        queue.add("foo");
    }
    assert_eq!((metrics.counts(), queue.len()), ((2, 0, vec![(0, 1)]), 0));
    clock.advance(25 * US);

    item.done();
    assert_eq!((metrics.read().work_durations, metrics.counts().2), (vec![25 * US], vec![(0, 1)]));
    let item = queue.try_get().unwrap();
    assert_eq!(metrics.read().queue_durations, [50 * US, 25 * US]);
    clock.advance(MS);
    let gauges = metrics.read().gauges.unwrap();
    let read = gauges.read().unwrap();
    assert_eq!((read.unfinished_work, read.longest_running_processor), (MS, MS));
    item.done();
    assert_eq!(metrics.read().work_durations, [25 * US, MS]);
    assert_eq!(gauges.read().unwrap(), Default::default());
}

#[test]
fn delays_and_ages_are_told() {
    let (queue, clock, metrics) = queue();
    let gauges = metrics.read().gauges.unwrap();
    queue.add("a");
    clock.advance(MS);
    queue.add("b");
    queue.add_after("c", 10 * MS);
    queue.add_rate_limited("d");
    clock.advance(MS);
    let read = gauges.read().unwrap();
    assert_eq!((read.delayed, read.oldest_queued), (2, 2 * MS));
    assert_eq!(metrics.read().retry_delays, [5 * MS]);
    let (a, b) = (queue.try_get().unwrap(), queue.try_get().unwrap());
    clock.advance(MS);
    assert_eq!(gauges.read().unwrap().unfinished_work, 2 * MS);
    a.done();
    let read = gauges.read().unwrap();
    assert_eq!((read.unfinished_work, read.longest_running_processor, read.oldest_queued), (MS, MS, Duration::ZERO));
    b.done();
    queue.cancel(&"c");
    assert_eq!(gauges.read().unwrap().delayed, 1);
}

/// They go on to tell the truth, where client-go's freeze at their last value.
#[test]
fn x12_gauges_after_shutdown() {
    let (queue, clock, metrics) = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    drop(queue.shut_down(ShutdownMode::FinishInFlight));
    clock.advance(MS);
    let gauges = metrics.read().gauges.unwrap();
    assert_eq!(gauges.read().unwrap().unfinished_work, MS);
    item.done();
    assert_eq!(gauges.read().unwrap().unfinished_work, Duration::ZERO);
}

#[test]
fn without_a_provider_nothing_is_told() {
    let queue: Queue<&str> = Queue::default();
    queue.add("foo");
    assert!(queue.blocking_get().is_some());
}

#[cfg(feature = "prometheus-client")]
mod prometheus {
    use pintle_workqueue::{Order, Priority, PrometheusMetrics};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    fn named<K: 'static>(
        name: &str,
        metrics: &Arc<PrometheusMetrics>,
    ) -> (RateLimitingQueue<K, ManualClock>, ManualClock) {
        let clock = ManualClock::new();
        let mut config = QueueConfig::new(clock.clone());
        config.name = name.into();
        config.metrics = Some(Arc::clone(metrics) as _);
        config.order = Box::new(Priority::strict()) as Box<dyn Order<K>>;
        (RateLimitingQueue::new(config), clock)
    }

    #[test]
    fn the_series_are_those_of_client_go() {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::client_go(&mut registry));
        let (queue, clock) = named("sites", &metrics);
        queue.add("a");
        queue.add_after("b", MS);
        clock.advance(MS);
        let _held = (queue.try_get().unwrap(), queue.try_get().unwrap());
        clock.advance(20 * MS);
        let text = text(&registry);
        for line in [
            r#"workqueue_adds_total{name="sites"} 2"#,
            r#"workqueue_depth{name="sites"} 0"#,
            r#"workqueue_retries_total{name="sites"} 1"#,
            r#"workqueue_queue_duration_seconds_count{name="sites"} 2"#,
            r#"workqueue_queue_duration_seconds_bucket{le="10.0",name="sites"} 2"#,
            r#"workqueue_work_duration_seconds_count{name="sites"} 0"#,
            r#"workqueue_unfinished_work_seconds{name="sites"} 0.04"#,
            r#"workqueue_longest_running_processor_seconds{name="sites"} 0.02"#,
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains(r#"le="100.0""#), "{text}");
    }

    #[test]
    fn the_series_are_those_of_controller_runtime_and_go_with_the_queue() {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::controller_runtime(&mut registry));
        let (queue, _) = named("sites", &metrics);
        let (other, _) = named("other", &metrics);
        other.add("x");
        queue.add_with_priority("a", -100);
        let before = text(&registry);
        for line in [
            r#"workqueue_depth{name="sites",controller="sites",priority="-100"} 1"#,
            r#"workqueue_queue_duration_seconds_bucket{le="1000.0",name="sites",controller="sites"} 0"#,
            r#"workqueue_delayed{name="sites",controller="sites"} 0"#,
        ] {
            assert!(before.contains(line), "{line}\nis not in\n{before}");
        }
        drop(queue);
        let after = text(&registry);
        assert!(!after.contains("sites") && after.contains("other"), "{after}");
    }

    /// How many series of the depth there are, and what the one for all other priorities says.
    fn depths(distinct: i32) -> (usize, Option<i64>) {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::controller_runtime(&mut registry));
        let (queue, _) = named("q", &metrics);
        std::thread::scope(|scope| {
            for priority in 0..distinct {
                let queue = &queue;
                scope.spawn(move || queue.add_with_priority(priority, priority));
            }
        });
        let text = text(&registry);
        let lines = text.lines().filter(|line| line.starts_with("workqueue_depth{"));
        let other = lines.clone().find(|line| line.contains("exceeded_cardinality_limit"));
        (lines.count(), other.and_then(|line| line.rsplit(' ').next()?.parse().ok()))
    }

    #[test]
    fn c27a_cardinality_limit() {
        assert_eq!(depths(10), (10, None));
        assert_eq!(depths(25), (25, None));
        assert_eq!(depths(26), (26, Some(1)));
        assert_eq!(depths(30), (26, Some(5)));
    }

    #[test]
    fn c27b_same_priority_many_adds() {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::controller_runtime(&mut registry));
        let (queue, _) = named("q", &metrics);
        std::thread::scope(|scope| {
            for key in 0..200 {
                let queue = &queue;
                scope.spawn(move || queue.add_with_priority(key, 1));
            }
        });
        let text = text(&registry);
        assert!(text.contains(r#"workqueue_depth{name="q",controller="q",priority="1"} 200"#), "{text}");
        assert!(!text.contains("exceeded_cardinality_limit"));
    }

    /// A priority counts down where it has counted up: no series freezes, and none goes below zero.
    #[test]
    fn x11_cardinality_latch_then_decrements() {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::controller_runtime(&mut registry));
        let (queue, _) = named("q", &metrics);
        for priority in 0..30 {
            queue.add_with_priority(priority, priority);
        }
        while queue.try_get().is_ok() {}
        let text = text(&registry);
        let depths: Vec<_> = text.lines().filter(|line| line.starts_with("workqueue_depth{")).collect();
        assert_eq!(depths.len(), 26);
        assert!(depths.iter().all(|line| line.ends_with(" 0")), "{depths:?}");
    }
}
