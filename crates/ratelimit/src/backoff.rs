//! Growing delays between the attempts of one operation.

use std::time::Duration;

use crate::Jitter;
use crate::jitter::scale;

/// Computes growing delays between retries. After a success, the delays start again with the first delay.
///
/// This is client-go's `wait.Backoff`, and its `BackoffManager` except for the reset. A `Backoff` does not sleep and reads no clock. Its
/// owner calls [`reset`](Backoff::reset) after a success. client-go's manager instead resets itself if there was no failure for some time,
/// such as two minutes. With that rule, delays stay long for some time after a success. If each attempt takes longer than that time, the
/// delays never grow.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Backoff, BackoffConfig};
/// use std::time::Duration;
///
/// let config = BackoffConfig { base: Duration::from_secs(1), jitter: 0.0, ..BackoffConfig::default() };
/// let mut backoff = Backoff::new(config, 7);
/// assert_eq!(backoff.next(None), Duration::from_secs(1));
/// assert_eq!(backoff.next(None), Duration::from_secs(2));
/// // The server asked for more.
/// assert_eq!(backoff.next(Some(Duration::from_secs(10))), Duration::from_secs(10));
/// backoff.reset();
/// assert_eq!(backoff.next(None), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    config: BackoffConfig,
    jitter: Jitter,
    /// The next delay without jitter.
    delay: Duration,
    /// The number of times that the delay can still grow.
    steps: u32,
}

/// The configuration of a [`Backoff`]. The defaults come from client-go's reflector. The first delay is 0.8 s. It doubles up to 30 s, and
/// the jitter adds up to 100 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub base: Duration,
    /// The growth factor. Values below 1 and NaN keep the delay constant.
    pub factor: f64,
    /// The maximum delay, without jitter.
    pub cap: Duration,
    /// The maximum jitter as a fraction of the delay. With 1.0, the jitter at most doubles the delay. Values below 0 and NaN disable
    /// jitter.
    pub jitter: f64,
    /// The delay no longer grows after this number of failures. The default is no limit.
    pub steps: u32,
    /// The maximum delay that a server can request. The default is 10 minutes.
    pub longest_retry_after: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            steps: u32::MAX,
            longest_retry_after: Duration::from_secs(600),
        }
    }
}

impl Backoff {
    /// Creates a backoff before its first failure. Equal seeds produce equal delays.
    pub fn new(config: BackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), delay: config.base.min(config.cap), steps: config.steps }
    }

    /// Returns the delay after a failure. The server's `Retry-After` is a lower bound, up to the configured maximum. It does not affect
    /// later delays.
    pub fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = self.delay;
        if self.steps > 0 && self.config.factor > 1.0 {
            self.steps -= 1;
            self.delay = scale(delay, self.config.factor).min(self.config.cap);
        }
        let minimum = retry_after.unwrap_or_default().min(self.config.longest_retry_after);
        delay.saturating_add(self.jitter.up_to(scale(delay, self.config.jitter))).max(minimum)
    }

    /// Resets the delay to the first delay. Call this method after a success.
    pub fn reset(&mut self) {
        self.delay = self.config.base.min(self.config.cap);
        self.steps = self.config.steps;
    }
}
