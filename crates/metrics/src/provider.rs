//! Metrics, providers and instruments.

use std::any::Any;
use std::fmt::Debug;

/// A static description of a metric. A metric and a value for each of its labels identify a series.
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
    /// The name, such as `workqueue_adds_total`. All metrics that have the same name must also have the same kind.
    pub name: &'static str,
    /// A description of the metric: one sentence without a full stop.
    pub help: &'static str,
    /// The kind. The kind also determines how the shares of a series are combined.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
}

/// The kind of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// The number of events. The name ends in `_total`.
    Counter,
    /// A current amount. The value of a series is the sum of its shares.
    Gauge,
    /// A current value, such as the age of the oldest item. The value of a series is the maximum of its shares, and at
    /// least 0.
    MaxGauge,
    /// The distribution of values in buckets. The values are the upper bounds of the buckets, in ascending order. An
    /// additional bucket contains the values above the last bound.
    Histogram(&'static [f64]),
}

/// Creates instruments. The caller owns them. When an instrument is dropped, its share of the series ends. When the
/// last share of a series is dropped, the series ends.
///
/// In all methods, `labels` contains one value for each label of the metric, in the metric's order.
///
/// # Panics
///
/// A provider may panic if the number of labels or the kind of the metric is wrong, because both are bugs in the
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
    /// Creates a counter whose first value is zero.
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter>;

    /// Creates a gauge whose first value is zero.
    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge>;

    /// Creates an empty histogram.
    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram>;

    /// Registers a gauge. The provider calls `read` whenever it needs the value, until the returned value is dropped. A
    /// call of `read` that started before the drop may end after the drop.
    ///
    /// The provider calls and drops `read` without holding a lock, so `read` may take locks of the component.
    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync>;
}

/// A function that returns the current value of a gauge.
pub type Pulled = Box<dyn Fn() -> f64 + Send + Sync>;

/// Counts events.
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
    /// Adds this number of events.
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
    /// Adds `change` to the value. `change` may be negative.
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
    /// Records a value, which must be at least 0. Negative values and NaN are recorded as 0.
    fn observe(&self, value: f64);
}
