//! The metrics provider that stores metrics in memory.

use std::any::Any;
use std::fmt;
use std::iter::zip;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;

use crate::distribution::Distribution;
use crate::provider::{Counter, Gauge, Histogram, Metric, MetricKind, Provider, Pulled};

/// A metrics provider that stores all series in memory, for tests and summaries. Clones of the provider share the series.
///
/// With the feature `prometheus-client`, the provider is also a collector, which exports its series through a
/// Prometheus registry.
///
/// The series are stored in a sharded map, so threads that use different series rarely wait for each other.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
///
/// static SENT: Metric = Metric { name: "mails_sent_total", help: "Sent mails", kind: MetricKind::Counter, labels: &["host"] };
///
/// let memory = InMemoryProvider::new();
/// let here = memory.counter(&SENT, &["here"]);
/// let there = memory.counter(&SENT, &["there"]);
/// here.add(1);
/// there.add(2);
/// assert_eq!(memory.value("mails_sent_total", &[("host", "there")]), Some(2.0));
/// assert_eq!(memory.value("mails_sent_total", &[]), Some(3.0));
/// assert_eq!(memory.samples().len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct InMemoryProvider {
    series: Arc<DashMap<Key, Series>>,
}

/// A snapshot of a metric series.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The description of the metric.
    pub metric: &'static Metric,
    /// The label values, in the order of [`Metric::labels`].
    pub labels: Vec<String>,
    /// The value of the series when the snapshot was taken.
    pub value: Value,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// The value of a counter.
    Counter(u64),
    /// The value of a gauge.
    Gauge(f64),
    /// The value of a histogram.
    Histogram(Distribution),
}

impl InMemoryProvider {
    /// Creates a provider without series.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all series, sorted by name and labels.
    pub fn samples(&self) -> Vec<Sample> {
        self.select(|_| true)
    }

    /// Returns the sum of all counters or gauges that have the name `name` and at least the labels `labels`. Returns `None` if
    /// there is no such counter or gauge.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let samples = self.select(|key| key.matches(name, labels)).into_iter();
        let numbers = samples.filter_map(|sample| match sample.value {
            Value::Counter(count) => Some(count as f64),
            Value::Gauge(value) => Some(value),
            Value::Histogram(_) => None,
        });
        numbers.reduce(|sum, value| sum + value)
    }

    /// Returns the merged distribution of all histograms that have the name `name` and at least the labels `labels`. Returns
    /// `None` if there is no such histogram.
    pub fn distribution(&self, name: &str, labels: &[(&str, &str)]) -> Option<Distribution> {
        let samples = self.select(|key| key.matches(name, labels)).into_iter();
        let distributions = samples.filter_map(|sample| match sample.value {
            Value::Histogram(distribution) => Some(distribution),
            Value::Counter(_) | Value::Gauge(_) => None,
        });
        distributions.reduce(|mut all, one| {
            all.merge(&one);
            all
        })
    }

    fn select(&self, wanted: impl Fn(&Key) -> bool) -> Vec<Sample> {
        // Read the values while the series map is locked, because a dropped instrument could otherwise be counted twice.
        let wanted = self.series.iter().filter(|series| wanted(series.key()));
        let mut found: Vec<_> = wanted.map(|series| series.read(series.key())).collect();
        found.sort_by(|(one, _), (other, _)| (one.metric.name, &one.labels).cmp(&(other.metric.name, &other.labels)));
        let pull = |(mut sample, pulled): (Sample, Vec<Arc<Cell>>)| {
            pulled.iter().for_each(|cell| sample.add(cell));
            sample
        };
        found.into_iter().map(pull).collect()
    }

    fn share(&self, metric: &'static Metric, labels: &[&str], cell: Cell) -> Share {
        assert_eq!(labels.len(), metric.labels.len(), "{} has the labels {:?}", metric.name, metric.labels);
        assert!(cell.is_of(metric.kind), "{} is a {:?}", metric.name, metric.kind);
        let key = Key {
            name: metric.name,
            names: metric.labels,
            labels: labels.iter().map(|label| String::from(*label)).collect(),
        };
        let cell = Arc::new(cell);
        let series = self.series.entry(key.clone());
        series.or_insert_with(|| Series { metric, shares: Vec::new() }).shares.push(Arc::clone(&cell));
        Share { memory: self.clone(), key, cell }
    }
}

impl Provider for InMemoryProvider {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        Box::new(self.share(metric, labels, Cell::Counter(AtomicU64::new(0))))
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        Box::new(self.share(metric, labels, Cell::Gauge(AtomicI64::new(0))))
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        let MetricKind::Histogram(bounds) = metric.kind else { panic!("{} is a {:?}", metric.name, metric.kind) };
        Box::new(self.share(metric, labels, Cell::Histogram(Mutex::new(Distribution::new(bounds)))))
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        Box::new(self.share(metric, labels, Cell::Pulled(read)))
    }
}

impl fmt::Debug for InMemoryProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryProvider").field("series", &self.series.len()).finish()
    }
}

impl Sample {
    fn add(&mut self, share: &Cell) {
        match (&mut self.value, share.read()) {
            (Value::Counter(count), Value::Counter(share)) => *count += share,
            (Value::Gauge(value), Value::Gauge(share)) if self.metric.kind == MetricKind::MaxGauge => {
                *value = value.max(share)
            }
            (Value::Gauge(value), Value::Gauge(share)) => *value += share,
            (Value::Histogram(all), Value::Histogram(share)) => all.merge(&share),
            // Unreachable, because all instruments of a metric have the same kind.
            _ => {}
        }
    }
}

impl Value {
    fn zero(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter(0),
            MetricKind::Gauge | MetricKind::MaxGauge => Self::Gauge(0.0),
            MetricKind::Histogram(bounds) => Self::Histogram(Distribution::new(bounds)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: &'static str,
    names: &'static [&'static str],
    labels: Arc<[String]>,
}

impl Key {
    fn matches(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has =
            |(name, value): &(&str, &str)| zip(self.names, &*self.labels).any(|(mine, of)| mine == name && of == value);
        self.name == name && labels.iter().all(has)
    }
}

/// A metric series with its instruments, of which there is at least one.
struct Series {
    metric: &'static Metric,
    shares: Vec<Arc<Cell>>,
}

impl Series {
    /// Returns the combined value of the series without its pulled gauges, and these gauges. The caller must read them without
    /// holding a lock.
    fn read(&self, key: &Key) -> (Sample, Vec<Arc<Cell>>) {
        let mut sample =
            Sample { metric: self.metric, labels: key.labels.to_vec(), value: Value::zero(self.metric.kind) };
        let (pulled, stored): (Vec<_>, Vec<_>) =
            self.shares.iter().partition(|cell| matches!(***cell, Cell::Pulled(_)));
        stored.into_iter().for_each(|cell| sample.add(cell));
        (sample, pulled.into_iter().cloned().collect())
    }
}

enum Cell {
    Counter(AtomicU64),
    Gauge(AtomicI64),
    Pulled(Pulled),
    Histogram(Mutex<Distribution>),
}

impl Cell {
    fn is_of(&self, kind: MetricKind) -> bool {
        match self {
            Self::Counter(_) => kind == MetricKind::Counter,
            Self::Gauge(_) | Self::Pulled(_) => matches!(kind, MetricKind::Gauge | MetricKind::MaxGauge),
            Self::Histogram(_) => matches!(kind, MetricKind::Histogram(_)),
        }
    }

    fn read(&self) -> Value {
        match self {
            Self::Counter(count) => Value::Counter(count.load(Ordering::Relaxed)),
            Self::Gauge(value) => Value::Gauge(value.load(Ordering::Relaxed) as f64),
            Self::Pulled(read) => Value::Gauge(read()),
            Self::Histogram(distribution) => Value::Histogram(lock(distribution).clone()),
        }
    }

    /// Adds the value of the dropped counter or histogram `from`, and ignores a gauge.
    fn take_over(&self, from: &Self) {
        match (self, from) {
            (Self::Counter(count), Self::Counter(other)) => {
                count.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            (Self::Histogram(distribution), Self::Histogram(other)) => lock(distribution).merge(&lock(other).clone()),
            // Do nothing, because dropping a gauge removes its value. In particular, do not read a pulled gauge, because the
            // series map is locked.
            _ => {}
        }
    }
}

fn lock(distribution: &Mutex<Distribution>) -> MutexGuard<'_, Distribution> {
    // Ignore poisoning, because a panic cannot leave the data inconsistent.
    distribution.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An instrument, whose `cell` contains its share of the series' value.
struct Share {
    memory: InMemoryProvider,
    key: Key,
    cell: Arc<Cell>,
}

impl Counter for Share {
    fn add(&self, events: u64) {
        if let Cell::Counter(count) = &*self.cell {
            count.fetch_add(events, Ordering::Relaxed);
        }
    }
}

impl Gauge for Share {
    fn add(&self, change: i64) {
        if let Cell::Gauge(value) = &*self.cell {
            value.fetch_add(change, Ordering::Relaxed);
        }
    }
}

impl Histogram for Share {
    fn observe(&self, value: f64) {
        if let Cell::Histogram(distribution) = &*self.cell {
            lock(distribution).observe(value);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.series.remove_if_mut(&self.key, |_, series| {
            series.shares.retain(|share| !Arc::ptr_eq(share, &self.cell));
            if let Some(next) = series.shares.first() {
                next.take_over(&self.cell);
            }
            series.shares.is_empty()
        });
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.key).finish()
    }
}
