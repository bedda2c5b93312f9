//! Tests of the in-memory server, which the tests of other crates use.

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
