//! What has become of events, for whoever ends a broadcaster, and for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has become of all events of a broadcaster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventMetrics {
    /// Recorded: the sum of what follows, but for `combined` and what is still waiting.
    pub recorded: u64,
    /// Stored as new events.
    pub created: u64,
    /// Counted on stored events.
    pub patched: u64,
    /// Of these two, those that stood for several different messages.
    pub combined: u64,
    /// Held back, since there were too many about their object.
    pub spam: u64,
    /// Lost, since the queue was full or closed.
    pub dropped: u64,
    /// Lost, since the server refused them or could not be reached.
    pub failed: u64,
}

/// The same, while it changes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) recorded: AtomicU64,
    pub(crate) created: AtomicU64,
    pub(crate) patched: AtomicU64,
    pub(crate) combined: AtomicU64,
    pub(crate) spam: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> EventMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EventMetrics {
            recorded: read(&self.recorded),
            created: read(&self.created),
            patched: read(&self.patched),
            combined: read(&self.combined),
            spam: read(&self.spam),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
