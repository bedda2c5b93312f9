//! The state that the socket and the requests of an HTTP/2 connection share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// When data was read from a connection, and whether the peer is lost.
pub(super) struct Reads {
    /// Notifies its waiters after the first data from the peer has been processed.
    pub(super) settled: Notify,
    start: Instant,
    /// The time of the last read, in milliseconds after `start`.
    last: AtomicU64,
    /// Whether the peer did not answer a ping in time.
    is_dead: AtomicBool,
}

impl Default for Reads {
    fn default() -> Self {
        Self { settled: Notify::new(), start: Instant::now(), last: AtomicU64::new(0), is_dead: AtomicBool::new(false) }
    }
}

impl Reads {
    /// Stores the time at which the peer sent data.
    pub(super) fn mark(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Returns whether the peer did not answer a ping in time.
    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// Records that the peer did not answer a ping in time.
    pub(super) fn mark_dead(&self) {
        self.is_dead.store(true, Ordering::Release);
    }

    /// Returns the time of the last read.
    pub(super) fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}
