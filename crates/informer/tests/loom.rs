//! Tests of concurrent commits and reads of the store. loom tries every interleaving with a few preemptions, according
//! to Rust's memory model:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_loom" cargo test -p pintle-informer --test loom
//! ```
//!
//! The `shuttle` test also covers larger numbers of threads, indices, and views of several caches.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_loom)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use loom::thread;
use pintle_informer::model::Objects;
use pintle_informer::{Cache, Snapshot};
use pintle_meta::{ObjectKey, ObjectMeta, PartialObject};

type Pods = Arc<Cache<PartialObject>>;

/// Runs `test` in all interleavings with at most three preemptions. The environment variable `LOOM_MAX_PREEMPTIONS`
/// overrides the number of preemptions.
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

#[test]
fn list_beside_transaction_is_consistent_and_stays_so() {
    explore(|pods| {
        let first = put(pods, "a", 1);
        let writer = {
            let pods = pods.clone();
            thread::spawn(move || {
                let changes = vec![(key("a"), Some(pod("a", 2))), (key("b"), Some(pod("b", 2)))];
                pods.transaction(changes, "2").into_iter().for_each(|written| _ = written.unwrap());
            })
        };
        let list = pods.list();
        let versions = || list.iter().map(|pod| pod.metadata.resource_version.clone()).collect::<Vec<_>>();
        let seen = versions();
        assert!((seen == ["1"] || seen == ["2", "2"]) && seen.len() == list.len(), "{seen:?}");
        writer.join().unwrap();
        assert_eq!(versions(), seen);
        drop(list);
        assert!(first.upgrade().is_none());
    });
}

#[derive(serde::Deserialize)]
struct Counted {
    metadata: ObjectMeta,
    #[serde(rename = "counter", deserialize_with = "counted")]
    _counter: u64,
}

pintle_meta::resource!(Counted, "v1", "Pod", "pods", Namespaced);

static DECODED: AtomicUsize = AtomicUsize::new(0);
static TURN: Mutex<()> = Mutex::new(());

fn counted<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let counter = serde::Deserialize::deserialize(deserializer)?;
    DECODED.fetch_add(1, Ordering::Relaxed);
    Ok(counter)
}

fn json(name: &str, counter: &str) -> String {
    format!(r#"{{"metadata": {{"namespace": "ns", "name": "{name}"}}, "counter": {counter}}}"#)
}

#[test]
fn concurrent_readers_decode_an_object_once() {
    let _turn = TURN.lock();
    explore(|_| {
        DECODED.store(0, Ordering::Relaxed);
        let objects = Objects::<Counted>::new(1 << 20);
        let object = objects.store(&json("a", "1"), None);
        let other = object.clone();
        let reader = thread::spawn(move || other.read().unwrap());
        let (one, two) = (object.read().unwrap(), reader.join().unwrap());
        assert!(Arc::ptr_eq(&one, &two) && one.metadata.name == "a");
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn eviction_beside_readers_drops_no_held_object() {
    let _turn = TURN.lock();
    explore(|_| {
        let objects = Objects::<Counted>::new(0);
        let (a, b) = (objects.store(&json("a", "1"), None), objects.store(&json("b", "2"), None));
        let held = a.read().unwrap();
        let (of_a, of_b) = (a.clone(), b.clone());
        let reader = thread::spawn(move || (of_b.read().unwrap(), of_a.read().unwrap()));
        assert_eq!(b.read().unwrap().metadata.name, "b");
        let (other, same) = reader.join().unwrap();
        assert!(Arc::ptr_eq(&held, &same) && other.metadata.name == "b");
    });
}

#[test]
fn read_beside_end_of_lease_returns_object() {
    let _turn = TURN.lock();
    explore(|_| {
        DECODED.store(0, Ordering::Relaxed);
        let objects = Objects::<Counted>::new(1 << 20);
        let object = objects.store(&json("a", "1"), None);
        assert!(objects.has_unknown());
        let lease = object.check();
        assert!(!objects.has_unknown());
        let other = object.clone();
        let reader = thread::spawn(move || other.read().unwrap());
        drop(lease);
        let (one, two) = (reader.join().unwrap(), object.read().unwrap());
        assert!(Arc::ptr_eq(&one, &two), "a read object stays within the budget");
        assert!(DECODED.load(Ordering::Relaxed) <= 2);
    });
}

#[test]
fn concurrent_readers_of_undecodable_object_get_earlier_state() {
    let _turn = TURN.lock();
    explore(|_| {
        let objects = Objects::<Counted>::new(1 << 20);
        let good = objects.store(&json("a", "1"), None);
        let bad = objects.store(&json("a", "true"), Some(&good));
        let other = bad.clone();
        let reader = thread::spawn(move || other.read().unwrap());
        let (one, two) = (bad.read().unwrap(), reader.join().unwrap());
        assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&one, &good.read().unwrap()));
        assert_eq!(objects.found(), 1);
    });
}

#[test]
fn undecodable_state_reads_as_any_decoded_earlier_state() {
    let _turn = TURN.lock();
    explore(|_| {
        let objects = Objects::<Counted>::new(1 << 20);
        let oldest = objects.store(&json("a", "true"), None);
        let good = objects.store(&json("a", "1"), Some(&oldest));
        let newest = objects.store(&json("a", "true"), Some(&good));
        let other = newest.clone();
        let reader = thread::spawn(move || other.read());
        let decoded = good.read().unwrap();
        let last = newest.read().unwrap();
        let first = reader.join().unwrap();
        assert!(Arc::ptr_eq(&decoded, &last) && first.is_none_or(|first| Arc::ptr_eq(&first, &last)));
    });
}
