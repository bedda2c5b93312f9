//! The guarantees of the queues, each under its name.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod blocking;
mod coalescing;
mod delta_fifo;
mod oracle;
mod real_fifo;
mod store;
mod support;
