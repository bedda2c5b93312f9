//! Increasing delays between the attempts of an operation.

use std::time::Duration;

use crate::jitter::{Jitter, scale};

/// Computes increasing delays for the retries of an operation. The delays start over after a success.
///
/// A `Backoff` only computes delays, and does not sleep or read a clock. This type corresponds to client-go's
/// `wait.Backoff` and `BackoffManager`, but is reset differently.
///
/// Callers [reset](Backoff::reset) the backoff after a success. client-go's manager instead resets itself after a
/// period without failures, such as two minutes. In client-go, the delays therefore stay long after a success, and
/// never increase if each attempt takes longer than the period.
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
    delay: Duration,
    /// The number of further failures that increase the delay.
    steps: u32,
}

/// The configuration of a [`Backoff`]. The defaults match client-go's reflector: the first delay is 0.8 s, each failure
/// doubles the delay up to 30 s, and jitter adds up to 100 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub base: Duration,
    /// The growth factor. The delay does not increase if the factor is below 1 or NaN.
    pub factor: f64,
    /// The maximum delay, without jitter.
    pub cap: Duration,
    /// The maximum jitter, as a fraction of the delay. Jitter is added to the delay, so a fraction of 1.0 can at most
    /// double the delay. A negative or NaN fraction disables jitter.
    pub jitter: f64,
    /// The delay stops increasing after this many failures. By default, `steps` does not limit the delay.
    pub steps: u32,
    /// The maximum `Retry-After`. Longer `Retry-After` values are reduced to this maximum. The default is 10 minutes.
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
    /// Creates a backoff that starts with the first delay. Equal seeds produce equal delays.
    pub fn new(config: BackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), delay: config.base.min(config.cap), steps: config.steps }
    }

    /// Returns how long to wait after a failure. The delay is at least `retry_after`, which is limited to [the
    /// configured maximum](BackoffConfig::longest_retry_after). `retry_after` does not affect the delays of later
    /// failures.
    pub fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = self.delay;
        if self.steps > 0 && self.config.factor > 1.0 {
            self.steps -= 1;
            self.delay = scale(delay, self.config.factor).min(self.config.cap);
        }
        let minimum = retry_after.unwrap_or_default().min(self.config.longest_retry_after);
        delay.saturating_add(self.jitter.up_to(scale(delay, self.config.jitter))).max(minimum)
    }

    /// Resets the backoff to the first delay. Call this method after every success.
    pub fn reset(&mut self) {
        self.delay = self.config.base.min(self.config.cap);
        self.steps = self.config.steps;
    }
}
