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
//! # Nouns
//!
//! - [`WorkQueue`] hands out each key to one worker at a time, now, after a delay, or as a retry: client-go's three layers in one.
//! - [`WorkItem`] is a key in the hands of a worker; dropping it means that the key is done.
//! - [`QueueConfig`] says how a queue behaves: its clock, its [`Order`], its limiter, what an add does to a pending delay, and who
//!   is told of it: [`MetricsStyle`] lists the metrics.
//! - [`Fifo`], [`Priority`] and [`Fair`] are the orders that come with it.
//! - [`ShutdownMode`] is how a queue ends, [`Drain`] waits for that, and [`ShutdownReport`] says what was left.
//!
//! # client-go's names
//!
//! | client-go, controller-runtime | here |
//! |---|---|
//! | `Add`, `AddAfter`, `AddRateLimited` | [`WorkQueue::add`], [`add_after`](WorkQueue::add_after), [`add_rate_limited`](WorkQueue::add_rate_limited) |
//! | `AddWithOpts` | [`WorkQueue::add_with`] and [`AddOptions`] |
//! | `Get`, `Done` | [`WorkQueue::get`], [`blocking_get`](WorkQueue::blocking_get) or [`try_get`](WorkQueue::try_get), and the drop of the [`WorkItem`] |
//! | `GetWithPriority` | [`WorkItem::priority`] |
//! | `Forget`, `NumRequeues` | [`WorkItem::forget`], [`WorkItem::num_requeues`], or by key [`WorkQueue::forget`], [`WorkQueue::num_requeues`] |
//! | `Len`, `ShuttingDown` | [`WorkQueue::len`], [`is_shutting_down`](WorkQueue::is_shutting_down) |
//! | `ShutDown`, `ShutDownWithDrain` | [`WorkQueue::shut_down`] with [`ShutdownMode::FinishBacklog`], and the [`Drain`] that it gives |
//! | `Queue` with `Touch`, `Push`, `Pop`, `Len` | [`Order`] |
//! | `RateLimiter`, `MetricsProvider`, `ParallelizeUntil` | [`ratelimit::RateLimiter`], [`pintle_metrics::Provider`], [`parallelize_until`] |
//!
//! # Which clock
//!
//! [`ratelimit::Clock`] is the one seam for every use of time, and part of a queue's type.
//!
//! | workers | clock | who wakes a worker when a delay ends |
//! |---|---|---|
//! | threads, `blocking_get` | [`ratelimit::StdClock`], the default | the waiting thread itself |
//! | tasks of any executor, `get` | [`ratelimit::StdClock`], the default | a timer thread, one for the process |
//! | tasks of tokio, `get` | `ratelimit::TokioClock` (feature `tokio`) | tokio's timer, also the paused one |
//! | tasks of any executor | [`ratelimit::ThreadTimer`], or a [`ratelimit::Timer`] of yours | a timer thread of its own, or your timer |
//! | tests | [`ratelimit::ManualClock`] | the test |
//!
//! # Differences from client-go
//!
//! What is not in this table behaves as client-go does; its own test cases are under `tests/it/`, by their numbers.
//!
//! | What | client-go | here | Why | Test |
//! |---|---|---|---|---|
//! | Done | `Done(key)`, by anybody, any number of times; may duplicate the key or take it from its new owner | dropping the guard that `get` gave | wrong use does not compile | `x1_only_the_holder_can_be_done_with_a_key` |
//! | A worker that panics or is cancelled | the key is held for ever | the key is done | the guard is dropped | `x8_a_worker_that_panics_is_done` |
//! | Get | cannot be cancelled | a future, cancel-safe; or blocking; or `try_get` | | `a_wake_up_is_not_lost_with_the_one_it_woke` |
//! | Drain | until an instant with none in flight, though keys are queued | until nothing is queued and nothing in flight | a drain that drains | `x3_drain_with_queued_and_none_in_flight` |
//! | Several drainers | one may sleep for ever | all are woken | | `x2_two_concurrent_drainers_are_both_woken` |
//! | ShutDown after ShutDownWithDrain | ends the drain; the reverse order drains again | modes only tighten; [`Abandon`](ShutdownMode::Abandon) ends a drain | a later, weaker call does not undo a harder one | `q9_force_queue_shutdown`, `shutdown_only_ever_tightens` |
//! | Delayed keys at a shutdown | thrown away | never ripen, and are in the report | nothing is lost silently | `x4_drain_on_a_delaying_queue_releases_the_timer` |
//! | An add after the shutdown | ignored | the caller is told, and it is counted | | `x7_shutdown_with_thousands_of_delayed_adds` |
//! | Queues of three kinds | each wraps the one before, or is given it | one type: an add without a delay is a plain one | a limiter or an order cannot be given to a queue that ignores it | `three_layers_behave_like_the_model` |
//! | Done, and Get again | two calls | also one, [`WorkItem::next`], with one turn at the lock | half the turns | `next_is_done_and_get_in_one` |
//! | Taking an add back | no way | [`WorkQueue::remove`] | an object that is gone needs no work | `what_is_removed_is_not_handed_out` |
//! | An add or a done that finds the queue locked | waits for the lock | if nobody waits for what comes of it, it is left to whoever comes next, with the time at which it was made | the queue's tables are not pulled from one processor to the other | `nobody_can_tell_a_late_add` |
//! | AddAfter | blocks when 1000 are on their way to the loop | waits for the lock alone; there is no loop | | `x7_shutdown_with_thousands_of_delayed_adds` |
//! | A key whose delay is over | queued by the loop | queued when the queue or the key is next looked at; a waiting `get` looks at once. Its age and its metrics begin with the end of the delay | no background task. Between two looks, plain adds take their places first. Each look queues at most 16, so that nobody waits for it; [`WorkQueue::counts`] takes as many looks as there have to be | `d1_simple_queue`, `a_mass_of_keys_that_come_due_is_queued_a_few_at_a_time` |
//! | A rate-limited add that loses against an earlier retry, or comes after the shutdown | charged | free, unless [`Charge::Always`]. [`WorkItem::retry`] counts always | adds that report no new failure inflate back-offs | `x6_a_collapsed_retry_is_charged_only_if_told_so`, `a_failure_counts_beside_an_earlier_reminder` |
//! | A worker that is woken for a key and does not run | holds up that key | a millisecond later all who wait are woken | a task may be left unpolled for long | `a_key_is_handed_to_another_task_after_a_millisecond_if_the_woken_one_does_not_come` |
//! | Many keys at once | one `Add` a key | [`WorkQueue::add_all`] | fewer turns at the lock | `many_keys_are_added_in_their_order_and_without_duplicates` |
//! | An order that has keys and gives none | `Pop` panics | is asked again after the next change | an order may withhold keys | `an_order_that_withholds_its_keys_is_asked_again_after_a_change` |
//! | Failures of a key that is never forgotten | kept for ever | kept for an hour after the key was last busy: [`QueueConfig::keep_failures`] | the map leaks | `failures_of_a_key_that_is_never_forgotten_expire` |
//! | Default limiter | 10 a second over all keys, and 5 ms to 1000 s a key | 5 ms to 1000 s a key, as controller-runtime; the other is `ratelimit::default_controller_rate_limiter` | 10,000 failing keys wait for 16 minutes | `c25_rate_limited_items_do_not_affect_each_other` |
//! | Delay arithmetic | floating point, undefined at the edges | integers that saturate | | `l2_item_exponential_overflow` |
//! | Gauges of unfinished work | set every 500 ms, frozen by the shutdown | read when they are scraped, gone with the queue; of two queues of one name, the sum, and the age of the oldest | no task; no stale series | `m1_metrics_end_with_the_queue`, `x12_gauges_after_shutdown` |
//! | Histograms | client-go: buckets; controller-runtime: native ones too | the same buckets; no native histograms | `prometheus-client` has none | `c27a_cardinality_limit` |
//! | Provider of metrics | one a process, the first wins; series stay for ever | one a queue; series go with it | | `without_a_provider_nothing_is_told`, `a_queues_share_of_the_depth_leaves_with_it` |
//! | A wait that no token will ever end | sleeps for 292 years | an error at once | nothing hangs | `t6_never_fake` |
//! | A cancelled wait for a token | may leave a debt | leaves none | | `a_cancelled_wait_leaves_no_debt` |
//! | A panic in `ParallelizeUntil` | kills the process | ends that piece, and is in the result, as is what a cancellation skipped | | `x9_a_parallel_piece_that_panics_ends_alone` |
//!
//! And from controller-runtime's priority queue, which `QueueConfig { order: Priority::strict(), pending_retry: Absorb,
//! pending_reminder: Absorb, .. }` is like:
//!
//! | What | controller-runtime | here | Why | Test |
//! |---|---|---|---|---|
//! | A key that was added while in flight | keeps the place of that add | takes its place when it is done | client-go's rule for every order | `c3_returns_an_item_once_it_is_free` |
//! | Len | counts it | does not; [`Counts::redirtied`] does | client-go's | `c5_enqueues_an_item_that_is_held` |
//! | Starvation | possible | impossible with [`Priority::with_ageing`] | | `with_ageing_nothing_starves` |
//! | The 26th priority | all later changes of all priorities go to one series | only those of further priorities do | no series freezes or goes below zero | `x11_cardinality_latch_then_decrements` |
//!
//! The compiler rejects a second `done` of one guard. This compiles:
//!
//! ```
//! # let queue: pintle_workqueue::WorkQueue<&str> = pintle_workqueue::WorkQueue::default();
//! # queue.add("a");
//! let item = queue.blocking_get().unwrap();
//! item.done();
//! ```
//!
//! and this does not:
//!
//! ```compile_fail,E0382
//! # let queue: pintle_workqueue::WorkQueue<&str> = pintle_workqueue::WorkQueue::default();
//! # queue.add("a");
//! let item = queue.blocking_get().unwrap();
//! item.done();
//! item.done();
//! ```

mod alarm;
mod chunks;
mod config;
mod engine;
mod get;
mod inbox;
mod item;
mod metrics;
mod order;
mod panic;
mod parallelize;
mod queue;
mod section;
mod shared;
mod shutdown;
mod sync;
mod waiters;
mod wakers;

pub use pintle_ratelimit as ratelimit;

pub use config::{Charge, Pending, QueueConfig};
pub use engine::{Added, Counts, DelayKind, KeyState};
pub use get::{Get, TryGetError};
pub use item::WorkItem;
pub use metrics::MetricsStyle;
pub use order::{Fair, Fifo, Order, Priority, Queued, Ticket};
pub use parallelize::{PiecePanic, Unfinished, parallelize_until};
pub use queue::{AddOptions, WorkQueue};
pub use shutdown::{Drain, ShutdownMode, ShutdownReport};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
