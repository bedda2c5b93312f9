//! What the crate promises of kubeconfig files and of a pod's account, each rule under its name.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fuzz;
mod in_cluster;
mod load;
mod oidc;
mod resolve;
mod secrets;
mod validate;
mod write;
