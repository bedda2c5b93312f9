//! What has become of events, for whoever ends a broadcaster, and for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_metrics::{Counter, Metric, MetricKind, Provider};

/// What has become of all events of a broadcaster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Recorded, once for each sink: the sum of what follows, but for `combined` and what is still waiting.
    pub recorded: u64,
    /// Stored as new events.
    pub created: u64,
    /// Counted on stored events.
    pub patched: u64,
    /// Of these two, those that stood for several different messages.
    pub combined: u64,
    /// Counted on a series here, which is told to the server from time to time.
    pub counted: u64,
    /// Held back, since there were too many about their object.
    pub spam: u64,
    /// Lost, since the queue was full or closed.
    pub dropped: u64,
    /// Lost, since the server refused them or could not be reached.
    pub failed: u64,
}

static RECORDED: Metric = Metric {
    name: "event_broadcaster_recorded_total",
    help: "Events that were recorded",
    kind: MetricKind::Counter,
    labels: &[],
};
static SETTLED: Metric = Metric {
    name: "event_broadcaster_settled_total",
    help: "Events that do not wait any more, by what became of them",
    kind: MetricKind::Counter,
    labels: &["outcome"],
};
static COMBINED: Metric = Metric {
    name: "event_broadcaster_combined_total",
    help: "Events that were stored for several different messages",
    kind: MetricKind::Counter,
    labels: &[],
};

/// The same, while it changes.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) recorded: Tally,
    pub(crate) created: Tally,
    pub(crate) patched: Tally,
    pub(crate) combined: Tally,
    pub(crate) counted: Tally,
    pub(crate) spam: Tally,
    pub(crate) dropped: Tally,
    pub(crate) failed: Tally,
}

/// A count that is told, too, if anyone wants to know.
#[derive(Debug)]
pub(crate) struct Tally {
    count: AtomicU64,
    told: Option<Box<dyn Counter>>,
}

impl Counters {
    pub(crate) fn new(provider: Option<&dyn Provider>) -> Self {
        let tally = |metric, labels: &[&str]| Tally {
            count: AtomicU64::new(0),
            told: provider.map(|provider| provider.counter(metric, labels)),
        };
        let settled = |outcome| tally(&SETTLED, &[outcome]);
        Self {
            recorded: tally(&RECORDED, &[]),
            created: settled("created"),
            patched: settled("patched"),
            combined: tally(&COMBINED, &[]),
            counted: settled("counted"),
            spam: settled("spam"),
            dropped: settled("dropped"),
            failed: settled("failed"),
        }
    }

    pub(crate) fn snapshot(&self) -> EventCounts {
        let read = |tally: &Tally| tally.count.load(Ordering::Relaxed);
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

impl Tally {
    pub(crate) fn add(&self, events: u64) {
        self.count.fetch_add(events, Ordering::Relaxed);
        if let Some(told) = &self.told {
            told.add(events);
        }
    }
}
