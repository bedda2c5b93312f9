//! Tests of all crates in combination against the embedded API server.
//!
//! Each test starts its own server, so tests can run in parallel. The tests use real time, because they use sockets.
//! Each wait has a timeout that is never reached in a passing test.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod client;
mod cluster;
mod controller;
mod coordinated;
mod custom_resource;
mod definitions;
mod election;
mod events;
mod front_page;
mod handles;
mod in_process;
mod informer;
mod metrics;
mod operator;
mod plan;
mod pods;
mod seeds;
mod support;
mod survival;
