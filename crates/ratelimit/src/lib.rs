//! Token buckets, per-item failure limiters and back-off managers.
//!
//! ```
//! use pintle_ratelimit::{Clock, StdClock, TokenBucket};
//!
//! let now = StdClock.now();
//! let mut bucket = TokenBucket::new(1.0, 2, now);
//! assert!(bucket.try_accept(now) && bucket.try_accept(now));
//! assert!(!bucket.try_accept(now), "the burst is spent");
//! ```
//!
//! # Nouns
//!
//! - [`TokenBucket`] caps a rate. It is stepped: it is told the time.
//! - [`Throttle`] is a bucket that callers share and wait for, in a thread or a task.
//! - [`Backoff`] remembers how long each id is to be left alone.
//! - [`RateLimiter`] says how long an item waits before its next try: [`ExponentialFailureRateLimiter`],
//!   [`FastSlowRateLimiter`], [`BucketRateLimiter`], composed by [`MaxOfRateLimiter`], [`WithMaxWaitRateLimiter`] and
//!   [`WithJitterRateLimiter`].
//! - [`ItemRateLimiter`] remembers each item's failures for one of these.
//! - [`Clock`] and [`Timer`] are the seam for every use of time, here and in the work queue.

mod backoff;
mod bucket;
mod clock;
mod item_backoff;
mod jitter;
mod limiter;
mod sync;
mod throttle;

pub use backoff::{Backoff, BackoffConfig};
pub use bucket::TokenBucket;
pub use clock::{Clock, ManualClock, Sleep, StdClock, ThreadTimer, Timer};
pub use item_backoff::{ItemBackoff, ItemBackoffConfig};
pub use jitter::Jitter;
pub use limiter::{
    BucketRateLimiter, ExponentialFailureRateLimiter, FastSlowRateLimiter, ItemRateLimiter, KeepFailures,
    MaxOfRateLimiter, RateLimiter, WithJitterRateLimiter, WithMaxWaitRateLimiter, default_controller_rate_limiter,
    default_item_based_rate_limiter,
};
pub use throttle::{Accept, Throttle, WaitError};

#[cfg(feature = "tokio")]
pub use clock::TokioClock;

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
