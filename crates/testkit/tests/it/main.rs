//! Tests of the kit with correct and incorrect operators.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "reports of checks are for people")]

mod expiry;
mod failures;
mod generated;
mod ignored;
#[path = "../../../controller/tests/it/log.rs"]
mod log;
mod patterns;
mod permissions;
mod readme;
mod sharded;
mod variants;
mod webhooks;
mod website;
mod wrong;
