//! What a controller counts, by the names of controller-runtime and client-go.

mod histogram;
mod queue;
mod render;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pintle_workqueue::{GaugeSource, Gauges};

pub use histogram::Distribution;
pub(crate) use histogram::Histogram;
pub(crate) use queue::QueueMetrics;
pub use render::prometheus_text;

/// The counters of one controller. They live as long as the controller, across all its runs.
#[derive(Debug)]
pub(crate) struct Metrics {
    success: AtomicU64,
    error: AtomicU64,
    requeue_after: AtomicU64,
    terminal: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    active_workers: AtomicU64,
    adds: AtomicU64,
    retries: AtomicU64,
    queue_retries: AtomicU64,
    pub(crate) reconcile_time: Histogram,
    queue_duration: Histogram,
    work_duration: Histogram,
    /// Of the queue of the last run.
    gauges: Mutex<Option<GaugeSource>>,
}

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    RequeueAfter,
    Error,
    Terminal,
    Panic,
    Timeout,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            success: zero(),
            error: zero(),
            requeue_after: zero(),
            terminal: zero(),
            panics: zero(),
            timeouts: zero(),
            active_workers: zero(),
            adds: zero(),
            retries: zero(),
            queue_retries: zero(),
            reconcile_time: Histogram::new(),
            queue_duration: Histogram::new(),
            work_duration: Histogram::new(),
            gauges: Mutex::new(None),
        }
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        let counters: &[&AtomicU64] = match outcome {
            Outcome::Success => &[&self.success],
            Outcome::RequeueAfter => &[&self.requeue_after],
            Outcome::Error => &[&self.error],
            Outcome::Terminal => &[&self.error, &self.terminal],
            Outcome::Panic => &[&self.error, &self.panics],
            Outcome::Timeout => &[&self.error, &self.timeouts],
        };
        for counter in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a worker as active until the guard is dropped.
    pub(crate) fn active(&self) -> Active<'_> {
        self.active_workers.fetch_add(1, Ordering::Relaxed);
        Active(&self.active_workers)
    }

    pub(crate) fn snapshot(&self, controller: &str, max_concurrent: usize, depth: usize) -> ControllerMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Read outside of our lock: it takes the queue's.
        let gauges = gauges.and_then(|gauges| gauges.read()).unwrap_or_default();
        ControllerMetrics {
            controller: controller.into(),
            succeeded: read(&self.success),
            requeued_after: read(&self.requeue_after),
            errors: read(&self.error),
            terminal_errors: read(&self.terminal),
            panics: read(&self.panics),
            timeouts: read(&self.timeouts),
            max_concurrent_reconciles: max_concurrent,
            active_workers: read(&self.active_workers),
            adds: read(&self.adds),
            retries: read(&self.retries),
            queue_retries: read(&self.queue_retries),
            depth,
            gauges,
            reconcile_time: self.reconcile_time.snapshot(),
            queue_duration: self.queue_duration.snapshot(),
            work_duration: self.work_duration.snapshot(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Active<'a>(&'a AtomicU64);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counters of one controller at one moment. [`Display`](std::fmt::Display) writes them in Prometheus' text format, by
/// the names that each field tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// The label `controller`, which is the queue's `name` too.
    pub controller: String,
    /// `controller_runtime_reconcile_total{result="success"}`.
    pub succeeded: u64,
    /// `controller_runtime_reconcile_total{result="requeue_after"}`.
    pub requeued_after: u64,
    /// `controller_runtime_reconcile_errors_total`, and `controller_runtime_reconcile_total{result="error"}`: failures of all
    /// kinds, those counted below included.
    pub errors: u64,
    /// `controller_runtime_terminal_reconcile_errors_total`.
    pub terminal_errors: u64,
    /// `controller_runtime_reconcile_panics_total`.
    pub panics: u64,
    /// `controller_runtime_reconcile_timeouts_total`.
    pub timeouts: u64,
    /// `controller_runtime_max_concurrent_reconciles`.
    pub max_concurrent_reconciles: usize,
    /// `controller_runtime_active_workers`: the keys in flight.
    pub active_workers: u64,
    /// `workqueue_adds_total`.
    pub adds: u64,
    /// How many keys were put back after an error.
    pub retries: u64,
    /// `workqueue_retries_total`: delayed adds of any kind.
    pub queue_retries: u64,
    /// `workqueue_depth`.
    pub depth: usize,
    /// `workqueue_unfinished_work_seconds` and `workqueue_longest_running_processor_seconds`, among others.
    pub gauges: Gauges,
    /// `controller_runtime_reconcile_time_seconds`.
    pub reconcile_time: Distribution,
    /// `workqueue_queue_duration_seconds`: from when a key is due until a worker has it.
    pub queue_duration: Distribution,
    /// `workqueue_work_duration_seconds`.
    pub work_duration: Distribution,
}

impl ControllerMetrics {
    /// How many reconciliations have ended.
    pub fn reconciles(&self) -> u64 {
        self.succeeded + self.requeued_after + self.errors
    }

    /// The median of the time that keys wait for a worker.
    pub fn queue_p50(&self) -> Option<Duration> {
        self.queue_duration.quantile(0.5)
    }

    /// The time that all but one in a hundred keys wait for a worker at most.
    pub fn queue_p99(&self) -> Option<Duration> {
        self.queue_duration.quantile(0.99)
    }
}
