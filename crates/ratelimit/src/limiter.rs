//! Policies for the delay before an item is retried.

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

/// A policy that computes the delay before the next attempt for an item.
///
/// A limiter does not store failures. A work queue stores the failure count of each item itself. Without a work queue,
/// an [`ItemRateLimiter`] stores the failure counts in a map. In the documentation of this trait, the *owner* is the
/// code that stores the failures.
///
/// [`delay`](RateLimiter::delay) computes a delay without side effects. The owner calls [`charge`](RateLimiter::charge)
/// and increments the failure count only if the retry takes effect. If an earlier retry of the same item is pending, a
/// later retry has no effect, so the owner does not have to count it.
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
    /// Returns how long to wait after `now` before the next attempt for `item`. `failures` is the number of previous
    /// failures of `item`.
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration;

    /// Notifies the limiter that `item` will be retried after the result of [`delay`](RateLimiter::delay). For example,
    /// a limiter with a token bucket reserves a token in this method. The owner calls `charge` right after `delay`,
    /// with the same `now`.
    fn charge(&mut self, item: &K, now: Instant) {
        let _ = (item, now);
    }

    /// Removes the data about `item` from the limiter. The owner calls this method when it resets the failure count of
    /// `item`.
    fn forget(&mut self, item: &K) {
        let _ = item;
    }

    /// Returns `true` if each call to [`charge`](RateLimiter::charge) counts as a requeue of the item. Limiters that
    /// treat all items equally, such as a token bucket, return `false`.
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

/// Creates a limiter like client-go's `DefaultTypedControllerRateLimiter`, which returns the longer of two delays.
///
/// The first delay grows exponentially with the failures of the item, from 5 ms to 1000 s. The second delay is the time
/// until a token is available in a token bucket that all items share. The shared bucket gains 10 tokens per second, has
/// a burst of 100, and is full when it is first used.
///
/// Because of the shared bucket, retrying 10,000 failing items takes 16 minutes, even if the delay of each item is
/// shorter. Prefer [`ExponentialFailureRateLimiter::default`], which is also the default of controller-runtime, for
/// most controllers.
pub fn default_controller_rate_limiter<K: ?Sized + 'static>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ExponentialFailureRateLimiter::default()),
        Box::new(BucketRateLimiter::new(TokenBucket::full(10.0, 100))),
    ])
}

/// Creates a limiter like client-go's `DefaultTypedItemBasedRateLimiter`, with delays that grow exponentially from 1 ms
/// to 1000 s for each item.
pub fn default_item_based_rate_limiter() -> ExponentialFailureRateLimiter {
    ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}
