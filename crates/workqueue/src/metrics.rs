//! What a queue tells about itself.

mod observer;
#[cfg(feature = "prometheus-client")]
mod prometheus;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use observer::Observer;
#[cfg(feature = "prometheus-client")]
pub use prometheus::PrometheusMetrics;

/// Makes the instruments of a queue. Given to a queue by its [`QueueConfig`](crate::QueueConfig); there is no global one.
pub trait MetricsProvider: Send + Sync {
    /// The instruments of the queue called `name`. They are dropped with the queue, and should then take its series away.
    ///
    /// `gauges` is to be asked whenever the values are wanted: nothing runs in the background to push them.
    fn instruments(&self, name: &str, gauges: GaugeSource) -> Box<dyn Instruments>;
}

/// The instruments of one queue. All calls are made under the queue's lock, so none may call the queue, and none should
/// block. All methods do nothing unless they are implemented.
///
/// The names are those of the Prometheus metrics of client-go and controller-runtime, without their `workqueue_`.
pub trait Instruments: Send {
    /// `depth`: by how much the number of dirty keys of this priority changes. A key is dirty from the add until the
    /// hand-out, also while it is in flight.
    fn depth(&mut self, priority: i32, change: i64) {
        let _ = (priority, change);
    }

    /// `adds_total`: one more add that was not merged into another.
    fn add(&mut self) {}

    /// `queue_duration_seconds`: how long a key waited from that add to the hand-out. Delays do not count.
    fn queue_duration(&mut self, waited: Duration) {
        let _ = waited;
    }

    /// `work_duration_seconds`: how long a key was in flight.
    fn work_duration(&mut self, took: Duration) {
        let _ = took;
    }

    /// `retries_total`: one more delayed add of any kind, merged or not, with its delay.
    fn retry(&mut self, delay: Duration) {
        let _ = delay;
    }

    /// A rate-limited add, with the delay that the limiter gave it. Comes after [`retry`](Instruments::retry).
    fn retry_delay(&mut self, delay: Duration) {
        let _ = delay;
    }
}

/// The values of a queue that are read and not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// `unfinished_work_seconds`: the ages of all keys in flight, added up.
    pub unfinished_work: Duration,
    /// `longest_running_processor_seconds`: the age of the oldest key in flight.
    pub longest_running_processor: Duration,
    /// How long the key that waits the longest has been dirty.
    pub oldest_queued: Duration,
    /// How many delays are pending.
    pub delayed: usize,
}

/// Where the [`Gauges`] of a queue are read.
#[derive(Clone)]
pub struct GaugeSource {
    read: Arc<dyn Fn() -> Option<Gauges> + Send + Sync>,
}

/// The bounds of controller-runtime's histograms, in seconds. The first ten are client-go's.
pub const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3];

impl GaugeSource {
    fn new(read: impl Fn() -> Option<Gauges> + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// The values now. `None` once the queue is gone.
    pub fn read(&self) -> Option<Gauges> {
        (self.read)()
    }
}

impl fmt::Debug for GaugeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GaugeSource").field(&self.read()).finish()
    }
}
