//! The store and its indices.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pintle_informer::{Indexer, NAMESPACE_INDEX};
use pintle_meta::ObjectKey;

use crate::support::{Pod, pod, pod_at};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Indexed by each of the words in `node`, which are separated by commas.
fn by_words() -> Indexer<Pod> {
    let indexer = Indexer::new();
    indexer.add_index("words", |pod: &Pod| pod.node.split(',').map(str::to_owned).collect()).unwrap();
    indexer
}

fn names(indexer: &Indexer<Pod>, value: &str) -> Vec<String> {
    let pods = indexer.by_index("words", value).unwrap();
    let names = pods.iter().map(|pod| pod.metadata.name.clone()).collect();
    let keys = indexer.index_keys("words", value).unwrap();
    assert_eq!(keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>(), names, "keys and objects agree");
    names
}

#[test]
fn a_store_is_a_map() {
    let indexer = Indexer::new();
    assert!(indexer.upsert(Arc::new(pod("a", "1"))).is_none());
    assert_eq!(indexer.upsert(Arc::new(pod("a", "2"))).unwrap().node, "1");
    indexer.upsert(Arc::new(pod("b", "3")));
    assert_eq!(indexer.get(&key("a")).unwrap().node, "2");
    assert_eq!(indexer.list_keys().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([key("a"), key("b")]));
    assert_eq!(indexer.delete(&key("a"), "").unwrap().node, "2");
    assert!(indexer.delete(&key("a"), "").is_none());
    assert_eq!(indexer.list().len(), 1);
    indexer.replace(vec![Arc::new(pod("c", "4"))], "9");
    assert_eq!((indexer.len(), indexer.get(&key("b")).is_none()), (1, true));
}

#[test]
fn an_index_follows_every_change_of_several_values() {
    let indexer = by_words();
    let put = |name: &str, words: &str| _ = indexer.upsert(Arc::new(pod(name, words)));
    put("one", "a,b");
    put("two", "b");
    put("three", "a,b,c");
    assert_eq!(names(&indexer, "a"), ["one", "three"]);
    assert_eq!(names(&indexer, "b"), ["one", "three", "two"]);
    assert_eq!(names(&indexer, "c"), ["three"]);
    put("three", "c,d");
    assert_eq!(names(&indexer, "a"), ["one"]);
    assert_eq!(names(&indexer, "d"), ["three"]);
    indexer.delete(&key("one"), "");
    assert_eq!(names(&indexer, "b"), ["two"]);
    assert!(names(&indexer, "a").is_empty());
}

#[test]
fn a_value_that_no_object_has_is_forgotten() {
    let indexer = by_words();
    indexer.upsert(Arc::new(pod("one", "a")));
    indexer.upsert(Arc::new(pod("two", "a")));
    indexer.delete(&key("one"), "");
    assert_eq!(indexer.index_values("words").unwrap(), ["a"]);
    indexer.delete(&key("two"), "");
    assert!(indexer.index_values("words").unwrap().is_empty());
}

#[test]
fn an_index_that_comes_later_holds_what_is_there() {
    let indexer = Indexer::new();
    indexer.upsert(Arc::new(pod("one", "a")));
    indexer.add_index("node", |pod: &Pod| vec![pod.node.clone()]).unwrap();
    assert_eq!(indexer.by_index("node", "a").unwrap().len(), 1);
    assert!(indexer.add_index("node", |_: &Pod| vec![]).is_err());
    assert!(indexer.add_index(NAMESPACE_INDEX, |_: &Pod| vec![]).is_err());
    assert!(indexer.by_index("none", "a").is_err());
}

#[test]
fn a_replacement_tells_what_it_replaced() {
    let indexer = by_words();
    for name in ["gone", "stays"] {
        indexer.upsert(Arc::new(pod(name, "a")));
    }
    let replacement = indexer.replace(vec![Arc::new(pod("stays", "b")), Arc::new(pod("new", "b"))], "9");
    assert_eq!(replacement.deleted.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>(), ["gone"]);
    let present: Vec<_> = replacement.present.iter().map(|(old, new)| (old.is_some(), &*new.metadata.name)).collect();
    assert_eq!(present, [(true, "stays"), (false, "new")], "in the order of the list");
    assert!(names(&indexer, "a").is_empty());
    assert_eq!(names(&indexer, "b"), ["new", "stays"]);

    let twice = indexer.replace(vec![Arc::new(pod("x", "first")), Arc::new(pod("x", "last"))], "10");
    assert_eq!((twice.present.len(), indexer.get(&key("x")).unwrap().node.as_str()), (1, "last"));
    assert_eq!(indexer.index_values("words").unwrap(), ["last"]);
}

#[test]
fn the_revision_is_that_of_the_last_write() {
    let indexer = Indexer::new();
    let check = |expected: &str| {
        assert_eq!(indexer.resource_version(), expected);
        assert_eq!(indexer.snapshot().resource_version(), expected);
    };
    check("");
    indexer.upsert(Arc::new(pod_at("a", 10)));
    check("10");
    indexer.upsert(Arc::new(pod_at("a", 20)));
    check("20");
    indexer.delete(&key("a"), "30");
    check("30");
    indexer.upsert(Arc::new(pod("without", "")));
    check("30");
    indexer.delete(&key("without"), "");
    check("30");
    indexer.bookmark("50");
    check("50");
    indexer.replace(vec![], "40");
    check("40");
}

#[test]
fn an_index_function_that_panics_leaves_the_store_as_it_was() {
    let indexer = Indexer::new();
    let add = indexer.add_index("picky", |pod: &Pod| {
        assert_ne!(pod.node, "bad", "a panic that the test wants");
        vec![pod.node.clone()]
    });
    add.unwrap();
    indexer.upsert(Arc::new(pod("a", "good")));
    for attempt in [
        || -> fn(&Indexer<Pod>) { |indexer| _ = indexer.upsert(Arc::new(pod("a", "bad"))) },
        || -> fn(&Indexer<Pod>) { |indexer| _ = indexer.replace(vec![Arc::new(pod("b", "bad"))], "9") },
    ] {
        assert!(catch_unwind(AssertUnwindSafe(|| attempt()(&indexer))).is_err());
        assert_eq!(indexer.by_index("picky", "good").unwrap().len(), 1);
        assert_eq!((indexer.len(), indexer.resource_version().as_str()), (1, ""));
    }
    indexer.upsert(Arc::new(pod("b", "good")));
    assert_eq!(indexer.by_index("picky", "good").unwrap().len(), 2, "it goes on");
}

#[test]
fn no_reader_sees_a_part_of_a_replacement() {
    let indexer = Arc::new(by_words());
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (indexer, done) = (indexer.clone(), done.clone());
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = indexer.snapshot();
                    let versions: BTreeSet<&str> = snapshot.objects().iter().map(|pod| pod.node.as_str()).collect();
                    assert!(versions.len() <= 1, "a mixture: {versions:?}");
                    assert!(versions.iter().all(|version| *version == snapshot.resource_version()));
                }
            })
        })
        .collect();
    for round in 1..300 {
        let version = round.to_string();
        indexer.replace((0..50).map(|at| Arc::new(pod(&format!("p{at}"), &version))).collect(), &version);
        assert_eq!(indexer.by_index("words", &version).unwrap().len(), 50);
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}
