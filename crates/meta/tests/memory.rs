//! What an object costs in memory. One test, since the allocator counts for the whole process.
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
    /// All that was allocated, what was freed again included.
    bytes: usize,
    allocations: usize,
    /// What is left while the object is there.
    held: usize,
}

/// What it costs to decode the pod, and to hold it, the struct included.
fn cost<M: DeserializeOwned>(json: &[u8]) -> (Cost, Box<Pod<M>>) {
    let region = Region::new(ALLOCATOR);
    let pod = Box::new(serde_json::from_slice(json).unwrap());
    let change = region.change();
    let cost = Cost {
        bytes: change.bytes_allocated,
        allocations: change.allocations + change.reallocations,
        held: change.bytes_allocated - change.bytes_deallocated,
    };
    (cost, pod)
}

#[test]
fn metadata_costs_what_it_keeps_and_managed_fields_cost_nothing() {
    let json = include_bytes!("pod.json");
    let (typed, pod) = cost::<ObjectMeta>(json);
    let meta = &pod.metadata;
    assert_eq!((meta.labels.len(), meta.annotations.len(), meta.owner_references.len()), (5, 3, 1));
    assert!(typed.bytes <= 2000, "{} bytes a pod", typed.bytes);
    assert!(typed.allocations <= 31, "{} allocations a pod", typed.allocations);

    let mut without: Value = serde_json::from_slice(json).unwrap();
    let managed = without["metadata"].as_object_mut().unwrap().remove("managedFields").unwrap();
    assert!(managed.to_string().len() > 3000);
    let (plain, same) = cost::<ObjectMeta>(without.to_string().as_bytes());
    assert_eq!(pod.metadata, same.metadata);
    assert_eq!(typed.held, plain.held, "managed fields leave nothing behind");

    let (own, pod) = cost::<Identity>(json);
    assert_eq!((&*pod.metadata.name, &*pod.metadata.namespace), ("web-frontend-6d4cf56db6-x7k2p", "team-storefront"));
    assert_eq!((pod.metadata.uid.len(), &*pod.metadata.resource_version), (36, "184467440"));
    assert!(own.bytes <= 231, "{} bytes a pod of four fields", own.bytes);
}
