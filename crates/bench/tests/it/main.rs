//! Tests that start processes of this crate.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fleet;
