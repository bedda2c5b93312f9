//! Tests of kubeconfig files and of a pod's service account.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fuzz;
mod in_cluster;
mod load;
mod oidc;
mod resolve;
mod secrets;
mod validate;
mod write;
