//! Tests of the memory use of objects. The tests run sequentially, because the allocator measures the memory of the
//! whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pintle_informer::reflector::{Input, Output, Reflector};
use pintle_informer::{Cache, Compact, ReflectorConfig};
use pintle_meta::{Bookmark, DynamicObject, Object, ObjectMeta, PartialObject, WatchEvent};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static TURN: Mutex<()> = Mutex::new(());

const PODS: usize = 1_000;
const REPLICAS: usize = 5;

/// Returns a realistic pod without managed fields. Names, uids, digests, addresses and times are random. Each
/// ReplicaSet has [`REPLICAS`] pods.
fn pod(n: usize) -> String {
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut of_set = fastrand::Rng::with_seed((n / REPLICAS) as u64);
    let hex = |random: &mut fastrand::Rng, digits: usize| -> String {
        (0..digits).map(|_| char::from(b"0123456789abcdef"[random.usize(..16)])).collect()
    };
    let app = hex(&mut of_set, 7);
    let pod = include_str!("../../meta/tests/pod.json")
        .replace("web-frontend-6d4cf56db6", &format!("{app}-{}", hex(&mut of_set, 10)))
        .replace("storefront", &app)
        .replace("5e8f9d1c-7a44-4c0e", &hex(&mut of_set, 18))
        .replace("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", &hex(&mut of_set, 64))
        .replace("x7k2p", &hex(&mut random, 5))
        .replace("9zq4d", &hex(&mut random, 5))
        .replace("c1f6c1de-3a0b-4d52-8f6e-0a9b8c7d6e5f", &hex(&mut random, 36))
        .replace("2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", &hex(&mut random, 64))
        .replace("10.42.3.17", &format!("10.42.{}.{}", n / 250, n % 250))
        .replace("08:30", &format!("{:02}:{:02}", random.u32(..24), random.u32(..60)));
    let mut pod: Value = serde_json::from_str(&pod).unwrap();
    pod["metadata"].as_object_mut().unwrap().remove("managedFields");
    pod.to_string()
}

#[test]
fn pod_takes_less_than_1_5_kilobytes() {
    let _turn = TURN.lock();
    let pods: Vec<String> = (0..PODS).map(pod).collect();
    let size = pods.iter().map(String::len).sum::<usize>() / PODS;
    assert!(size > 4_000, "{size} bytes of JSON");

    let cache = Cache::new();
    let region = Region::new(ALLOCATOR);
    let live = || {
        let change = region.change();
        change.bytes_allocated - change.bytes_deallocated
    };
    for pod in &pods {
        cache.upsert(Arc::new(serde_json::from_str::<Compact<DynamicObject>>(pod).unwrap())).unwrap();
    }
    let held = live() / PODS;
    assert!(held <= 1_200, "{held} bytes a pod");

    // Selectors read labels. Pods of the same ReplicaSet have the same labels and owners.
    let selected = cache.list().iter().filter(|pod| pod.metadata().labels().contains_key("pod-template-hash")).count();
    assert_eq!(selected, PODS);
    let with_labels = live() / PODS;
    assert!(with_labels <= 1_500, "{with_labels} bytes a pod once labels were read");

    // Only a few decoded objects are still in memory.
    let decoded = live();
    let one = serde_json::from_str::<DynamicObject>(&pods[0]).unwrap();
    let decoded = live() - decoded;
    drop(one);
    let before = live();
    cache.list().iter().for_each(|pod| drop(pod.get().unwrap()));
    let more = live() - before;
    assert!(more <= 18 * decoded, "{more} more bytes after reads of objects with {decoded} bytes each");
}

#[test]
fn streaming_list_ends_without_copying_objects() {
    const OBJECTS: usize = 10_000;
    let _turn = TURN.lock();
    let config = ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() };
    let (mut reflector, now) = (Reflector::<PartialObject>::new(config, 1), Instant::now());
    reflector.start();
    reflector.step(now, Input::Opened(Ok(())));
    for n in 0..OBJECTS {
        let metadata = ObjectMeta::new("ns", format!("pod-{n}"));
        let added = WatchEvent::Added(PartialObject { metadata, ..PartialObject::default() });
        reflector.step(now, Input::Received(Some(Ok(added))));
    }
    let end = Bookmark { resource_version: "7".into(), initial_events_end: true };
    let region = Region::new(ALLOCATOR);
    let step = reflector.step(now, Input::Received(Some(Ok(WatchEvent::Bookmark(end)))));
    let change = region.change();
    assert!(matches!(&step.output, Some(Output::Replaced { objects, .. }) if objects.len() == OBJECTS));
    // The test harness may also allocate memory.
    let (made, freed) = (change.allocations, change.deallocations);
    assert!(made < OBJECTS / 20 && freed < OBJECTS / 20, "{made} allocations, {freed} deallocations");
}
