//! The informers' clock.

use std::time::Instant;

/// Returns the time of tokio's clock, which tests can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
