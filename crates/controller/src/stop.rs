//! The order to stop, and the time that it leaves.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

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

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Gives it. The token that it follows is left alone.
    pub(crate) fn give(&self) {
        self.token.cancel();
        self.left();
    }

    pub(crate) async fn given(&self) {
        self.token.cancelled().await;
        self.left();
    }

    /// How much of its time is left; all of it before it is given.
    pub(crate) fn left(&self) -> Duration {
        match self.token.is_cancelled() {
            true => self.timeout.saturating_sub(self.given.get_or_init(Instant::now).elapsed()),
            false => self.timeout,
        }
    }
}
