//! Tests of the guarantees of reflectors, caches and informers.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod cache;
mod caught_drops;
mod choices;
mod compact;
mod decoding;
mod drops;
mod endless;
mod factory;
mod faults;
mod handler;
mod informer;
mod informer_rows;
mod lazy;
mod liveness;
#[path = "../../../controller/tests/it/log.rs"]
mod log;
mod metrics;
mod namespaces;
mod overlay;
mod panics;
mod pipeline;
mod prefix;
mod reflector;
mod restored;
mod rows;
mod selection;
mod simulated;
mod snapshots;
mod stalls;
mod state;
mod streaming_list;
mod subscription;
mod support;
mod threads;
mod undecodable;
mod users;
mod versions;
mod waits;
mod writers;
