//! Limiters that combine other limiters, and a limiter based on a token bucket.

use std::fmt;
use std::time::{Duration, Instant};

use super::RateLimiter;
use crate::bucket::TokenBucket;

/// A limiter with a single token bucket for all items. Each attempt reserves a token and is delayed until this token is
/// available.
///
/// Reserved tokens are never returned to the bucket, so the delays grow without limit while there is a backlog. To
/// limit the rate of a work queue, use the queue's dequeue limit instead.
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    bucket: TokenBucket,
}

impl BucketRateLimiter {
    /// Creates a limiter that reserves tokens in `bucket`.
    pub fn new(bucket: TokenBucket) -> Self {
        Self { bucket }
    }
}

impl<K: ?Sized> RateLimiter<K> for BucketRateLimiter {
    fn delay(&mut self, _item: &K, _failures: u32, now: Instant) -> Duration {
        self.bucket.wait_for_one(now)
    }

    fn charge(&mut self, _item: &K, now: Instant) {
        self.bucket.reserve(now);
    }

    fn counts_failures(&self) -> bool {
        false
    }
}

/// A limiter that returns the longest delay of several limiters. [`charge`](RateLimiter::charge) charges all of these
/// limiters.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{
///     Clock, ExponentialFailureRateLimiter, FastSlowRateLimiter, MaxOfRateLimiter, RateLimiter, StdClock,
/// };
/// use std::time::Duration;
///
/// let mut limiter: MaxOfRateLimiter<str> = MaxOfRateLimiter::new(vec![
///     Box::new(FastSlowRateLimiter::new(Duration::from_millis(20), Duration::from_secs(3), 5)),
///     Box::new(ExponentialFailureRateLimiter::default()),
/// ]);
/// assert_eq!(limiter.delay("blog", 0, StdClock.now()), Duration::from_millis(20));
/// assert_eq!(limiter.delay("blog", 4, StdClock.now()), Duration::from_millis(80));
/// ```
pub struct MaxOfRateLimiter<K: ?Sized> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K: ?Sized> MaxOfRateLimiter<K> {
    /// Creates a limiter from `limiters`. All delays are zero if `limiters` is empty.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K: ?Sized> fmt::Debug for MaxOfRateLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOfRateLimiter").field("limiters", &self.limiters.len()).finish()
    }
}

impl<K: ?Sized> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration {
        self.limiters.iter_mut().map(|limiter| limiter.delay(item, failures, now)).max().unwrap_or_default()
    }

    fn charge(&mut self, item: &K, now: Instant) {
        for limiter in &mut self.limiters {
            limiter.charge(item, now);
        }
    }

    fn forget(&mut self, item: &K) {
        for limiter in &mut self.limiters {
            limiter.forget(item);
        }
    }

    fn counts_failures(&self) -> bool {
        self.limiters.iter().any(|limiter| limiter.counts_failures())
    }
}

/// A limiter that caps the delays of another limiter at `max`. [`charge`](RateLimiter::charge) charges the other
/// limiter.
#[derive(Clone, Debug)]
pub struct WithMaxWaitRateLimiter<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWaitRateLimiter<L> {
    /// Creates a limiter that caps the delays of `limiter` at `max`.
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K: ?Sized, L: RateLimiter<K>> RateLimiter<K> for WithMaxWaitRateLimiter<L> {
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration {
        self.limiter.delay(item, failures, now).min(self.max)
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
