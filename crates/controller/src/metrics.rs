//! The metrics of a controller, named as in controller-runtime.

use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::{Counter, Gauge, Histogram, Metric, MetricKind, Provider};

const LABELS: &[&str] = &["controller"];

static RECONCILES: Metric = Metric::counter(
    "controller_runtime_reconcile_total",
    "Reconciliations, by their result",
    &["controller", "result"],
);
static ERRORS: Metric =
    Metric::counter("controller_runtime_reconcile_errors_total", "Reconciliations that failed", LABELS);
static TERMINAL: Metric = Metric::counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciliations that failed with a terminal error",
    LABELS,
);
static PANICS: Metric =
    Metric::counter("controller_runtime_reconcile_panics_total", "Reconciliations that panicked", LABELS);
static TIMEOUTS: Metric =
    Metric::counter("controller_runtime_reconcile_timeouts_total", "Reconciliations that timed out", LABELS);
static TIME: Metric = Metric {
    name: "controller_runtime_reconcile_time_seconds",
    help: "Duration of reconciliations",
    kind: MetricKind::Histogram(&[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
        1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ]),
    labels: LABELS,
};
static MAX_CONCURRENT: Metric =
    Metric::gauge("controller_runtime_max_concurrent_reconciles", "Limit of concurrent reconciliations", LABELS);
static ACTIVE_WORKERS: Metric =
    Metric::gauge("controller_runtime_active_workers", "Reconciliations in progress", LABELS);
static BLOCKED_WORKERS: Metric =
    Metric::gauge("controller_runtime_blocked_workers", "Reconciliations that block their thread", LABELS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    RequeueAfter,
    Conflict,
    Error,
    Terminal,
    Panic,
    Timeout,
}

/// The metric instruments of a controller, or `None` without a metrics provider. All runs of the controller share them.
#[derive(Clone)]
pub(crate) struct Metrics(Option<Arc<Instruments>>);

struct Instruments {
    success: Box<dyn Counter>,
    requeue_after: Box<dyn Counter>,
    conflict: Box<dyn Counter>,
    error: Box<dyn Counter>,
    errors: Box<dyn Counter>,
    terminal: Box<dyn Counter>,
    panics: Box<dyn Counter>,
    timeouts: Box<dyn Counter>,
    time: Box<dyn Histogram>,
    active_workers: Box<dyn Gauge>,
    blocked_workers: Box<dyn Gauge>,
    max_concurrent: Box<dyn Gauge>,
}

impl Metrics {
    pub(crate) fn new(provider: Option<&dyn Provider>, controller: &str) -> Self {
        let make = |provider: &dyn Provider| {
            let reconciles = |result| provider.counter(&RECONCILES, &[controller, result]);
            let counter = |metric| provider.counter(metric, &[controller]);
            let gauge = |metric| provider.gauge(metric, &[controller]);
            Arc::new(Instruments {
                success: reconciles("success"),
                requeue_after: reconciles("requeue_after"),
                conflict: reconciles("conflict"),
                error: reconciles("error"),
                errors: counter(&ERRORS),
                terminal: counter(&TERMINAL),
                panics: counter(&PANICS),
                timeouts: counter(&TIMEOUTS),
                time: provider.histogram(&TIME, &[controller]),
                active_workers: gauge(&ACTIVE_WORKERS),
                blocked_workers: gauge(&BLOCKED_WORKERS),
                max_concurrent: gauge(&MAX_CONCURRENT),
            })
        };
        Self(provider.map(make))
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        let Some(of) = &self.0 else { return };
        let counters: &[&dyn Counter] = match outcome {
            Outcome::Success => &[&*of.success],
            Outcome::RequeueAfter => &[&*of.requeue_after],
            Outcome::Conflict => &[&*of.conflict],
            Outcome::Error => &[&*of.error, &*of.errors],
            Outcome::Terminal => &[&*of.error, &*of.errors, &*of.terminal],
            Outcome::Panic => &[&*of.error, &*of.errors, &*of.panics],
            Outcome::Timeout => &[&*of.error, &*of.errors, &*of.timeouts],
        };
        counters.iter().for_each(|counter| counter.add(1));
    }

    pub(crate) fn took(&self, time: Duration) {
        if let Some(of) = &self.0 {
            of.time.observe(time.as_secs_f64());
        }
    }

    pub(crate) fn limit(&self, from: usize, to: usize) {
        if let Some(of) = &self.0 {
            let number = |workers| i64::try_from(workers).unwrap_or(i64::MAX);
            of.max_concurrent.add(number(to) - number(from));
        }
    }

    pub(crate) fn blocked(&self, workers: i64) {
        if let Some(of) = &self.0 {
            of.blocked_workers.add(workers);
        }
    }

    /// Counts a worker as active until the returned `Active` is dropped.
    pub(crate) fn active(&self) -> Active<'_> {
        let active = Active(self.0.as_ref().map(|of| &*of.active_workers));
        active.change(1);
        active
    }
}

pub(crate) struct Active<'a>(Option<&'a dyn Gauge>);

impl Active<'_> {
    fn change(&self, workers: i64) {
        if let Some(gauge) = self.0 {
            gauge.add(workers);
        }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.change(-1);
    }
}
