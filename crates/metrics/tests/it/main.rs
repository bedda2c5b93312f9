//! Tests of the metrics interface and its provider.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod catch_panic;
mod memory;
mod prometheus;
