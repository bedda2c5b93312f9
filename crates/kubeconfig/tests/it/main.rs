//! Tests of kubeconfig files and of the service account of a pod.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fuzz;
mod in_cluster;
mod load;
mod oidc;
mod resolve;
mod secrets;
mod validate;
mod write;
