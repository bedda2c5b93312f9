//! Controllers and managers over objects in memory, on tokio's paused clock.

#![allow(clippy::unwrap_used)]

mod controller;
mod errors;
mod log;
mod manager;
mod metrics;
mod panics;
mod probes;
mod recorder;
mod stop;
mod support;
