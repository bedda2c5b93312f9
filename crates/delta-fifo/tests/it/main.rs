//! Tests of the queues' and stores' guarantees.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod budget;
mod coalescing;
mod delta_fifo;
mod heap;
mod latest_fifo;
mod model;
mod mutation_cache;
mod oracle;
mod real_fifo;
mod shared_fifo;
mod store;
mod support;
