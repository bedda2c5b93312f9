//! Tests of controllers and managers with in-memory objects and tokio's paused clock.

#![allow(clippy::unwrap_used)]

mod backoff;
mod blocking;
mod controller;
mod errors;
mod explain;
mod finalizer;
mod handover;
mod keys;
mod log;
mod manager;
mod metrics;
mod panics;
mod probes;
mod recorder;
mod shards;
mod silence;
mod stop;
mod support;
