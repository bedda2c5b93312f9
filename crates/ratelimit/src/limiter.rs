//! Delays before the retry of an item.

mod compose;
mod item;
mod jitter;
mod per_item;

use std::time::{Duration, Instant};

pub use compose::{BucketRateLimiter, MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use item::{ItemRateLimiter, KeepFailures};
pub use jitter::WithJitterRateLimiter;
pub use per_item::{ExponentialFailureRateLimiter, FastSlowRateLimiter};

use crate::TokenBucket;

/// Computes the delay before the next attempt of an item.
///
/// A limiter is a policy without memory. The owner of the items stores their failure counts. The work queue stores them in its records.
/// Without a work queue, [`ItemRateLimiter`] stores them in a map.
///
/// [`delay`](RateLimiter::delay) computes the delay without side effects. If the retry takes place, the owner calls
/// [`charge`](RateLimiter::charge) and increments the failure count. Therefore, a retry that has no effect, because an earlier retry is
/// pending, does not need to count.
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
    /// Returns the delay of `item` at `now`. `failures` is the number of its earlier failures.
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration;

    /// Charges the limiter for the last [`delay`](RateLimiter::delay) of `item`. Called right after `delay`, with the same `now`.
    fn charge(&mut self, item: &K, now: Instant) {
        let _ = (item, now);
    }

    /// Called when the owner forgets the failures of `item`. Limiters with their own memory of items must forget the
    /// item.
    fn forget(&mut self, item: &K) {
        let _ = item;
    }

    /// Returns whether [`charge`](RateLimiter::charge) counts as a requeue of the item. `false` for a limiter that treats all items
    /// equally, such as a bucket.
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

/// Creates client-go's `DefaultTypedControllerRateLimiter`. It returns the longer of two delays.
///
/// The first delay is exponential for each item, from 5 ms to 1000 s. The second delay is the wait for a token of one bucket for all items.
/// It earns 10 tokens per second, has a burst of 100, and is full at its first use.
///
/// Because of the bucket, it takes 16 minutes to retry 10,000 failing items, regardless of the delay of each item. Most controllers should
/// use [`ExponentialFailureRateLimiter::default`], as controller-runtime does.
pub fn default_controller_rate_limiter<K: ?Sized + 'static>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ExponentialFailureRateLimiter::default()),
        Box::new(BucketRateLimiter::new(TokenBucket::full(10.0, 100))),
    ])
}

/// Creates client-go's `DefaultTypedItemBasedRateLimiter`. It returns an exponential delay for each item, from 1 ms to
/// 1000 s.
pub fn default_item_based_rate_limiter() -> ExponentialFailureRateLimiter {
    ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}
