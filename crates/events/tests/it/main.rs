//! Tests of the correlator and the broadcaster with tokio's paused clock.

#![allow(clippy::unwrap_used)]

mod broadcaster;
mod correlator;
mod panics;
mod series;
mod watchers;
