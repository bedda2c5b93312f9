//! Tests of the in-memory server, which other crates use in their tests.

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
