//! Growing delays between the attempts of one operation.

use std::time::Duration;

use crate::Jitter;
use crate::jitter::scale;

/// Computes growing delays between retries, which start over after a success.
///
/// This is client-go's `wait.Backoff`, and its `BackoffManager` except for the reset. A `Backoff` neither sleeps nor reads a clock. Its
/// owner calls [`reset`](Backoff::reset) after a success. client-go's manager instead starts over after a quiet time, such as two
/// minutes. As a result, an operation that works again still pays for earlier failures, and one that fails slowly never backs off.
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
    /// The next delay, without jitter.
    delay: Duration,
    /// How many more times the delay can grow.
    steps: u32,
}

/// The configuration of a [`Backoff`]. The defaults are those of client-go's reflector: 0.8 s, doubling up to 30 s, plus up to 100 %
/// jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub base: Duration,
    /// The growth factor. Values below 1 and NaN keep the delay constant.
    pub factor: f64,
    /// The maximum delay, without jitter.
    pub cap: Duration,
    /// The maximum jitter as a fraction of the delay: 1.0 adds up to the delay itself. Values below 0 and NaN disable jitter.
    pub jitter: f64,
    /// How many times the delay grows. Afterwards it stays constant. No limit by default.
    pub steps: u32,
    /// The maximum delay that a server can request. 10 minutes by default.
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
    /// Creates a backoff without failures. Equal seeds produce equal delays.
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

    /// Starts over, after a success.
    pub fn reset(&mut self) {
        self.delay = self.config.base.min(self.config.cap);
        self.steps = self.config.steps;
    }
}
