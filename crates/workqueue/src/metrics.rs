//! The metrics of the queue, with the names that client-go and controller-runtime use.

mod ages;
mod depths;
mod observer;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::{Counter, Histogram, Metric, MetricKind, Provider};

use crate::key_state::Counts;

pub(crate) use observer::{Observer, Stamps};

/// The labels and histogram buckets of a queue's metrics. The metric names are the same in every variant.
///
/// | name | kind | value |
/// |---|---|---|
/// | `workqueue_adds_total` | counter | adds that were not merged into another add |
/// | `workqueue_depth` | gauge | dirty keys: keys that are queued, or were added again while in flight |
/// | `workqueue_queue_duration_seconds` | histogram | time from the add, or the end of the delay, until the key is dequeued |
/// | `workqueue_work_duration_seconds` | histogram | how long a key was in flight |
/// | `workqueue_retries_total` | counter | adds with a delay, for any reason |
/// | `workqueue_unfinished_work_seconds` | gauge | the sum of the ages of all keys in flight |
/// | `workqueue_longest_running_processor_seconds` | gauge | the age of the oldest key in flight |
/// | `workqueue_retry_delay_seconds` | histogram | the delays that the limiter returned; not in client-go |
/// | `workqueue_delayed` | gauge | keys with a pending delay; not in client-go |
/// | `workqueue_oldest_queued_seconds` | gauge | the age of the oldest queued key; not in client-go |
///
/// Gauges are computed when they are scraped. Gauges include keys whose delay has ended, even if no worker has called
/// the queue since then. Counters and histograms are updated under the queue's lock. If the provider panics, it is not
/// called again. The panic propagates from the queue method that called the provider, unless this method returns a key.
///
/// ```
/// use pintle_metrics::InMemoryProvider;
/// use pintle_workqueue::{MetricsStyle, QueueConfig, WorkQueue};
/// use std::sync::Arc;
///
/// let memory = InMemoryProvider::new();
/// let queue: WorkQueue<&str> = WorkQueue::new(QueueConfig {
///     name: "websites".into(),
///     metrics: Some(Arc::new(memory.clone())),
///     metrics_style: MetricsStyle::ControllerRuntime,
///     ..QueueConfig::default()
/// });
/// queue.add("blog");
/// assert_eq!(memory.value("workqueue_depth", &[("controller", "websites")]), Some(1.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricsStyle {
    /// Metrics have the label `name`. The largest histogram bucket is 10 s.
    #[default]
    ClientGo,
    /// Metrics have the labels `name` and `controller`, which have the same value. `workqueue_depth` also has the label
    /// `priority`. The largest histogram bucket is 1000 s. `workqueue_retries_total` ignores adds without a delay.
    ///
    /// A queue reports at most 25 values of `priority`. Keys whose priority is not among these values are reported
    /// under the value `exceeded_cardinality_limit`.
    ControllerRuntime,
}

/// The bounds of controller-runtime's histogram buckets, in seconds. The first ten bounds are the same as in client-go.
const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3];

/// The maximum number of `priority` label values per queue, as in controller-runtime.
const MAX_PRIORITIES: usize = 25;
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

static CLIENT_GO: Metrics = Metrics::new(&["name"], &["name"], BUCKETS.split_at(10).0);
static CONTROLLER_RUNTIME: Metrics =
    Metrics::new(&["name", "controller"], &["name", "controller", "priority"], &BUCKETS);

struct Metrics {
    labels: usize,
    adds: Metric,
    depth: Metric,
    queue_duration: Metric,
    work_duration: Metric,
    retries: Metric,
    retry_delay: Metric,
    unfinished: Metric,
    longest_running: Metric,
    oldest_queued: Metric,
    delayed: Metric,
}

impl Metrics {
    const fn new(labels: &'static [&'static str], of_depth: &'static [&'static str], buckets: &'static [f64]) -> Self {
        const fn metric(
            kind: MetricKind,
            labels: &'static [&'static str],
            name: &'static str,
            help: &'static str,
        ) -> Metric {
            Metric { name, help, kind, labels }
        }
        const COUNTER: MetricKind = MetricKind::Counter;
        let seconds = MetricKind::Histogram(buckets);
        Self {
            labels: labels.len(),
            adds: metric(COUNTER, labels, "workqueue_adds_total", "Adds that were not merged into another add"),
            depth: metric(MetricKind::Gauge, of_depth, "workqueue_depth", "Keys that need processing"),
            queue_duration: metric(
                seconds,
                labels,
                "workqueue_queue_duration_seconds",
                "How long a key waited until it was dequeued",
            ),
            work_duration: metric(seconds, labels, "workqueue_work_duration_seconds", "How long a key was in flight"),
            retries: metric(COUNTER, labels, "workqueue_retries_total", "Delayed adds"),
            retry_delay: metric(seconds, labels, "workqueue_retry_delay_seconds", "The delays of rate-limited adds"),
            unfinished: metric(
                MetricKind::Gauge,
                labels,
                "workqueue_unfinished_work_seconds",
                "The ages of all keys in flight, added up",
            ),
            longest_running: metric(
                MetricKind::MaxGauge,
                labels,
                "workqueue_longest_running_processor_seconds",
                "The age of the oldest key in flight",
            ),
            oldest_queued: metric(
                MetricKind::MaxGauge,
                labels,
                "workqueue_oldest_queued_seconds",
                "The age of the oldest queued key",
            ),
            delayed: metric(MetricKind::Gauge, labels, "workqueue_delayed", "Keys whose delay is pending"),
        }
    }

    fn of(style: MetricsStyle) -> &'static Self {
        match style {
            MetricsStyle::ClientGo => &CLIENT_GO,
            MetricsStyle::ControllerRuntime => &CONTROLLER_RUNTIME,
        }
    }

    fn labels<'a>(&self, name: &'a str) -> Vec<&'a str> {
        vec![name; self.labels]
    }
}

/// Keeps a gauge registered until it is dropped.
pub(crate) type Pull = Box<dyn Any + Send + Sync>;

pub(crate) type Reading = dyn Fn(&Observer, Counts, u64) -> f64;

/// The gauges of one queue, which are unregistered when dropped.
pub(crate) struct Gauges {
    _fixed: Vec<Pull>,
    pub(crate) register: Box<dyn Fn(Depth) -> Pull + Send + Sync>,
}

/// A series of the `depth` metric, which counts the dirty keys with one priority. The series `None` counts the keys of all
/// priorities that have no separate series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Depth(Option<i32>);

pub(crate) fn observer(provider: &dyn Provider, style: MetricsStyle, name: &str) -> Observer {
    Observer::new(Instruments::new(provider, style, name), style)
}

pub(crate) fn gauges(
    provider: Arc<dyn Provider>,
    style: MetricsStyle,
    name: &str,
    read: impl Fn(&Reading) -> f64 + Clone + Send + Sync + 'static,
) -> Gauges {
    let (metrics, name) = (Metrics::of(style), name.to_owned());
    let pull = {
        let read = read.clone();
        let (provider, name) = (Arc::clone(&provider), name.clone());
        move |metric, gauge: fn(&Observer, Counts, u64) -> f64| {
            let read = read.clone();
            provider.pulled(metric, &metrics.labels(&name), Box::new(move || read(&gauge)))
        }
    };
    let register = move |depth: Depth| {
        let (labels, read) = (depth.label(style), read.clone());
        let mut all = metrics.labels(&name);
        all.extend(labels.as_deref());
        provider.pulled(&metrics.depth, &all, Box::new(move || read(&move |observer, _, _| observer.depth(depth))))
    };
    let mut fixed = vec![
        pull(&metrics.unfinished, |observer, _, now| observer.unfinished(now)),
        pull(&metrics.longest_running, |observer, _, now| observer.longest_running(now)),
        pull(&metrics.oldest_queued, |observer, _, now| observer.oldest_queued(now)),
        pull(&metrics.delayed, |_, counts, _| counts.delayed as f64),
    ];
    if style == MetricsStyle::ClientGo {
        fixed.push(register(Depth(None)));
    }
    Gauges { _fixed: fixed, register: Box::new(register) }
}

impl Depth {
    fn label(self, style: MetricsStyle) -> Option<String> {
        match (style, self.0) {
            (MetricsStyle::ClientGo, _) => None,
            (MetricsStyle::ControllerRuntime, Some(priority)) => Some(priority.to_string()),
            (MetricsStyle::ControllerRuntime, None) => Some(OTHER_PRIORITIES.to_owned()),
        }
    }
}

#[derive(Debug)]
struct Instruments {
    style: MetricsStyle,
    adds: Box<dyn Counter>,
    queue_duration: Box<dyn Histogram>,
    work_duration: Box<dyn Histogram>,
    retries: Box<dyn Counter>,
    retry_delay: Box<dyn Histogram>,
}

impl Instruments {
    fn new(provider: &dyn Provider, style: MetricsStyle, name: &str) -> Self {
        let metrics = Metrics::of(style);
        let labels = &*metrics.labels(name);
        Self {
            style,
            adds: provider.counter(&metrics.adds, labels),
            queue_duration: provider.histogram(&metrics.queue_duration, labels),
            work_duration: provider.histogram(&metrics.work_duration, labels),
            retries: provider.counter(&metrics.retries, labels),
            retry_delay: provider.histogram(&metrics.retry_delay, labels),
        }
    }

    fn retry(&self, delay: Duration) {
        if self.style == MetricsStyle::ClientGo || !delay.is_zero() {
            self.retries.add(1);
        }
    }
}
