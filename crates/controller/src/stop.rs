//! The stop signal with its timeout.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A signal that requests a stop, shared by all clones. The timeout starts when the stop is requested.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    token: CancellationToken,
    timeout: Duration,
    requested_at: Arc<OnceLock<Instant>>,
}

impl Stop {
    /// Creates a stop signal. A request to stop also cancels `token`.
    pub(crate) fn new(token: CancellationToken, timeout: Duration) -> Self {
        Self { token, timeout, requested_at: Arc::default() }
    }

    /// Returns a copy of this stop signal whose timeout is this percentage of the original timeout.
    pub(crate) fn percent(&self, share: u32) -> Self {
        Self { timeout: self.timeout / 100 * share, ..self.clone() }
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Requests a stop.
    pub(crate) fn request(&self) {
        self.token.cancel();
        self.since();
    }

    /// Waits until a stop is requested.
    pub(crate) async fn requested(&self) {
        self.token.cancelled().await;
        self.since();
    }

    /// Waits until a stop is requested, or until the leadership term ends.
    pub(crate) async fn requested_or_term_ended(&self, leadership: Option<&Leadership>) {
        match leadership {
            None => self.requested().await,
            Some(leadership) => tokio::select! {
                () = self.requested() => {}
                () = leadership.cancelled() => {}
            },
        }
    }

    /// Returns the remaining time until the stop timeout has passed. Before a stop is requested, the result is the
    /// whole timeout.
    pub(crate) fn left(&self) -> Duration {
        match self.token.is_cancelled() {
            true => self.timeout.saturating_sub(self.since().elapsed()),
            false => self.timeout,
        }
    }

    /// Returns the time at which a clone first noticed the request to stop. All clones share this time.
    fn since(&self) -> Instant {
        *self.requested_at.get_or_init(Instant::now)
    }

    /// Waits until a stop has been requested and its timeout has passed.
    pub(crate) async fn timed_out(&self) {
        self.requested().await;
        // If the end of the timeout is too late to be represented, there is no limit.
        match Instant::now().checked_add(self.left()) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => pending().await,
        }
    }
}
