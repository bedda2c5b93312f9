//! The order to stop, and the time that it leaves.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The order to stop, for everything that has a clone of it. Its time counts from when it is given.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    token: CancellationToken,
    timeout: Duration,
    given: Arc<OnceLock<Instant>>,
}

impl Stop {
    /// Follows `token`.
    pub(crate) fn new(token: &CancellationToken, timeout: Duration) -> Self {
        Self { token: token.child_token(), timeout, given: Arc::default() }
    }

    /// The same order, with so many percent of its time.
    pub(crate) fn percent(&self, share: u32) -> Self {
        Self { timeout: self.timeout / 100 * share, ..self.clone() }
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Gives it. The token that it follows is left alone.
    pub(crate) fn give(&self) {
        self.token.cancel();
        self.since();
    }

    /// Waits for it.
    pub(crate) async fn given(&self) {
        self.token.cancelled().await;
        self.since();
    }

    /// Waits for it, or for the end of the term.
    pub(crate) async fn given_under(&self, leadership: Option<&Leadership>) {
        match leadership {
            None => self.given().await,
            Some(leadership) => tokio::select! {
                () = self.given() => {}
                () = leadership.cancelled() => {}
            },
        }
    }

    /// How much of its time is left; all of it before it is given.
    pub(crate) fn left(&self) -> Duration {
        match self.token.is_cancelled() {
            true => self.timeout.saturating_sub(self.since().elapsed()),
            false => self.timeout,
        }
    }

    /// When whoever shares it first saw that it was given.
    fn since(&self) -> Instant {
        *self.given.get_or_init(Instant::now)
    }

    /// Waits until it was given and its time is up.
    pub(crate) async fn over(&self) {
        self.given().await;
        // What the clock cannot count never ends.
        match Instant::now().checked_add(self.left()) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => pending().await,
        }
    }
}
