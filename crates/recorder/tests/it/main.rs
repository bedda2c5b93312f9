//! Tests of recordings and their replay.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../controller/tests/it/log.rs"]
#[allow(dead_code, reason = "the tests of other crates use all of it")]
mod log;
mod recorder;
mod support;
