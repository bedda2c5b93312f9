//! Tests of all crates together against the embedded API server.
//!
//! Each test has its own server, so tests can run in parallel. The tests use sockets, so they wait in real time. Each
//! wait has a timeout that a passing test never reaches.

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
