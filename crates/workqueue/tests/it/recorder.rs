//! Instruments that write down what they are told.
#![allow(unreachable_pub, dead_code, clippy::unwrap_used, reason = "a module of several tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_workqueue::{GaugeSource, Instruments, MetricsProvider};

#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub adds: u64,
    pub retries: u64,
    pub depth: BTreeMap<i32, i64>,
    pub queue_durations: Vec<Duration>,
    pub work_durations: Vec<Duration>,
    pub retry_delays: Vec<Duration>,
    pub lowest_depth: i64,
    pub gauges: Option<GaugeSource>,
    /// Whether the queue has dropped its instruments.
    pub dropped: bool,
}

impl Recorder {
    pub fn read(&self) -> Recorded {
        self.0.lock().unwrap().clone()
    }

    /// The adds, the retries, and the depth by priority.
    pub fn counts(&self) -> (u64, u64, Vec<(i32, i64)>) {
        let recorded = self.read();
        (recorded.adds, recorded.retries, recorded.depth.into_iter().collect())
    }
}

impl MetricsProvider for Recorder {
    fn instruments(&self, _name: &str, gauges: GaugeSource) -> Box<dyn Instruments> {
        self.0.lock().unwrap().gauges = Some(gauges);
        Box::new(Writer(self.clone()))
    }
}

struct Writer(Recorder);

impl Instruments for Writer {
    fn depth(&mut self, priority: i32, change: i64) {
        let mut recorded = self.0.0.lock().unwrap();
        let depth = recorded.depth.entry(priority).or_default();
        *depth += change;
        recorded.lowest_depth = recorded.depth.values().copied().min().unwrap_or(0).min(recorded.lowest_depth);
    }

    fn add(&mut self) {
        self.0.0.lock().unwrap().adds += 1;
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.0.0.lock().unwrap().queue_durations.push(waited);
    }

    fn work_duration(&mut self, took: Duration) {
        self.0.0.lock().unwrap().work_durations.push(took);
    }

    fn retry(&mut self, delay: Duration) {
        // As controller-runtime counts.
        if !delay.is_zero() {
            self.0.0.lock().unwrap().retries += 1;
        }
    }

    fn retry_delay(&mut self, delay: Duration) {
        self.0.0.lock().unwrap().retry_delays.push(delay);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped = true;
    }
}
