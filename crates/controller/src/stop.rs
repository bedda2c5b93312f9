//! A stop signal with a timeout for the stop.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A signal that requests a stop. Clones share this signal. The timeout starts when the stop is
/// requested.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) token: CancellationToken,
    pub(crate) timeout: Duration,
    requested_at: Arc<OnceLock<Instant>>,
}

impl Stop {
    /// Creates a stop signal. Cancelling `token` requests a stop, and a stop request cancels `token`.
    pub(crate) fn new(token: CancellationToken, timeout: Duration) -> Self {
        Self { token, timeout, requested_at: Arc::default() }
    }

    /// Returns a clone whose timeout is `share` percent of this signal's timeout.
    pub(crate) fn percent(&self, share: u32) -> Self {
        Self { timeout: self.timeout / 100 * share, ..self.clone() }
    }

    pub(crate) fn request(&self) {
        self.token.cancel();
        self.since();
    }

    pub(crate) async fn requested(&self) {
        self.token.cancelled().await;
        self.since();
    }

    pub(crate) async fn requested_or_term_ended(&self, leadership: Option<&Leadership>) {
        match leadership {
            None => self.requested().await,
            Some(leadership) => tokio::select! {
                () = self.requested() => {}
                () = leadership.cancelled() => {}
            },
        }
    }

    /// Returns the remaining time before the timeout, or the full timeout if no stop was requested.
    pub(crate) fn left(&self) -> Duration {
        if self.token.is_cancelled() { self.timeout.saturating_sub(self.since().elapsed()) } else { self.timeout }
    }

    /// Returns the time at which this signal or a clone of it first noticed the stop request.
    fn since(&self) -> Instant {
        *self.requested_at.get_or_init(Instant::now)
    }

    pub(crate) async fn timed_out(&self) {
        self.requested().await;
        // If this addition overflows, the timeout never elapses.
        match Instant::now().checked_add(self.left()) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => pending().await,
        }
    }
}
