//! How long to leave one thing alone that fails.

use std::time::Duration;

use crate::Jitter;
use crate::jitter::scale;

/// Says how long to wait after each failure: longer each time, and from the start again after a success. This is client-go's
/// `wait.Backoff`, and its `BackoffManager` but for when it starts over.
///
/// It is stepped: it neither sleeps nor reads a clock. Its owner says what a success is, and calls
/// [`reset`](Backoff::reset) then. client-go's manager starts over after a quiet time instead, two minutes say; so what works
/// again pays for what failed before, and what takes long to fail never backs off.
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
    /// The next delay, before chance is added.
    delay: Duration,
    /// How often it may still grow.
    steps: u32,
}

/// How a [`Backoff`] grows. The defaults are those of client-go's reflector: 0.8 s, doubling up to 30 s, and up to as much
/// again by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub base: Duration,
    /// By how much each delay exceeds the one before. Below 1, or no number: all are alike.
    pub factor: f64,
    /// The longest delay, before chance is added.
    pub cap: Duration,
    /// The largest share of a delay that chance adds to it: 1.0 for up to as much again. Below 0, or no number: nothing.
    pub jitter: f64,
    /// How often a delay exceeds the one before; from then on all are alike. No limit by default.
    pub steps: u32,
    /// A server may ask for more time than the delay, but it is not given more than this. 10 minutes by default.
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
    /// A back-off without a failure yet. Equal seeds give equal delays.
    pub fn new(config: BackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), delay: config.base.min(config.cap), steps: config.steps }
    }

    /// How long to wait after a failure: at least as long as the server asks for, its `Retry-After`, unless it asks for too
    /// much. What it asks for leaves the later delays as they are.
    pub fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = self.delay;
        if self.steps > 0 && self.config.factor > 1.0 {
            self.steps -= 1;
            self.delay = scale(delay, self.config.factor).min(self.config.cap);
        }
        let asked = retry_after.unwrap_or_default().min(self.config.longest_retry_after);
        delay.saturating_add(self.jitter.up_to(scale(delay, self.config.jitter))).max(asked)
    }

    /// Starts over: there was a success.
    pub fn reset(&mut self) {
        self.delay = self.config.base.min(self.config.cap);
        self.steps = self.config.steps;
    }
}
