//! Tests that start the programs of this crate, and a comparison with the crate `cel`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cel_peer;
mod fleet;
