//! Metric descriptions and the traits for providers and instruments.

use std::any::Any;
use std::fmt::Debug;

/// A static description of a metric. A series is a metric with one value for each label.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
///
/// static WAIT: Metric = Metric {
///     name: "door_wait_seconds",
///     help: "How long people wait for a door",
///     kind: MetricKind::Histogram(&[1.0, 10.0]),
///     labels: &["floor"],
/// };
///
/// let memory = InMemoryProvider::new();
/// let _wait = memory.histogram(&WAIT, &["3"]);
/// assert_eq!(memory.samples()[0].labels, ["3"]);
/// ```
#[derive(Debug)]
pub struct Metric {
    /// The name of the metric, such as `workqueue_adds_total`. Two metrics with the same name must have the same kind.
    pub name: &'static str,
    /// A description of the metric: one sentence without a full stop.
    pub help: &'static str,
    /// The kind of the metric, which also determines how a series combines the values of its instruments.
    pub kind: MetricKind,
    /// The label names.
    pub labels: &'static [&'static str],
}

impl Metric {
    /// Describes a counter.
    pub const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, kind: MetricKind::Counter, labels }
    }

    /// Describes a gauge.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, kind: MetricKind::Gauge, labels }
    }
}

/// The kind of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number of events. The name of such a metric ends in `_total`.
    Counter,
    /// A current amount, such as a queue length. The value of a gauge series is the sum over its instruments.
    Gauge,
    /// A value that a function returns, such as the age of the oldest item. The value of a series is the maximum over
    /// its instruments, and at least 0.
    MaxGauge,
    /// A distribution of values. The variant contains the upper bounds of the buckets, in ascending order. An
    /// additional bucket counts the values above the last bound.
    Histogram(&'static [f64]),
}

/// Creates instruments, which are owned by the caller. Dropping a gauge removes its value from the series. Dropping a
/// counter or histogram keeps its values in the series. The provider removes a series when its last instrument is
/// dropped.
///
/// In all methods, `labels` contains one value for each label, in the order of [`Metric::labels`].
///
/// # Panics
///
/// A provider may panic if the number of labels or the kind of the metric is wrong, because this is a bug in the
/// component.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
///
/// static OPEN: Metric = Metric { name: "doors_open", help: "Open doors", kind: MetricKind::Gauge, labels: &["floor"] };
///
/// let memory = InMemoryProvider::new();
/// let provider: &dyn Provider = &memory;
/// let open = provider.gauge(&OPEN, &["3"]);
/// open.add(1);
/// let pulled = provider.pulled(&OPEN, &["4"], Box::new(|| 2.0));
/// assert_eq!(memory.value("doors_open", &[]), Some(3.0));
/// drop(pulled);
/// assert_eq!(memory.value("doors_open", &[]), Some(1.0));
/// ```
pub trait Provider: Debug + Send + Sync {
    /// Creates a counter that starts at zero.
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter>;

    /// Creates a gauge that starts at zero.
    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge>;

    /// Creates an empty histogram.
    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram>;

    /// Registers a gauge whose value is the result of `read`. Scrapes that start after the returned guard is dropped do
    /// not call `read`. A scrape that is already running may still call `read`.
    ///
    /// The provider holds no lock while it calls or drops `read`, so `read` may lock the component.
    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync>;
}

/// A function that returns the current value of a gauge.
pub type Pulled = Box<dyn Fn() -> f64 + Send + Sync>;

/// An instrument that counts events.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{Counter, InMemoryProvider, Metric, MetricKind, Provider};
///
/// static SENT: Metric = Metric { name: "mails_sent_total", help: "Sent mails", kind: MetricKind::Counter, labels: &[] };
///
/// let memory = InMemoryProvider::new();
/// let sent: Box<dyn Counter> = memory.counter(&SENT, &[]);
/// sent.add(1);
/// sent.add(2);
/// assert_eq!(memory.value("mails_sent_total", &[]), Some(3.0));
/// ```
pub trait Counter: Debug + Send + Sync {
    /// Adds `events` to the counter.
    fn add(&self, events: u64);
}

/// An instrument whose value can increase and decrease.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{Gauge, InMemoryProvider, Metric, MetricKind, Provider};
///
/// static OPEN: Metric = Metric { name: "doors_open", help: "Open doors", kind: MetricKind::Gauge, labels: &[] };
///
/// let memory = InMemoryProvider::new();
/// let open: Box<dyn Gauge> = memory.gauge(&OPEN, &[]);
/// open.add(3);
/// open.add(-1);
/// assert_eq!(memory.value("doors_open", &[]), Some(2.0));
/// ```
pub trait Gauge: Debug + Send + Sync {
    /// Adds `change`, which may be negative, to the value of the gauge.
    fn add(&self, change: i64);
}

/// An instrument that records values, such as durations in seconds.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{Histogram, InMemoryProvider, Metric, MetricKind, Provider};
///
/// static WAIT: Metric =
///     Metric { name: "door_wait_seconds", help: "Waits", kind: MetricKind::Histogram(&[1.0, 10.0]), labels: &[] };
///
/// let memory = InMemoryProvider::new();
/// let wait: Box<dyn Histogram> = memory.histogram(&WAIT, &[]);
/// wait.observe(0.5);
/// wait.observe(2.5);
/// assert_eq!(memory.distribution("door_wait_seconds", &[]).map(|waits| waits.sum()), Some(3.0));
/// ```
pub trait Histogram: Debug + Send + Sync {
    /// Records `value`, which should be at least 0. Negative values and NaN count as 0.
    fn observe(&self, value: f64);
}
