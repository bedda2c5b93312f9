//! All crates together, against the embedded API server: what no crate's own tests can show.
//!
//! Each scenario has a server of its own, so they run side by side. Time is real here, since sockets are; whoever waits, waits
//! for a condition, with a limit that only a failure reaches.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod client;
mod cluster;
mod controller;
mod coordinated;
mod custom_resource;
mod election;
mod events;
mod handles;
mod in_process;
mod informer;
mod metrics;
mod plan;
mod seeds;
mod support;
