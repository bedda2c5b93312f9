//! Tests the memory use of a [`Json`] value. This file contains a single test, because the allocator counts the memory
//! of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;

use pintle_json::{Json, Map, Text, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn small_values_take_little_memory() {
    assert_eq!((size_of::<Json>(), size_of::<Text>(), size_of::<Map>()), (32, 24, 24));

    // Parse once before measuring, because the first parse allocates memory to determine how numbers are represented.
    assert!("{}".parse::<Json>().is_ok());
    let check = |text: &str, allocations, bytes| {
        let (value, used) = least(|| text.parse::<Json>().unwrap());
        assert_eq!((used.allocations, used.reallocations, used.bytes_allocated), (allocations, 0, bytes), "{text}");
        assert_eq!(value, Json::from(serde_json::from_str::<serde_json::Value>(text).unwrap()));
    };
    check(r#"{}"#, 0, 0);
    check(r#""what fits in 24 bytes...""#, 0, 0);
    check(r#"{"f:kubernetes.io/hostname": {}}"#, 1, 56);
    check(r#"{"app.kubernetes.io/name": "what fits in 24 bytes..."}"#, 1, 56);
    check(r#"["what fits in 24 bytes..."]"#, 1, 32);

    let object = json!({"a": 1, "b": [true, null]});
    let (read, used) = least(|| (object.text("/b/0"), object.list("/b").count(), object.is_true("/b/0")));
    assert_eq!(read, ("", 2, true));
    assert_eq!(used.allocations, 0, "reading does not allocate");
}

/// Returns the result of `run`, and the least memory that several runs needed, because the thread of the test harness can
/// allocate during a run.
fn least<T>(run: impl Fn() -> T) -> (T, Stats) {
    let measure = |_| {
        let region = Region::new(ALLOCATOR);
        let result = run();
        (result, region.change())
    };
    (0..5).map(measure).min_by_key(|(_, used)| used.allocations).unwrap()
}
