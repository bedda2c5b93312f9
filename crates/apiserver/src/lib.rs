//! An in-process Kubernetes API server: real HTTP on loopback, no cluster, no binaries, scripted faults.

pub mod discovery;
pub mod kinds;
pub mod selector;
pub mod table;
pub mod validate;
