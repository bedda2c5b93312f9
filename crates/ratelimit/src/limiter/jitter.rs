//! A limiter with random delays.

use std::time::{Duration, Instant};

use super::RateLimiter;
use crate::jitter::{Jitter, scale};

/// A limiter that subtracts a random part from the delays of another limiter, so that items that failed at the same
/// time are retried at different times.
///
/// The limiter replaces a delay `d` with a random delay that is uniformly distributed in `[d * (1 - fraction), d]`.
/// Because jitter is subtracted, delays never exceed the maximum of the other limiter. Jitter also applies to items
/// whose delays have reached this maximum.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, RateLimiter, StdClock, WithJitterRateLimiter};
/// use std::time::Duration;
///
/// let mut limiter = WithJitterRateLimiter::new(ExponentialFailureRateLimiter::default(), 0.5, 7);
/// let delay = limiter.delay("blog", 3, StdClock.now());
/// assert!(delay >= Duration::from_millis(20) && delay <= Duration::from_millis(40));
/// ```
#[derive(Clone, Debug)]
pub struct WithJitterRateLimiter<L> {
    limiter: L,
    fraction: f64,
    jitter: Jitter,
}

impl<L> WithJitterRateLimiter<L> {
    /// Creates a limiter that subtracts a random part, at most `fraction`, from the delays of `limiter`. A fraction of
    /// 1 is "full jitter", and 0.5 is "equal jitter". A fraction outside `0..=1` is clamped, and NaN is treated as 0.
    /// Limiters with equal seeds produce equal delays.
    pub fn new(limiter: L, fraction: f64, seed: u64) -> Self {
        let fraction = if fraction > 0.0 { fraction.min(1.0) } else { 0.0 };
        Self { limiter, fraction, jitter: Jitter::new(seed) }
    }
}

impl<K: ?Sized, L: RateLimiter<K>> RateLimiter<K> for WithJitterRateLimiter<L> {
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration {
        let delay = self.limiter.delay(item, failures, now);
        delay.saturating_sub(self.jitter.up_to(scale(delay, self.fraction)))
    }

    fn charge(&mut self, item: &K, now: Instant) {
        self.limiter.charge(item, now);
    }

    fn forget(&mut self, item: &K) {
        self.limiter.forget(item);
    }

    fn counts_failures(&self) -> bool {
        self.limiter.counts_failures()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExponentialFailureRateLimiter;

    fn delays(fraction: f64, failures: u32) -> Vec<Duration> {
        let exponential = ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
        let mut limiter = WithJitterRateLimiter::new(exponential, fraction, 7);
        let now = Instant::now();
        (0..100).map(|_| limiter.delay("key", failures, now)).collect()
    }

    #[test]
    fn jitter_holds_at_the_cap() {
        let delays = delays(0.5, 1000);
        assert!(delays.iter().all(|d| (Duration::from_millis(500)..=Duration::from_secs(1)).contains(d)));
        let spread =
            delays.iter().max().copied().unwrap_or_default() - delays.iter().min().copied().unwrap_or_default();
        assert!(spread > Duration::from_millis(250), "{spread:?}");
    }

    #[test]
    fn fractions_out_of_range_are_clamped() {
        assert!(delays(-1.0, 3).iter().chain(&delays(f64::NAN, 3)).all(|d| *d == Duration::from_millis(8)));
        assert!(delays(9.0, 3).iter().all(|d| *d <= Duration::from_millis(8)));
    }
}
