//! Limiters whose delays depend only on the failures of the item itself.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// A limiter that doubles the delay with each failure: `base * 2^failures`, up to `max`.
///
/// The defaults match controller-runtime: the delays grow from 5 ms to 1000 s. The arithmetic saturates, so even a
/// large number of failures causes no overflow. All delays are zero if `base` is zero.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, RateLimiter, StdClock};
/// use std::time::Duration;
///
/// let mut limiter = ExponentialFailureRateLimiter::default();
/// assert_eq!(limiter.delay("blog", 0, StdClock.now()), Duration::from_millis(5));
/// assert_eq!(limiter.delay("blog", 3, StdClock.now()), Duration::from_millis(40));
/// assert_eq!(limiter.delay("blog", 1_000_000, StdClock.now()), Duration::from_secs(1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExponentialFailureRateLimiter {
    base: Duration,
    max: Duration,
}

impl ExponentialFailureRateLimiter {
    /// Creates a limiter whose delays grow from `base` to `max`. All delays are `max` if `max` is less than `base`.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }
}

impl Default for ExponentialFailureRateLimiter {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: ?Sized> RateLimiter<K> for ExponentialFailureRateLimiter {
    fn delay(&mut self, _item: &K, failures: u32, _now: Instant) -> Duration {
        exponential(self.base, self.max, failures)
    }
}

/// A limiter with a short delay for the first few attempts and a long delay for all later attempts.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, FastSlowRateLimiter, RateLimiter, StdClock};
/// use std::time::Duration;
///
/// let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
/// let mut limiter = FastSlowRateLimiter::new(fast, slow, 3);
/// let delays = [0, 1, 2, 3, 4].map(|failures| limiter.delay("blog", failures, StdClock.now()));
/// assert_eq!(delays, [fast, fast, fast, slow, slow]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastSlowRateLimiter {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u32,
}

impl FastSlowRateLimiter {
    /// Creates a limiter with the delay `fast` for the first `max_fast_attempts` attempts, and the delay `slow` for all
    /// later ones.
    pub const fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Self {
        Self { fast, slow, max_fast_attempts }
    }
}

impl<K: ?Sized> RateLimiter<K> for FastSlowRateLimiter {
    fn delay(&mut self, _item: &K, failures: u32, _now: Instant) -> Duration {
        if failures < self.max_fast_attempts { self.fast } else { self.slow }
    }
}

pub(crate) fn exponential(base: Duration, max: Duration, doublings: u32) -> Duration {
    match 2u32.checked_pow(doublings).and_then(|factor| base.checked_mul(factor)) {
        Some(delay) => delay.min(max),
        // The factor does not fit into 32 bits, or the product overflows. A zero `base` still results in a zero delay.
        None if base.is_zero() => base.min(max),
        None => exponential_slow(base, max, doublings),
    }
}

#[cold]
fn exponential_slow(base: Duration, max: Duration, doublings: u32) -> Duration {
    // The longest `Duration` is below 2^94 ns, so even a delay of 1 ns exceeds it after doubling 94 times.
    let nanos = base.as_nanos();
    if doublings >= 94 || nanos.leading_zeros() <= doublings {
        return max;
    }
    let nanos = nanos << doublings;
    if nanos >= max.as_nanos() { max } else { from_nanos(nanos) }
}

fn from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oracle(base: Duration, max: Duration, doublings: u32) -> Duration {
        let mut delay = base;
        for _ in 0..doublings {
            delay = delay.saturating_add(delay);
        }
        delay.min(max)
    }

    #[test]
    fn exponential_is_doubling_with_saturation() {
        let bases = [0, 1, 3, 1 << 30, 5_000_000, 60_000_000_000, u64::MAX].map(Duration::from_nanos);
        let maxes = [0, 1, 1_000_000_000, 1_000_000_000_000, u64::MAX].map(Duration::from_nanos);
        for base in bases.into_iter().chain([Duration::MAX]) {
            for max in maxes.into_iter().chain([Duration::MAX]) {
                for doublings in (0..140).chain([1024, 5000]) {
                    let expected = oracle(base, max, doublings);
                    assert_eq!(exponential(base, max, doublings), expected, "{base:?} {max:?} {doublings}");
                }
            }
        }
    }
}
