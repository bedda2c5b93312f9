//! Counts and metrics of events.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_metrics::{Counter, Metric, Provider};

/// The counts of all events that were recorded through a broadcaster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// The number of recorded events, where each event counts once per sink. `recorded` equals the sum of all other
    /// fields except `combined`, plus the number of events that are still queued.
    pub recorded: u64,
    /// The number of events that the sinks created on the server.
    pub created: u64,
    /// The number of repetitions that the sinks added to an existing event on the server.
    pub patched: u64,
    /// The number of `created` and `patched` events that combine several different messages.
    pub combined: u64,
    /// The number of repetitions that the sinks counted in memory as part of a series. Sinks write the count of a
    /// series to the server periodically.
    pub counted: u64,
    /// The number of events that the spam filter dropped because its rate limit was exceeded.
    pub spam: u64,
    /// The number of events that were dropped because a queue was full or closed.
    pub dropped: u64,
    /// The number of events that were lost because the server rejected them or was unreachable.
    pub failed: u64,
}

static RECORDED: Metric = Metric::counter("event_broadcaster_recorded_total", "Events that were recorded", &[]);
static SETTLED: Metric =
    Metric::counter("event_broadcaster_settled_total", "Events that were processed, by outcome", &["outcome"]);
static COMBINED: Metric =
    Metric::counter("event_broadcaster_combined_total", "Stored events that combine several different messages", &[]);

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) recorded: ReportedCounter,
    pub(crate) created: ReportedCounter,
    pub(crate) patched: ReportedCounter,
    pub(crate) combined: ReportedCounter,
    pub(crate) counted: ReportedCounter,
    pub(crate) spam: ReportedCounter,
    pub(crate) dropped: ReportedCounter,
    pub(crate) failed: ReportedCounter,
}

#[derive(Debug)]
pub(crate) struct ReportedCounter {
    count: AtomicU64,
    reported: Option<Box<dyn Counter>>,
}

impl Counters {
    pub(crate) fn new(provider: Option<&dyn Provider>) -> Self {
        let counter = |metric, labels: &[&str]| ReportedCounter {
            count: AtomicU64::new(0),
            reported: provider.map(|provider| provider.counter(metric, labels)),
        };
        let settled = |outcome| counter(&SETTLED, &[outcome]);
        Self {
            recorded: counter(&RECORDED, &[]),
            created: settled("created"),
            patched: settled("patched"),
            combined: counter(&COMBINED, &[]),
            counted: settled("counted"),
            spam: settled("spam"),
            dropped: settled("dropped"),
            failed: settled("failed"),
        }
    }

    pub(crate) fn snapshot(&self) -> EventCounts {
        let read = |counter: &ReportedCounter| counter.count.load(Ordering::Relaxed);
        EventCounts {
            recorded: read(&self.recorded),
            created: read(&self.created),
            patched: read(&self.patched),
            combined: read(&self.combined),
            counted: read(&self.counted),
            spam: read(&self.spam),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
        }
    }
}

impl ReportedCounter {
    pub(crate) fn add(&self, events: u64) {
        self.count.fetch_add(events, Ordering::Relaxed);
        if let Some(reported) = &self.reported {
            reported.add(events);
        }
    }
}
