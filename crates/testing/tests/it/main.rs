//! Tests of the in-memory server. The tests of other crates use this crate.

#![allow(clippy::unwrap_used)]

mod clock;
mod collection;
mod faults;
mod fields;
mod lists;
mod model;
mod support;
mod watches;
mod writes;
