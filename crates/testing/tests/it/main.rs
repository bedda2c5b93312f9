//! Tests of the in-memory server, which is also used in the tests of other crates.

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
