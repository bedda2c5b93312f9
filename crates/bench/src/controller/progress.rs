//! Records the progress of a controller. The programs for Pintle and kube-rs use this module.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::meter::{self, Sample};

/// The annotation that contains the number of the last benchmark run that wrote the object.
pub(crate) const RUN: &str = "bench/run";

/// Counts reconciliations of the objects `bench-0`, `bench-1` and so on, but not of other objects.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    first: OnceLock<Duration>,
    reconciliations: AtomicUsize,
    is_settled: Vec<AtomicBool>,
    unsettled: AtomicUsize,
    /// The time from the start of the process until all objects were done.
    end: OnceLock<Duration>,
    all_settled: Notify,
}

impl Progress {
    pub(crate) fn new(objects: usize, start: Instant) -> Self {
        Self {
            start,
            first: OnceLock::new(),
            reconciliations: AtomicUsize::new(0),
            is_settled: (0..objects).map(|_| AtomicBool::new(false)).collect(),
            unsettled: AtomicUsize::new(objects),
            end: OnceLock::new(),
            all_settled: Notify::new(),
        }
    }

    pub(crate) fn reconciled(&self, name: &str) {
        self.first.get_or_init(|| self.start.elapsed());
        if self.index(name).is_some() {
            self.reconciliations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Marks the object `name` as done.
    pub(crate) fn settle(&self, name: &str) {
        let Some(index) = self.index(name) else { return };
        if !self.is_settled[index].swap(true, Ordering::Relaxed) && self.unsettled.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end.get_or_init(|| self.start.elapsed());
            self.all_settled.notify_one();
        }
    }

    pub(crate) fn reconciliations(&self) -> f64 {
        self.reconciliations.load(Ordering::Relaxed) as f64
    }

    /// Waits until all objects are done, and returns the process's CPU time and memory.
    pub(crate) async fn settled(&self) -> Sample {
        self.all_settled.notified().await;
        let (objects, seconds) =
            (self.is_settled.len() as f64, |at: &OnceLock<Duration>| at.get().map_or(f64::NAN, Duration::as_secs_f64));
        let reconciliations = self.reconciliations();
        Sample {
            wall_ns: seconds(&self.end) * 1e9,
            cpu_ns: meter::process_cpu().as_nanos() as f64,
            allocations: meter::allocations(),
            peak_bytes: meter::peak(),
            operations: objects,
            adds: objects,
            gets: reconciliations,
            figures: BTreeMap::from([("s until the first reconcile", seconds(&self.first))]),
        }
    }

    fn index(&self, name: &str) -> Option<usize> {
        name.strip_prefix("bench-")?.parse().ok().filter(|index| *index < self.is_settled.len())
    }
}
