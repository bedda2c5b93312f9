//! Tests of the queue's guarantees. `tests/loom.rs` and `tests/shuttle` test locking and wake-ups with the locks of
//! loom and shuttle. `tests/memory.rs` is a separate program, because its allocator counts the memory of the whole
//! process.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bad_clock;
mod bounds;
mod delaying;
mod edges;
mod faulty;
mod gate;
mod idle;
mod late;
mod metrics;
mod model;
mod next;
#[cfg(feature = "tokio")]
mod on_tokio;
mod order;
mod panics;
mod parallelize;
mod payloads;
mod priority;
mod queue;
mod rate_limiting;
mod recorder;
mod remove;
mod shapes;
mod soak;
mod support;
mod watch;
