//! Measures how much memory a decoded object uses. This test is a separate program, because the counting
//! allocator counts the allocations of the entire process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;

use pintle_meta::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[derive(Deserialize)]
struct Pod<M> {
    metadata: M,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

struct Cost {
    /// The number of allocated bytes, including bytes that were freed again.
    bytes: usize,
    allocations: usize,
    /// The number of bytes that are still allocated after decoding.
    held: usize,
}

/// Decodes the pod, and returns it with its memory cost, including the struct itself. The cost is the least of several
/// runs, because the thread of the test harness can allocate during a run.
fn cost<M: DeserializeOwned>(json: &[u8]) -> (Cost, Box<Pod<M>>) {
    let decode = |_| {
        let region = Region::new(ALLOCATOR);
        let pod = Box::new(serde_json::from_slice(json).unwrap());
        let change = region.change();
        let cost = Cost {
            bytes: change.bytes_allocated,
            allocations: change.allocations + change.reallocations,
            held: change.bytes_allocated - change.bytes_deallocated,
        };
        (cost, pod)
    };
    (0..5).map(decode).min_by_key(|(cost, _)| cost.bytes).unwrap()
}

#[test]
fn metadata_memory_is_bounded_and_managed_fields_are_free() {
    let json = include_bytes!("pod.json");
    let (typed, pod) = cost::<ObjectMeta>(json);
    let meta = &pod.metadata;
    assert_eq!((meta.labels.len(), meta.annotations.len(), meta.owner_references.len()), (5, 3, 1));
    assert!(typed.bytes <= 2000, "{} bytes per pod", typed.bytes);
    assert!(typed.allocations <= 31, "{} allocations per pod", typed.allocations);

    let mut without: Value = serde_json::from_slice(json).unwrap();
    let managed = without["metadata"].as_object_mut().unwrap().remove("managedFields").unwrap();
    assert!(managed.to_string().len() > 3000);
    let (plain, same) = cost::<ObjectMeta>(without.to_string().as_bytes());
    assert_eq!(pod.metadata, same.metadata);
    assert_eq!(typed.held, plain.held, "managed fields use no memory after decoding");

    let (own, pod) = cost::<Identity>(json);
    assert_eq!((&*pod.metadata.name, &*pod.metadata.namespace), ("web-frontend-6d4cf56db6-x7k2p", "team-storefront"));
    assert_eq!((pod.metadata.uid.len(), &*pod.metadata.resource_version), (36, "184467440"));
    assert!(own.bytes <= 231, "{} bytes per pod with four fields", own.bytes);
}
