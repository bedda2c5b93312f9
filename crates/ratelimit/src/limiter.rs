//! Policies that decide how long to wait before an item is retried.

mod compose;
mod item;
mod jitter;
mod per_item;

use std::time::{Duration, Instant};

pub use compose::{BucketRateLimiter, MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use item::{ItemRateLimiter, KeepFailures};
pub use jitter::WithJitterRateLimiter;
pub use per_item::{ExponentialFailureRateLimiter, FastSlowRateLimiter};

use crate::bucket::TokenBucket;

/// A policy that computes the delay before an item's next attempt.
///
/// The limiter does not store failures. A work queue stores the number of failures of each item itself. Without a work
/// queue, [`ItemRateLimiter`] stores these numbers in a map. The code that stores them is the *owner* below.
///
/// [`delay`](RateLimiter::delay) computes the delay without side effects. If the retry takes place, the owner calls
/// [`charge`](RateLimiter::charge) and increments the failure count. A retry has no effect if an earlier retry of the
/// same item is pending. The owner need not count a retry without effect.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ItemRateLimiter, KeepFailures, RateLimiter, StdClock};
/// use std::time::{Duration, Instant};
///
/// /// Adds a second with each failure.
/// struct Linear;
///
/// impl<K: ?Sized> RateLimiter<K> for Linear {
///     fn delay(&mut self, _item: &K, failures: u32, _now: Instant) -> Duration {
///         Duration::from_secs(u64::from(failures) + 1)
///     }
/// }
///
/// let mut limiter = ItemRateLimiter::new(Linear, KeepFailures::UntilForgotten);
/// let delays = [(); 3].map(|()| limiter.when(&"blog", StdClock.now()).as_secs());
/// assert_eq!(delays, [1, 2, 3]);
/// ```
pub trait RateLimiter<K: ?Sized>: Send {
    /// Returns how long to wait, counted from `now`, before the next attempt of `item`. `failures` is the number of
    /// earlier failures of `item`.
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration;

    /// Notifies the limiter that `item` will be retried after the delay that [`delay`](RateLimiter::delay) has
    /// computed. For example, a token bucket then reserves a token. The owner calls this method right after `delay`,
    /// with the same `now`.
    fn charge(&mut self, item: &K, now: Instant) {
        let _ = (item, now);
    }

    /// Removes any data that the limiter stores about `item`. The owner calls this method when it forgets the failures
    /// of `item`.
    fn forget(&mut self, item: &K) {
        let _ = item;
    }

    /// Returns `true` if each call to [`charge`](RateLimiter::charge) counts as a requeue of the item. A limiter that
    /// treats all items equally, such as a token bucket, returns `false`.
    fn counts_failures(&self) -> bool {
        true
    }
}

impl<K: ?Sized, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration {
        (**self).delay(item, failures, now)
    }

    fn charge(&mut self, item: &K, now: Instant) {
        (**self).charge(item, now);
    }

    fn forget(&mut self, item: &K) {
        (**self).forget(item);
    }

    fn counts_failures(&self) -> bool {
        (**self).counts_failures()
    }
}

/// Creates a limiter like client-go's `DefaultTypedControllerRateLimiter`. The limiter returns the longer of two
/// delays.
///
/// The first delay grows exponentially with the item's failures, from 5 ms to 1000 s. The second delay is the time
/// until a token is available in a bucket that all items share. The bucket gains 10 tokens per second, has a burst of
/// 100, and is full when it is first used.
///
/// Because of the shared bucket, retrying 10,000 failing items takes 16 minutes, regardless of each item's own delay.
/// Most controllers should use [`ExponentialFailureRateLimiter::default`], which is also controller-runtime's default.
pub fn default_controller_rate_limiter<K: ?Sized + 'static>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ExponentialFailureRateLimiter::default()),
        Box::new(BucketRateLimiter::new(TokenBucket::full(10.0, 100))),
    ])
}

/// Creates a limiter like client-go's `DefaultTypedItemBasedRateLimiter`. Each item's delay grows exponentially from 1
/// ms to 1000 s.
pub fn default_item_based_rate_limiter() -> ExponentialFailureRateLimiter {
    ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}
