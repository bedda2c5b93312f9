//! What holds for the series that a provider keeps.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod catch_panic;
mod memory;
mod prometheus;
