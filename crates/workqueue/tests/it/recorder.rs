//! A metrics provider that stores metrics in memory, and also the lowest value of each pulled gauge.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Provider, Pulled, Value};

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) memory: InMemoryProvider,
    lowest: Arc<AtomicI64>,
}

impl Recorder {
    pub(crate) fn counts(&self) -> (u64, u64, Vec<(i32, i64)>) {
        let count = |name| self.memory.value(name, &[]).unwrap_or_default() as u64;
        let samples = self.memory.samples().into_iter().filter(|sample| sample.metric.name == "workqueue_depth");
        let mut depths: Vec<_> = samples
            .map(|sample| match (sample.labels[2].parse(), sample.value) {
                (Ok(priority), Value::Gauge(depth)) => (priority, depth as i64),
                other => panic!("{other:?} is not a gauge"),
            })
            .collect();
        depths.sort_unstable();
        (count("workqueue_adds_total"), count("workqueue_retries_total"), depths)
    }

    pub(crate) fn lowest_depth(&self) -> i64 {
        self.lowest.load(Ordering::Relaxed)
    }
}

impl Provider for Recorder {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        self.memory.counter(metric, labels)
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        self.memory.gauge(metric, labels)
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        self.memory.histogram(metric, labels)
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        let lowest = Arc::clone(&self.lowest);
        let record = move || {
            let value = read();
            lowest.fetch_min(value as i64, Ordering::Relaxed);
            value
        };
        self.memory.pulled(metric, labels, Box::new(record))
    }
}
