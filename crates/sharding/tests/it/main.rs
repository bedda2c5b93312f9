//! Tests of replicas that share shards, with Leases in memory and on tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod asleep;
#[path = "../../../leaderelect/tests/it/world/clock.rs"]
#[allow(dead_code, reason = "the tests of electors use all of it")]
mod clock;
#[path = "../../../leaderelect/tests/it/contender.rs"]
#[allow(dead_code, reason = "the tests of electors use all of it")]
mod contender;
mod dropped;
mod ledger;
mod replicas;
mod rivals;
#[path = "../../../leaderelect/tests/it/world/seeds.rs"]
mod seeds;
#[path = "../../../leaderelect/tests/it/server.rs"]
#[allow(dead_code, reason = "the tests of electors use all of it")]
mod server;
mod sizes;
mod survival;
