//! Tests of the findings of an audit, for all kinds of locks.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod audit;
#[path = "../../../leaderelect/tests/it/contender.rs"]
#[allow(dead_code, reason = "the tests of electors use all of it")]
mod contender;
#[path = "../../../leaderelect/tests/it/server.rs"]
#[allow(dead_code, reason = "the tests of electors use all of it")]
mod server;
