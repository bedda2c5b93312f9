//! Token buckets, per-item failure limiters and backoffs.
//!
//! # Examples
//!
//! ```
//! use pintle_ratelimit::{Clock, StdClock, TokenBucket};
//!
//! let now = StdClock.now();
//! let mut bucket = TokenBucket::new(1.0, 2, now);
//! assert!(bucket.try_accept(now) && bucket.try_accept(now));
//! assert!(!bucket.try_accept(now), "the burst is used up");
//! ```
//!
//! # Main types
//!
//! | Type | in client-go | purpose |
//! |---|---|---|
//! | [`TokenBucket`] | `rate.Limiter`, used by `flowcontrol` | caps a rate; the caller passes the time |
//! | [`Throttle`] | `flowcontrol.RateLimiter` | a shared bucket; threads and tasks wait for its tokens |
//! | [`Backoff`], [`BackoffConfig`] | `wait.Backoff`, `wait.BackoffManager` | the delay before the next attempt of one operation, such as a connection or a watch |
//! | [`ItemBackoff`], [`ItemBackoffConfig`] | `flowcontrol.Backoff` | backoffs by ID, each with the time of its last update |
//! | [`RateLimiter`] | `workqueue.TypedRateLimiter`, without its memory | the delay of a work queue item, by its number of failures |
//! | [`ItemRateLimiter`] | the memory of `TypedRateLimiter` | counts the failures of each item, for use without a work queue |
//! | [`ExponentialFailureRateLimiter`] | `TypedItemExponentialFailureRateLimiter` | doubles the delay with each failure |
//! | [`FastSlowRateLimiter`] | `TypedItemFastSlowRateLimiter` | a few fast attempts, then slow ones |
//! | [`BucketRateLimiter`] | `TypedBucketRateLimiter` | one bucket for all items |
//! | [`MaxOfRateLimiter`] | `TypedMaxOfRateLimiter` | the longest delay of several limiters |
//! | [`WithMaxWaitRateLimiter`] | `TypedWithMaxWaitRateLimiter` | another limiter's delay, capped |
//! | [`WithJitterRateLimiter`] | none | another limiter's delay minus a random part |
//! | [`Jitter`] | `wait.Jitter` | random pauses from a seed |
//! | [`Clock`], [`Timer`] | `clock.Clock` | the source of time, here and in the work queue |
//!
//! A *rate limiter* computes the delay before a retry from the number of failures. A *backoff* computes delays that
//! increase with each failure and start over after a success. A *throttle* limits the rate of an operation, whether or
//! not the operation fails. Types with `Item` in their name keep separate state for each item.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tokio` | `TokioClock`, a clock that follows tokio's time, including paused time |
//!
//! # Differences from client-go
//!
//! | | client-go | here |
//! |---|---|---|
//! | Several waiters are cancelled at once | later waiters may wait for tokens that no waiter takes | all reserved tokens are returned |
//! | A wait that can never end | `Accept` sleeps for 292 years | [`ThrottleError::Never`] immediately |
//! | Stopping a rate limiter | has no effect | ends all waits |
//! | Resetting a `BackoffManager` | after a time without failures | when its owner calls [`Backoff::reset`] after a success |
//! | `Retry-After` | each caller handles it | a lower bound for the delay of a [`Backoff`], up to a cap |
//! | When an entry of a `flowcontrol.Backoff` expires | after twice the cap, or by a function | after twice the cap, or after a configured time |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backoff;
mod bucket;
mod budget;
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

/// Items that are public only for the other crates of this workspace.
#[doc(hidden)]
pub mod __private {
    pub use crate::budget::Budget;
    pub use crate::wake::{Panic, call_all, discard, first, pass_on};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
