//! A deduplicating, delaying, rate-limiting work queue.
//!
//! ```
//! use pintle_workqueue::{WorkQueue, ShutdownMode};
//! use std::thread;
//!
//! let queue: WorkQueue<&str> = WorkQueue::default();
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
//! # Main types
//!
//! - [`WorkQueue`] gives each key to one worker at a time. A key can be queued immediately, after a delay, or as a
//!   retry. The queue combines client-go's base queue, delaying queue and rate-limiting queue.
//! - [`WorkItem`] is a guard for a key that a worker is processing. Dropping the guard marks the key as done.
//! - [`QueueConfig`] configures the clock, the [`Order`], the rate limiter, the [`DelayPolicy`] and the metrics.
//!   [`MetricsStyle`] lists the metrics.
//! - [`Fifo`], [`Priority`] and [`Fair`] are the built-in orders.
//! - [`ShutdownMode`] determines how a queue shuts down. [`Drain`] waits for the end of the shutdown, and
//!   [`ShutdownReport`] lists the remaining keys.
//!
//! # client-go's names
//!
//! | client-go, controller-runtime | here |
//! |---|---|
//! | `Add`, `AddAfter`, `AddRateLimited` | [`WorkQueue::add`], [`add_after`](WorkQueue::add_after), [`add_rate_limited`](WorkQueue::add_rate_limited) |
//! | `AddWithOpts` | [`WorkQueue::add_with`] and [`AddOptions`] |
//! | `Get`, `Done` | [`WorkQueue::get`], [`blocking_get`](WorkQueue::blocking_get) or [`try_get`](WorkQueue::try_get), and dropping the [`WorkItem`] |
//! | `GetWithPriority` | [`WorkItem::priority`] |
//! | `Forget`, `NumRequeues` | [`WorkItem::forget`], [`WorkItem::num_requeues`], or by key [`WorkQueue::forget`], [`WorkQueue::num_requeues`] |
//! | `Len`, `ShuttingDown` | [`WorkQueue::len`], [`is_shutting_down`](WorkQueue::is_shutting_down) |
//! | `ShutDown`, `ShutDownWithDrain` | [`WorkQueue::shut_down`] with [`ShutdownMode::FinishBacklog`], and the returned [`Drain`] |
//! | `Queue` with `Touch`, `Push`, `Pop`, `Len` | [`Order`] |
//! | `RateLimiter`, `MetricsProvider`, `ParallelizeUntil` | [`ratelimit::RateLimiter`], [`pintle_metrics::Provider`], [`parallelize_until`] |
//!
//! # Which clock
//!
//! The queue gets the time only from its [`ratelimit::Clock`], which is a type parameter.
//!
//! | workers | clock | what wakes a worker when a delay ends |
//! |---|---|---|
//! | threads, `blocking_get` | [`ratelimit::StdClock`], the default | the waiting thread itself |
//! | tasks of any executor, `get` | [`ratelimit::StdClock`], the default | a timer thread, one for the process |
//! | tasks of tokio, `get` | `ratelimit::TokioClock` (feature `tokio`) | tokio's timer, including paused time |
//! | tasks of any executor | [`ratelimit::ThreadTimer`], or your own [`ratelimit::Timer`] | a dedicated timer thread, or your timer |
//! | tests | [`ratelimit::ManualClock`] | the test |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tokio` | `ratelimit::TokioClock`, a clock that follows tokio's time, including paused time |
//!
//! # Differences from client-go
//!
//! Apart from the differences in the following tables, the queue behaves like client-go's queue. `tests/it/` contains
//! client-go's test cases, which are listed in `tests/ROWS.md`.
//!
//! | What | client-go | here | Why | Test |
//! |---|---|---|---|---|
//! | Done | any caller can call `Done(key)` any number of times, which can duplicate the key or release it from its new owner | dropping the guard that `get` returned | incorrect use does not compile | `x1_only_the_guard_can_finish_a_key` |
//! | A worker panics or is cancelled | the key stays in flight forever | the key is marked as done | unwinding and cancellation drop the guard | `x8_a_worker_that_panics_is_done` |
//! | Get | cannot be cancelled | a cancel-safe future, a blocking call, or `try_get` | | `wakeup_of_a_dropped_get_is_not_lost` |
//! | Drain | ends when no key is in flight, even if keys are queued | ends when no key is queued or in flight | a drain must process the backlog | `x3_drain_with_queued_and_none_in_flight` |
//! | Several concurrent drains | one can block forever | all return | | `x2_two_concurrent_drainers_are_both_woken` |
//! | ShutDown after ShutDownWithDrain | ends the drain; the reverse order drains again | modes only become stricter; [`Abandon`](ShutdownMode::Abandon) ends a drain | a later call must not undo a stricter one | `q9_force_queue_shutdown`, `shutdown_only_ever_tightens` |
//! | Delayed keys at shutdown | dropped | never queued, but listed in the report | no key is lost silently | `x4_drain_on_a_delaying_queue_releases_the_timer` |
//! | An add after shutdown | ignored | returns [`Added::ShutDown`] and is counted | | `x7_shutdown_with_thousands_of_delayed_adds` |
//! | Three queue types | each wraps another | one type; an add without a delay is a plain add | a queue cannot ignore a limiter or order that was passed to it | `three_layers_behave_like_the_model` |
//! | `Done` followed by `Get` | two calls | optionally one call, [`WorkItem::next`] | takes the lock once instead of twice | `next_is_done_and_get_in_one` |
//! | Undoing an add | not possible | [`WorkQueue::remove`] | a deleted object needs no reconcile | `removed_key_is_not_dequeued` |
//! | `add` or done while the lock is contended | waits for the lock | if no worker is waiting, pushes to an inbox and returns. The next thread that takes the lock applies the inbox with the original timestamps | the queue's tables do not bounce between CPU caches | `late_add_is_not_observable` |
//! | `AddAfter` | blocks while 1000 adds are buffered for the loop | waits only for the lock; there is no loop | | `x7_shutdown_with_thousands_of_delayed_adds` |
//! | The end of a delay | the loop queues the key | the next access to the queue or the key queues it; a waiting `get` queues it immediately. Its age and metrics start at the end of the delay | no background task. A plain add can be queued first in the meantime. Each access queues at most 16 due keys to bound its latency; [`WorkQueue::counts`] repeats until all are queued | `d1_simple_queue`, `due_keys_are_queued_in_small_batches` |
//! | A rate-limited add after shutdown, or while an earlier retry is pending | counts as a failure | not counted, unless [`RetryAccounting::Always`]. [`WorkItem::retry`] always counts, except after shutdown | an add that reports no new failure must not increase the backoff | `x6_collapsed_retry_counts_only_when_configured`, `failure_counts_despite_an_earlier_reminder` |
//! | A woken worker that does not run | delays the key | after 1 ms, all waiting workers are woken | an executor can leave a task unpolled for a long time | `another_task_gets_the_key_after_a_millisecond` |
//! | Many keys at once | one `Add` per key | [`WorkQueue::add_all`] | takes the lock less often | `add_all_keeps_order_and_deduplicates` |
//! | A non-empty order whose `pop` returns no key | `Pop` panics | the queue calls `pop` again after the next change | an order can withhold keys | `withholding_order_is_polled_again_after_a_change` |
//! | Failures of a key without `Forget` | kept forever | kept for one hour after the key became idle: [`QueueConfig::keep_failures`] | avoids a memory leak | `failures_of_a_key_that_is_never_forgotten_expire` |
//! | Default limiter | 10 per second over all keys, and 5 ms to 1000 s per key | 5 ms to 1000 s per key, as in controller-runtime. `ratelimit::default_controller_rate_limiter` is client-go's | with client-go's, 10,000 failing keys wait 16 minutes | `c25_rate_limited_items_do_not_affect_each_other` |
//! | Delay arithmetic | floating point, overflow is undefined | saturating integers | | `l2_item_exponential_overflow` |
//! | Gauges of unfinished work | updated every 500 ms, frozen at shutdown | computed when scraped, removed with the queue. Two queues with one name report the sum, and the age of the oldest key | no task; no stale series | `m1_metrics_end_with_the_queue`, `x12_gauges_after_shutdown` |
//! | Histograms | client-go: buckets; controller-runtime: also native histograms | the same buckets; no native histograms | `prometheus-client` does not support them | `c27a_cardinality_limit` |
//! | Metrics provider | one per process, the first wins; series stay forever | one per queue; its series are removed with it | | `no_metrics_without_a_provider`, `dropped_queue_no_longer_counts_in_the_depth` |
//! | A wait for a token that never arrives | sleeps for 292 years | returns an error immediately | no caller hangs | `t6_never_fake` |
//! | A cancelled wait for a token | can leave a debt | leaves no debt | | `cancelled_wait_leaves_no_debt` |
//! | A panic in `ParallelizeUntil` | kills the process | ends only that piece. The result lists panics and skipped pieces | | `x9_a_parallel_piece_that_panics_ends_alone` |
//!
//! `QueueConfig { order: Priority::strict(), pending_retry: Absorb, pending_reminder: Absorb, .. }` behaves like
//! controller-runtime's priority queue, with these exceptions:
//!
//! | What | controller-runtime | here | Why | Test |
//! |---|---|---|---|---|
//! | A key that was added while in flight | keeps its position from that add | gets its position when the guard is dropped | client-go's rule, for every order | `c3_returns_an_item_once_it_is_free` |
//! | `Len`, for a key that was added while in flight | counts the key | does not count the key; [`Counts::dirty_in_flight`] does | client-go's rule | `c5_enqueues_an_item_that_is_held` |
//! | Starvation | possible | impossible with [`Priority::with_ageing`] | | `with_ageing_nothing_starves` |
//! | The 26th priority | all later changes to any priority go to one series | only changes to the additional priorities do | no series freezes or becomes negative | `x11_cardinality_latch_then_decrements` |
//!
//! The compiler rejects a second call of `done` for the same guard. The following code compiles:
//!
//! ```
//! # let queue: pintle_workqueue::WorkQueue<&str> = pintle_workqueue::WorkQueue::default();
//! # queue.add("a");
//! let item = queue.blocking_get().unwrap();
//! item.done();
//! ```
//!
//! The following code does not compile:
//!
//! ```compile_fail,E0382
//! # let queue: pintle_workqueue::WorkQueue<&str> = pintle_workqueue::WorkQueue::default();
//! # queue.add("a");
//! let item = queue.blocking_get().unwrap();
//! item.done();
//! item.done();
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod alarm;
mod chunks;
mod config;
mod drain;
mod engine;
mod get;
mod inbox;
mod item;
mod key_state;
mod metrics;
mod now;
mod order;
mod panic;
mod parallelize;
mod queue;
mod section;
mod shared;
mod shutdown;
mod sync;
mod wait;
mod waiters;
mod wakers;

pub use pintle_ratelimit as ratelimit;

pub use config::{DelayPolicy, QueueConfig, RetryAccounting};
pub use drain::{Drain, ShutdownReport};
pub use get::{Get, TryGetError};
pub use item::WorkItem;
pub use key_state::{Added, Counts, DelayKind, KeyState};
pub use metrics::MetricsStyle;
pub use order::{Fair, Fifo, Order, Priority, Queued, Ticket};
pub use parallelize::{PiecePanic, Unfinished, parallelize_until};
pub use queue::{AddOptions, WorkQueue};
pub use shutdown::ShutdownMode;

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
