//! The delays between the attempts of one operation. The delays grow.

use std::time::Duration;

use crate::Jitter;
use crate::jitter::scale;

/// Computes growing delays between retries. After a success, the delays start again from the first delay.
///
/// This type corresponds to client-go's `wait.Backoff`, and to its `BackoffManager` except for the reset. A `Backoff` only computes
/// delays: it does not sleep and reads no clock. The owner calls [`reset`](Backoff::reset) after a success. client-go's manager
/// instead resets itself if there was no failure for some time, such as two minutes. With the reset of client-go, the delays stay
/// long for some time after a success. If each attempt takes longer than that time, the delays never grow.
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
    /// How many more times the delay can grow.
    steps: u32,
}

/// The configuration of a [`Backoff`]. The default values come from client-go's reflector. With these values, the first delay is
/// 0.8 s. The delay doubles with each failure up to 30 s, and the jitter adds up to 100 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub base: Duration,
    /// The growth factor. If the factor is below 1 or NaN, the delay stays constant.
    pub factor: f64,
    /// The maximum delay, without jitter.
    pub cap: Duration,
    /// The maximum jitter that is added to a delay, as a fraction of the delay. If the value is 1.0, a delay with jitter is at
    /// most twice as long as the delay without jitter. If the fraction is below 0 or NaN, no jitter is added.
    pub jitter: f64,
    /// The number of failures after which the delay no longer grows. The default is no limit.
    pub steps: u32,
    /// The longest delay that a server can request. The default is 10 minutes.
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
    /// Creates a backoff that has seen no failure yet. Equal seeds produce equal delays.
    pub fn new(config: BackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), delay: config.base.min(config.cap), steps: config.steps }
    }

    /// Returns how long to wait after a failure. A `Retry-After` from the server is a lower bound for the delay, up to the
    /// configured maximum. The `Retry-After` does not affect later delays.
    pub fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = self.delay;
        if self.steps > 0 && self.config.factor > 1.0 {
            self.steps -= 1;
            self.delay = scale(delay, self.config.factor).min(self.config.cap);
        }
        let minimum = retry_after.unwrap_or_default().min(self.config.longest_retry_after);
        delay.saturating_add(self.jitter.up_to(scale(delay, self.config.jitter))).max(minimum)
    }

    /// Makes the next delay the first delay again. Call this method after each success.
    pub fn reset(&mut self) {
        self.delay = self.config.base.min(self.config.cap);
        self.steps = self.config.steps;
    }
}
