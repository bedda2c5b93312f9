//! Token buckets, per-item failure limiters and back-offs.
//!
//! # Examples
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
//! | What | in client-go | |
//! |---|---|---|
//! | [`TokenBucket`] | `rate.Limiter`, beneath `flowcontrol` | caps a rate; it is told the time |
//! | [`Throttle`] | `flowcontrol.RateLimiter` | a bucket that callers share and wait for, in a thread or a task |
//! | [`Backoff`], [`BackoffConfig`] | `wait.Backoff`, `wait.BackoffManager` | how long to leave one thing alone that fails: a connection, a watch |
//! | [`ItemBackoff`], [`ItemBackoffConfig`] | `flowcontrol.Backoff` | the same for many things, each by its id and with the time of its last failure |
//! | [`RateLimiter`] | `workqueue.TypedRateLimiter`, without its memory | how long an item of a work queue waits, by the number of its failures |
//! | [`ItemRateLimiter`] | that memory | counts each item's failures, where no work queue does |
//! | [`ExponentialFailureRateLimiter`] | `TypedItemExponentialFailureRateLimiter` | doubles with each failure |
//! | [`FastSlowRateLimiter`] | `TypedItemFastSlowRateLimiter` | a few fast tries, then slow ones |
//! | [`BucketRateLimiter`] | `TypedBucketRateLimiter` | one bucket for all items |
//! | [`MaxOfRateLimiter`] | `TypedMaxOfRateLimiter` | the longest delay of several |
//! | [`WithMaxWaitRateLimiter`] | `TypedWithMaxWaitRateLimiter` | another one's delay, capped |
//! | [`WithJitterRateLimiter`] | none | another one's delay, less a part by chance |
//! | [`Jitter`] | `wait.Jitter` | pauses by chance, from a seed |
//! | [`Clock`], [`Timer`] | `clock.Clock` | the seam for every use of time, here and in the work queue |
//!
//! A *rate limiter* says when an item may be tried again and counts its failures; a *back-off* says how long to leave
//! something alone, and starts over after a success; a *throttle* caps how often something is done, whether it fails or not.
//! What has `Item` in its name keeps one state for each of many.
//!
//! # Where it differs from client-go
//!
//! | | client-go | here |
//! |---|---|---|
//! | Waiters that give up together | leave a debt for those who come after | leave none |
//! | A wait that can never end | `Accept` sleeps for 292 years | [`ThrottleError::Never`] at once |
//! | Stopping a bucket | does nothing | ends all waits |
//! | A `BackoffManager` starts over | after a time | after a success, as its owner sees it |
//! | `Retry-After` | a matter of each caller | the least that a [`Backoff`] waits, up to a bound |
//! | When an entry of a `flowcontrol.Backoff` expires | twice the cap, or as a function says | twice the cap, or after a time |

mod backoff;
mod bucket;
mod clock;
mod item_backoff;
mod jitter;
mod limiter;
mod sync;
mod throttle;
mod wake;

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
pub use throttle::{Accept, Throttle, ThrottleError};

#[cfg(feature = "tokio")]
pub use clock::TokioClock;

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
