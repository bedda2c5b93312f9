//! The retry delay of a controller that retries all its failed writes together.

use std::time::Duration;

use tokio::time::Instant;

/// The minimum and maximum delay before a retry. The retry delay doubles with each retry.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// The time of the next retry and the delay before it.
#[derive(Debug, Default)]
pub(super) struct Backoff(Option<(Instant, Duration)>);

impl Backoff {
    /// Returns `true` if the delay has passed.
    pub(super) fn is_due(&self) -> bool {
        self.0.is_some_and(|(due, _)| due <= Instant::now())
    }

    /// Returns the time of the next retry, if any. `has_failed` is `true` if any write has failed. `is_waiting` is
    /// `true` if a webhook reviews a write, which may be a retry. In this case, the next failure doubles the delay.
    pub(super) fn next(&mut self, has_failed: bool, is_waiting: bool) -> Option<Instant> {
        let now = Instant::now();
        self.0 = match self.0 {
            before if !has_failed => before.filter(|_| is_waiting),
            Some((due, delay)) if due > now => Some((due, delay)),
            before => {
                let delay = before.map_or(FIRST_RETRY, |(_, delay)| (delay * 2).min(MAX_RETRY));
                Some((now + delay, delay))
            }
        };
        self.0.filter(|_| has_failed).map(|(due, _)| due)
    }
}
