//! An elector's metrics. Metrics that exist in client-go have the same names as in client-go.

use std::any::Any;

use pintle_metrics::{Counter, Histogram, Metric, MetricKind, Provider};

use crate::status::ElectionStatus;
use crate::term::EndReason;

const LABELS: &[&str] = &["name"];

static MASTER_STATUS: Metric =
    Metric::gauge("leader_election_master_status", "Whether this elector leads, by the name of its lock", LABELS);
static VALIDITY: Metric = Metric::gauge(
    "leader_election_validity_seconds",
    "Remaining time of the term without another renewal; 0 without a term",
    LABELS,
);
static SLOW_PATHS: Metric =
    Metric::counter("leader_election_slowpath_total", "Renewals that read the lock first", LABELS);
static TERMS: Metric = Metric::counter("leader_election_terms_total", "Terms that began", LABELS);
static TERM_ENDS: Metric =
    Metric::counter("leader_election_term_ends_total", "Terms that ended, by the reason", &["name", "reason"]);
static RENEWALS: Metric =
    Metric::counter("leader_election_renewals_total", "Renewals that extended the end of a term", LABELS);
static RENEWAL_DURATION: Metric = Metric {
    name: "leader_election_renewal_duration_seconds",
    help: "Duration of renewals that extended the end of a term, from when they were sent",
    kind: MetricKind::Histogram(&[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
    labels: LABELS,
};
static MALFORMED: Metric =
    Metric::counter("leader_election_malformed_records_total", "Responses with an unreadable record", LABELS);

#[derive(Debug)]
pub(crate) struct Instruments {
    pub(crate) slow_paths: Box<dyn Counter>,
    pub(crate) terms: Box<dyn Counter>,
    pub(crate) renewals: Box<dyn Counter>,
    pub(crate) renewal_duration: Box<dyn Histogram>,
    pub(crate) malformed: Box<dyn Counter>,
    term_ends: [(&'static str, Box<dyn Counter>); EndReason::NAMES.len()],
    /// Gauges that are unregistered when they are dropped.
    _pulled: [Box<dyn Any + Send + Sync>; 2],
}

impl Instruments {
    pub(crate) fn new(provider: &dyn Provider, lock: &str, status: ElectionStatus) -> Self {
        let leads = {
            let status = status.clone();
            move || f64::from(u8::from(status.is_leader()))
        };
        let left = move || {
            let left = status.leadership().and_then(|leadership| leadership.check().ok());
            left.unwrap_or_default().as_secs_f64()
        };
        let counter = |metric| provider.counter(metric, &[lock]);
        Self {
            slow_paths: counter(&SLOW_PATHS),
            terms: counter(&TERMS),
            renewals: counter(&RENEWALS),
            malformed: counter(&MALFORMED),
            renewal_duration: provider.histogram(&RENEWAL_DURATION, &[lock]),
            term_ends: EndReason::NAMES.map(|reason| (reason, provider.counter(&TERM_ENDS, &[lock, reason]))),
            _pulled: [
                provider.pulled(&MASTER_STATUS, &[lock], Box::new(leads)),
                provider.pulled(&VALIDITY, &[lock], Box::new(left)),
            ],
        }
    }

    pub(crate) fn term_ended(&self, reason: &EndReason) {
        let of_reason = self.term_ends.iter().filter(|(name, _)| *name == reason.name());
        of_reason.for_each(|(_, counter)| counter.add(1));
    }
}
