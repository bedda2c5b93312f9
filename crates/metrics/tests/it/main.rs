//! Tests of the metrics interface and the in-memory provider.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod catch_panic;
mod memory;
mod prometheus;
