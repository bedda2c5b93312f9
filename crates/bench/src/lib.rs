//! Side-by-side benchmarks against client-go, controller-runtime and kube-rs.
//!
//! `cargo xtask bench AREA` runs them. Each binary here does one work a call, and prints one [`Sample`] as a line of JSON, as
//! do the peers' programs under `go/`.

pub mod fifo;
mod meter;
pub mod queue;
mod stopwatch;
pub mod store;

pub use meter::Sample;
