//! The clock that the API server uses for timestamps.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use pintle_meta::Time;
use tokio::time::Instant;

/// A wall clock that advances with tokio's clock, and stops while a test pauses tokio's clock.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    wall: Timestamp,
    skew_millis: AtomicI64,
}

impl Clock {
    /// Creates a clock that starts at `start`, or at the machine's time if `start` is `None`.
    pub fn new(start: Option<SystemTime>) -> Self {
        let given = start.and_then(|start| Timestamp::try_from(start).ok());
        let wall = given.unwrap_or_else(Timestamp::now);
        Self { origin: Instant::now(), wall, skew_millis: AtomicI64::new(0) }
    }

    /// Returns tokio's current time, which the server uses for ordering and expiry.
    pub fn instant(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    /// Returns the wall time for timestamps in objects.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        let skew = SignedDuration::from_millis(self.skew_millis.load(Ordering::Relaxed));
        self.wall.saturating_add(elapsed.saturating_add(skew)).unwrap_or(self.wall)
    }

    /// Returns the current time as an object timestamp.
    pub fn now_text(&self) -> String {
        Time(self.now()).to_string()
    }

    /// Sets how far the server's wall clock is ahead of the machine's clock.
    pub fn set_ahead(&self, ahead: Duration) {
        let millis = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
        self.skew_millis.store(millis, Ordering::Relaxed);
    }

    /// Returns the current time plus `after` as an object timestamp.
    pub fn text_after(&self, after: Duration) -> String {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        Time(self.now().saturating_add(after).unwrap_or(Timestamp::MAX)).to_string()
    }
}
