//! The stop signal with its timeout.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A stop signal, shared by all clones. Its timeout starts when the stop is requested.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    token: CancellationToken,
    timeout: Duration,
    requested_at: Arc<OnceLock<Instant>>,
}

impl Stop {
    /// Creates a stop that follows `token`.
    pub(crate) fn new(token: &CancellationToken, timeout: Duration) -> Self {
        Self { token: token.child_token(), timeout, requested_at: Arc::default() }
    }

    /// Returns the same stop with this percentage of the timeout.
    pub(crate) fn percent(&self, share: u32) -> Self {
        Self { timeout: self.timeout / 100 * share, ..self.clone() }
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Requests the stop. The token that it follows is not cancelled.
    pub(crate) fn request(&self) {
        self.token.cancel();
        self.since();
    }

    /// Waits for the request.
    pub(crate) async fn requested(&self) {
        self.token.cancelled().await;
        self.since();
    }

    /// Waits for the request, or for the end of the term.
    pub(crate) async fn requested_or_term_ended(&self, leadership: Option<&Leadership>) {
        match leadership {
            None => self.requested().await,
            Some(leadership) => tokio::select! {
                () = self.requested() => {}
                () = leadership.cancelled() => {}
            },
        }
    }

    /// Returns the remaining time, which is the whole timeout before the request.
    pub(crate) fn left(&self) -> Duration {
        match self.token.is_cancelled() {
            true => self.timeout.saturating_sub(self.since().elapsed()),
            false => self.timeout,
        }
    }

    /// Returns the time at which any clone first noticed the request.
    fn since(&self) -> Instant {
        *self.requested_at.get_or_init(Instant::now)
    }

    /// Waits until the stop was requested and its timeout has passed.
    pub(crate) async fn timed_out(&self) {
        self.requested().await;
        // An overflow means no limit.
        match Instant::now().checked_add(self.left()) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => pending().await,
        }
    }
}
