//! Tests with processes of our own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod fleet;
