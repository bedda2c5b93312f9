//! State shared by the socket of an HTTP/2 connection and the requests on it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The time of the connection's last read, and whether its peer is lost.
pub(super) struct Reads {
    /// Notified after the first data from the peer was processed.
    pub(super) settled: Notify,
    start: Instant,
    /// The time of the last read, in milliseconds since `start`.
    last: AtomicU64,
    is_dead: AtomicBool,
}

impl Default for Reads {
    fn default() -> Self {
        Self { settled: Notify::new(), start: Instant::now(), last: AtomicU64::new(0), is_dead: AtomicBool::new(false) }
    }
}

impl Reads {
    pub(super) fn mark(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    pub(super) fn mark_dead(&self) {
        self.is_dead.store(true, Ordering::Release);
    }

    pub(super) fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}
