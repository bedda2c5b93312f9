//! Benchmarks that compare Pintle with client-go, controller-runtime and kube-rs.
//!
//! `cargo xtask bench AREA` runs the benchmarks of an area. Each program in this crate runs one workload and prints a
//! [`Sample`] as a line of JSON. The programs in `go/` and `kube/` run the same workloads with other libraries. The
//! programs of all libraries use the servers `load_server`, `rest_server`, `api_server` and
//! `floor_server`.

mod answer;
pub mod apiserver;
pub mod cache;
pub mod cel;
mod constant_server;
pub mod controller;
pub mod election;
mod feed;
pub mod fifo;
pub mod load;
mod meter;
pub mod operators;
mod pods;
pub mod queue;
pub mod rest;
mod stopwatch;
pub mod store;
mod tls;

pub use constant_server::publish;
pub use meter::Sample;
