//! Controllers and managers over objects in memory, on tokio's paused clock.

#![allow(clippy::unwrap_used)]

mod controller;
mod errors;
mod fake;
mod leases;
mod log;
mod manager;
mod panics;
mod probes;
mod recorder;
mod sink;
mod stop;
