//! How the queue of a run reports to the controller's counters.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pintle_workqueue::{GaugeSource, Instruments, MetricsProvider};

use super::Metrics;

/// What [`Requests`](crate::Requests) gives to its queue.
#[derive(Debug)]
pub(crate) struct QueueMetrics(pub(crate) Arc<Metrics>);

impl MetricsProvider for QueueMetrics {
    fn instruments(&self, _name: &str, gauges: GaugeSource) -> Box<dyn Instruments> {
        *self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner) = Some(gauges);
        Box::new(QueueInstruments(self.0.clone()))
    }
}

struct QueueInstruments(Arc<Metrics>);

impl Instruments for QueueInstruments {
    fn add(&mut self) {
        self.0.adds.fetch_add(1, Ordering::Relaxed);
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.0.queue_duration.record(waited);
    }

    fn work_duration(&mut self, took: Duration) {
        self.0.work_duration.record(took);
    }

    fn retry(&mut self, _delay: Duration) {
        self.0.queue_retries.fetch_add(1, Ordering::Relaxed);
    }
}
