//! Tests of the cache in random interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_shuttle" cargo test -p pintle-informer --test shuttle
//! ```
//!
//! All atomic operations are sequentially consistent in this test, and only some interleavings are tried.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_shuttle)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pintle_informer::model::Objects;
use pintle_informer::{Cache, Lister, Snapshot, View};
use pintle_meta::{ObjectKey, ObjectMeta, PartialObject};
use shuttle::thread::{self, JoinHandle};

type Pods = Arc<Cache<PartialObject>>;

const ITERATIONS: usize = 300;
const NAMES: [&str; 3] = ["a", "b", "c"];

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    shuttle::check_random(move || test(), ITERATIONS);
    shuttle::check_pct(move || again(), ITERATIONS, 3);
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn pod(name: &str, version: u64) -> Arc<PartialObject> {
    let mut metadata = ObjectMeta::new("ns", name);
    metadata.resource_version = version.to_string();
    Arc::new(PartialObject { metadata, ..PartialObject::default() })
}

fn batch(version: u64) -> Vec<(ObjectKey, Option<Arc<PartialObject>>)> {
    NAMES.iter().map(|name| (key(name), Some(pod(name, version)))).collect()
}

fn pods() -> Pods {
    let cache = Cache::new();
    cache.add_index("version", |pod: &PartialObject| vec![pod.metadata.resource_version.clone()]).unwrap();
    cache.transaction(batch(1), "1");
    Arc::new(cache)
}

fn spawn(pods: &Pods, run: impl FnOnce(&Pods) + Send + 'static) -> JoinHandle<()> {
    let pods = pods.clone();
    thread::spawn(move || run(&pods))
}

/// Reads a snapshot with each of its methods, and checks that the snapshot is either empty or contains all three pods
/// at its version.
fn check(snapshot: &Snapshot<PartialObject>) {
    let version = snapshot.resource_version();
    let count = if version == "9" { 0 } else { NAMES.len() };
    let versions = |pods: Vec<Arc<PartialObject>>| {
        let versions: BTreeSet<String> = pods.iter().map(|pod| pod.metadata.resource_version.clone()).collect();
        assert!(versions.iter().all(|of| of == version), "{versions:?} at {version}");
        pods.len()
    };
    assert_eq!(snapshot.len(), count);
    assert_eq!(versions(snapshot.by_index("version", version).unwrap()), count);
    assert_eq!(versions(snapshot.iter().collect()), count);
    assert_eq!(versions(snapshot.namespace("ns")), count);
    assert_eq!(versions(NAMES.iter().filter_map(|name| snapshot.get(&key(name))).collect()), count);
    assert_eq!(snapshot.index_values("version").unwrap().len(), count.min(1));
}

#[test]
fn readers_never_see_a_partial_batch() {
    explore(|| {
        let pods = pods();
        let writer = spawn(&pods, |pods| {
            pods.transaction(batch(2), "2");
            pods.replace(NAMES.map(|name| pod(name, 3)).into(), "3");
            pods.replace(Vec::new(), "9");
        });
        let readers = [(); 2].map(|()| {
            spawn(&pods, |pods| {
                let first = pods.snapshot();
                check(&first);
                let versions: BTreeSet<_> =
                    pods.list().iter().map(|pod| pod.metadata.resource_version.clone()).collect();
                assert!(versions.len() <= 1, "{versions:?}");
                let second = pods.snapshot();
                drop(first);
                check(&second);
            })
        });
        writer.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        check(&pods.snapshot());
    });
}

#[test]
fn concurrent_reads_of_a_key_never_go_back() {
    explore(|| {
        let pods = pods();
        let writer = spawn(&pods, |pods| {
            pods.upsert(pod("a", 2)).unwrap();
            pods.transaction(batch(3), "3");
        });
        let reader = spawn(&pods, |pods| {
            let version = || pods.get(&key("a")).unwrap().metadata.resource_version.clone();
            let (first, second) = (version(), version());
            assert!(first <= second, "{second} after {first}");
        });
        writer.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn unpinned_versions_are_freed() {
    explore(|| {
        let pods = pods();
        let old: Vec<Weak<PartialObject>> = pods.list().iter().map(|pod| Arc::downgrade(&pod)).collect();
        let held = pods.snapshot();
        let writer = spawn(&pods, |pods| {
            pods.transaction(batch(2), "2");
            pods.upsert(pod("a", 2)).unwrap();
        });
        let pinner = spawn(&pods, |pods| {
            let snapshot = pods.snapshot();
            drop(snapshot.clone());
            check(&snapshot);
        });
        check(&held);
        drop(held);
        writer.join().unwrap();
        pinner.join().unwrap();
        assert!(old.iter().all(|pod| pod.upgrade().is_none()));
        check(&pods.snapshot());
    });
}

#[test]
fn view_of_two_caches_is_consistent() {
    explore(|| {
        let (first, second) = (pods(), pods());
        let (of_first, of_second) = (Lister::new(first.clone()), Lister::new(second.clone()));
        let writer = thread::spawn(move || {
            for version in [2, 3] {
                first.transaction(batch(version), &version.to_string());
                second.transaction(batch(version), &version.to_string());
            }
        });
        let view = View::new(&[&of_first, &of_second]);
        let versions: Vec<u64> = view.resource_versions().iter().map(|version| version.parse().unwrap()).collect();
        assert!(versions[0] == versions[1] || versions[0] == versions[1] + 1, "{versions:?}");
        check(&view.of(&of_first).unwrap());
        check(&view.of(&of_second).unwrap());
        writer.join().unwrap();
    });
}

#[test]
fn index_added_during_writes_is_complete() {
    explore(|| {
        let pods = pods();
        let writer = spawn(&pods, |pods| {
            pods.transaction(batch(2), "2");
            pods.upsert(pod("d", 2)).unwrap();
            pods.delete(&key("c"), "3");
        });
        pods.add_index("name", |pod: &PartialObject| Some(pod.metadata.name.clone())).unwrap();
        let names = pods.index_values("name").unwrap();
        assert!(names.len() >= 3, "{names:?}");
        writer.join().unwrap();
        assert_eq!(pods.index_values("name").unwrap(), ["a", "b", "d"]);
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
    explore(|| {
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
    explore(|| {
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
fn concurrent_readers_of_undecodable_object_get_earlier_state() {
    let _turn = TURN.lock();
    explore(|| {
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
    explore(|| {
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
