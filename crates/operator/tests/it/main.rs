//! Tests of operators against an embedded API server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod apply;
mod clusters;
mod context;
mod debug;
mod http;
mod install;
mod lifecycle;
mod one_name;
mod owners;
mod references;
mod replicas;
mod serve;
#[cfg(unix)]
mod signal;
mod slim;
mod support;
mod terms;
mod undecodable;
mod webhooks;
mod writers;
