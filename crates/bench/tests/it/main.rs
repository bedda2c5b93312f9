//! Tests that start processes of this crate, and a comparison with a peer that only this crate depends on.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cel_peer;
mod fleet;
