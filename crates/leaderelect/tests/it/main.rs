//! Tests of leader election, for `Machine`s on a simulated clock and for electors on a paused clock.

#![allow(clippy::unwrap_used)]

mod annotation;
mod candidate;
mod client_go;
mod clocks;
mod contender;
mod coordinated;
mod departing;
mod doubt;
mod elector;
mod exhaustive;
mod flaws;
mod foreign;
mod leaving;
#[path = "../../../controller/tests/it/log.rs"]
mod log;
mod machine;
mod many;
mod metrics;
mod multi;
mod permits;
mod resource_lock;
mod scripted;
mod server;
mod simulation;
mod sizes;
mod slow;
mod splits;
mod table;
mod trouble;
mod world;
