//! Tests concurrent commits and reads of the store. loom tries every interleaving with a few preemptions, in Rust's
//! memory model:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_loom" cargo test -p pintle-informer --test loom
//! ```
//!
//! The `shuttle` test covers more threads, indices and views of several caches.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_loom)]

use std::sync::{Arc, Weak};

use loom::thread;
use pintle_informer::{Cache, Snapshot};
use pintle_meta::{ObjectKey, ObjectMeta, PartialObject};

type Pods = Arc<Cache<PartialObject>>;

/// Runs the test in all interleavings with a limited number of preemptions. `LOOM_MAX_PREEMPTIONS` overrides the limit.
fn explore(test: impl Fn(&Pods) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || test(&Pods::default()));
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn pod(name: &str, version: u64) -> Arc<PartialObject> {
    let mut metadata = ObjectMeta::new("ns", name);
    metadata.resource_version = version.to_string();
    Arc::new(PartialObject { metadata, ..PartialObject::default() })
}

fn version_in(snapshot: &Snapshot<PartialObject>, name: &str) -> String {
    snapshot.get(&key(name)).map(|pod| pod.metadata.resource_version.clone()).unwrap_or_default()
}

/// Stores a value without another reference to it.
fn put(pods: &Pods, name: &str, version: u64) -> Weak<PartialObject> {
    let pod = pod(name, version);
    let weak = Arc::downgrade(&pod);
    pods.upsert(pod).unwrap();
    weak
}

#[test]
fn concurrent_read_sees_old_or_new_state() {
    explore(|pods| {
        put(pods, "a", 1);
        let writer = {
            let pods = pods.clone();
            thread::spawn(move || _ = put(&pods, "a", 2))
        };
        let seen = pods.get(&key("a")).unwrap().metadata.resource_version.clone();
        let later = pods.get(&key("a")).unwrap().metadata.resource_version.clone();
        assert!(seen <= later && (seen == "1" || seen == "2"), "{seen}, then {later}");
        writer.join().unwrap();
        assert_eq!(pods.get(&key("a")).unwrap().metadata.resource_version, "2");
    });
}

#[test]
fn concurrent_snapshot_is_consistent_and_leaves_nothing() {
    explore(|pods| {
        let first = put(pods, "a", 1);
        let writer = {
            let pods = pods.clone();
            thread::spawn(move || _ = put(&pods, "a", 2))
        };
        let snapshot = pods.snapshot();
        let seen = version_in(&snapshot, "a");
        assert_eq!(seen, snapshot.resource_version());
        assert_eq!((snapshot.len(), version_in(&snapshot, "a")), (1, seen.clone()));
        writer.join().unwrap();
        assert_eq!(version_in(&snapshot, "a"), seen, "superseded objects are kept for the snapshot");
        drop(snapshot);
        assert!(first.upgrade().is_none(), "and released afterwards");
    });
}

#[test]
fn snapshot_dropped_during_commit_leaves_nothing() {
    explore(|pods| {
        let first = put(pods, "a", 1);
        let snapshot = pods.snapshot();
        let writer = {
            let pods = pods.clone();
            thread::spawn(move || _ = put(&pods, "a", 2))
        };
        drop(snapshot);
        writer.join().unwrap();
        assert!(first.upgrade().is_none());
    });
}

#[test]
fn transaction_is_visible_as_a_whole() {
    explore(|pods| {
        let first = put(pods, "a", 1);
        let writer = {
            let pods = pods.clone();
            thread::spawn(move || {
                let changes = vec![(key("a"), Some(pod("a", 2))), (key("b"), Some(pod("b", 2)))];
                pods.transaction(changes, "2").into_iter().for_each(|written| _ = written.unwrap());
            })
        };
        let snapshot = pods.snapshot();
        let seen = (snapshot.resource_version().to_owned(), version_in(&snapshot, "a"), version_in(&snapshot, "b"));
        let (one, two) = (("1", "1", ""), ("2", "2", "2"));
        let seen = (seen.0.as_str(), seen.1.as_str(), seen.2.as_str());
        assert!(seen == one || seen == two, "{seen:?}");
        drop(snapshot);
        writer.join().unwrap();
        assert!(first.upgrade().is_none());
    });
}
