//! What an elector tells of itself, by client-go's names where it has them.

use std::any::Any;

use pintle_metrics::{Counter, Metric, MetricKind, Provider};

use crate::ElectionStatus;

const LABELS: &[&str] = &["name"];

static MASTER_STATUS: Metric = Metric {
    name: "leader_election_master_status",
    help: "Whether this elector leads, by the name of its lock",
    kind: MetricKind::Gauge,
    labels: LABELS,
};
static SLOW_PATHS: Metric = Metric {
    name: "leader_election_slowpath_total",
    help: "Renewals that had to read the lock first",
    kind: MetricKind::Counter,
    labels: LABELS,
};
static TERMS: Metric =
    Metric { name: "leader_election_terms_total", help: "Terms that began", kind: MetricKind::Counter, labels: LABELS };
static RENEWALS: Metric = Metric {
    name: "leader_election_renewals_total",
    help: "Renewals that moved the end of a term",
    kind: MetricKind::Counter,
    labels: LABELS,
};

/// The instruments of one elector.
#[derive(Debug)]
pub(crate) struct Instruments {
    pub(crate) slow_paths: Box<dyn Counter>,
    pub(crate) terms: Box<dyn Counter>,
    pub(crate) renewals: Box<dyn Counter>,
    /// Reads whether the elector leads, for as long as it is there.
    _master_status: Box<dyn Any + Send + Sync>,
}

impl Instruments {
    pub(crate) fn new(provider: &dyn Provider, lock: &str, status: ElectionStatus) -> Self {
        let leads = move || f64::from(u8::from(status.is_leader()));
        Self {
            slow_paths: provider.counter(&SLOW_PATHS, &[lock]),
            terms: provider.counter(&TERMS, &[lock]),
            renewals: provider.counter(&RENEWALS, &[lock]),
            _master_status: provider.pulled(&MASTER_STATUS, &[lock], Box::new(leads)),
        }
    }
}
