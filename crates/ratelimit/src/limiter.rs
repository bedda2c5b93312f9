//! How long an item waits before its next try.

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

/// Decides how long an item waits before its next try.
///
/// A limiter is a policy, not a memory: the number of failures of each item belongs to whoever owns the items. The work
/// queue keeps it in the item's own record; [`ItemRateLimiter`] keeps it in a map for everybody else.
///
/// Asking is not charging. [`delay`](RateLimiter::delay) says what the wait would be, [`charge`](RateLimiter::charge) takes
/// what it promised, and the owner adds one to the failures when it charges. So a retry that changes nothing, since an
/// earlier one is pending, need not cost anything.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ItemRateLimiter, KeepFailures, RateLimiter, StdClock};
/// use std::time::{Duration, Instant};
///
/// /// A second more with each failure.
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
    /// The wait of `item`, which has failed `failures` times before this one, at `now`.
    fn delay(&mut self, item: &K, failures: u32, now: Instant) -> Duration;

    /// Takes what the last [`delay`](RateLimiter::delay) of `item` promised. Called right after it, with the same `now`.
    fn charge(&mut self, item: &K, now: Instant) {
        let _ = (item, now);
    }

    /// Called when the failures of `item` are forgotten, for limiters with a memory of their own.
    fn forget(&mut self, item: &K) {
        let _ = item;
    }

    /// Whether [`charge`](RateLimiter::charge) counts as a requeue of the item. Not so for a limiter that treats all
    /// items alike, as a bucket does.
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

/// client-go's `DefaultTypedControllerRateLimiter`: the longer of an exponential delay per item, 5 ms to 1000 s, and of a
/// bucket over all items of 10 a second with a burst of 100, full at its first use.
///
/// The bucket makes a backlog of 10,000 failing items wait for 16 minutes whatever each item's own delay is. Most
/// controllers are better off with [`ExponentialFailureRateLimiter::default`], which is what controller-runtime uses.
pub fn default_controller_rate_limiter<K: ?Sized + 'static>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ExponentialFailureRateLimiter::default()),
        Box::new(BucketRateLimiter::new(TokenBucket::full(10.0, 100))),
    ])
}

/// client-go's `DefaultTypedItemBasedRateLimiter`: an exponential delay per item, 1 ms to 1000 s.
pub fn default_item_based_rate_limiter() -> ExponentialFailureRateLimiter {
    ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}
