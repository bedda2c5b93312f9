//! What a component asks for, and of whom.

use std::any::Any;
use std::fmt::Debug;

/// A description of what is measured. With a value for each label, it is a series.
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
    /// The name as dashboards know it: `workqueue_adds_total`. Metrics of one name are of one kind.
    pub name: &'static str,
    /// One sentence for people, without a full stop.
    pub help: &'static str,
    /// What is measured, and how several shares of a series add up.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
}

/// What a [`Metric`] measures.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// How often something has happened. Ends in `_total`.
    Counter,
    /// How much there is now, of all shares together.
    Gauge,
    /// How much there is now, of the share that has the most, 0 at least: the age of the oldest.
    MaxGauge,
    /// How values are distributed, over buckets up to these bounds, which ascend. There is one more bucket for what exceeds all.
    Histogram(&'static [f64]),
}

/// Hands out instruments, each of which is owned by the one who asked. Dropping an instrument ends its share of the series, and
/// the series with the last share.
///
/// In all methods, `labels` has a value for each label of the metric, in its order.
///
/// # Panics
///
/// A provider may panic if the number of labels, or the kind of the metric, is another: that is a fault of the component.
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
/// let told = provider.gauge(&OPEN, &["3"]);
/// told.add(1);
/// let pulled = provider.pulled(&OPEN, &["4"], Box::new(|| 2.0));
/// assert_eq!(memory.value("doors_open", &[]), Some(3.0));
/// drop(pulled);
/// assert_eq!(memory.value("doors_open", &[]), Some(1.0));
/// ```
pub trait Provider: Debug + Send + Sync {
    /// A counter, at zero.
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter>;

    /// A gauge, at zero.
    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge>;

    /// A histogram, empty.
    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram>;

    /// A gauge that is read whenever its value is wanted, until what is returned is dropped; a reading that has begun by then
    /// may still end.
    ///
    /// `read` may take the component's locks, so it is called, and dropped, under none of the provider's.
    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync>;
}

/// Reads a gauge.
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
    /// Counts `events` more.
    fn add(&self, events: u64);
}

/// Follows a number of things up and down.
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
    /// There are `change` more, or fewer.
    fn add(&self, change: i64);
}

/// Takes values in, such as durations in seconds.
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
    /// Takes a value in: 0 or more. What is less, or no number, counts as 0.
    fn observe(&self, value: f64);
}
