//! Tests that matching a selector does not allocate. This test is a separate program, because the counting
//! allocator counts the allocations of the entire process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;
use std::collections::BTreeMap;

use pintle_meta::{FieldSelector, LabelSelector};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn matching_a_selector_does_not_allocate() {
    let labels: LabelSelector =
        "app=web,tier in (back,front),track!=canary,x notin (a,b),app,!y,n>1,n<9".parse().unwrap();
    let fields: FieldSelector = "metadata.name=a,status.phase!=Running".parse().unwrap();
    let pairs = [("app", "web"), ("tier", "front"), ("n", "5")];
    let on: BTreeMap<_, _> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let value_of = |field: &str| if field == "metadata.name" { "a" } else { "Pending" };

    let region = Region::new(ALLOCATOR);
    let mut selected = 0;
    for _ in 0..1_000 {
        selected += usize::from(labels.matches(&on)) + usize::from(fields.matches(value_of));
    }
    let allocations = region.change().allocations;
    assert_eq!((selected, allocations), (2_000, 0));
}
