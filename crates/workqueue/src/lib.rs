//! A deduplicating, delaying, rate-limiting work queue.
//!
//! ```
//! use pintle_workqueue::{RateLimitingQueue, ShutdownMode};
//! use std::thread;
//!
//! let queue: RateLimitingQueue<&str> = RateLimitingQueue::new();
//! for key in ["team-a/blog", "team-b/shop", "team-a/blog"] {
//!     queue.add(key); // Two keys: the third add changes nothing.
//! }
//! let worker = thread::spawn({
//!     let queue = queue.clone();
//!     move || {
//!         let mut seen = Vec::new();
//!         while let Some(item) = queue.blocking_get() {
//!             seen.push(*item);
//!             item.forget();
//!         }
//!         seen
//!     }
//! });
//! let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
//! assert!(report.complete && report.queued.is_empty());
//! assert_eq!(worker.join().unwrap(), ["team-a/blog", "team-b/shop"]);
//! ```
//!
//! # Nouns
//!
//! - [`Queue`] hands out each key to one worker at a time. [`DelayingQueue`] adds delays to it, and [`RateLimitingQueue`]
//!   retries. Each dereferences to the one before, as client-go's interfaces embed one another.
//! - [`WorkItem`] is a key in the hands of a worker; dropping it means that the key is done.
//! - [`Config`] says how a queue behaves: its clock, its [`Order`], its limiter, and what an add does to a pending delay.
//! - [`Fifo`], [`Priority`] and [`Fair`] are the orders that come with it.
//! - [`ShutdownMode`] is how a queue ends, [`Drain`] waits for that, and [`ShutdownReport`] says what was left.

mod config;
mod delaying;
mod engine;
mod metrics;
mod order;
mod parallelize;
mod queue;
mod rate_limiting;
mod sync;

pub use pintle_ratelimit as ratelimit;

pub use config::{Charge, Config, Pending};
pub use delaying::DelayingQueue;
pub use engine::{Added, Counts, DelayKind, KeyState};
pub use metrics::{BUCKETS, GaugeSource, Gauges, Instruments, MetricsProvider};
pub use order::{Fair, Fifo, Order, Priority, Ticket};
pub use parallelize::{PiecePanic, Unfinished, parallelize_until};
pub use queue::{Drain, Get, Queue, ShutdownMode, ShutdownReport, TryGetError, WorkItem};
pub use rate_limiting::{AddOptions, RateLimitingQueue};

#[cfg(feature = "prometheus-client")]
pub use metrics::PrometheusMetrics;
