//! Tests of the cache and its indices.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pintle_delta_fifo::{Indexer, MemoryStore, Store, Transaction};
use pintle_informer::{AddIndexError, Cache, InformerConfig, InformerFactory, NAMESPACE_INDEX};
use pintle_meta::{Object, ObjectKey};

use crate::support::{Pod, pod, pod_at, pods, settle};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn by_words() -> Cache<Pod> {
    let cache = Cache::new();
    cache.add_index("words", |pod: &Pod| pod.node.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    cache
}

fn names(cache: &Cache<Pod>, value: &str) -> Vec<String> {
    let mut pods = cache.by_index("words", value).unwrap();
    pods.sort_by_key(|pod| pod.key());
    let names = pods.iter().map(|pod| pod.metadata.name.clone()).collect();
    let keys = cache.index_keys("words", value).unwrap();
    assert_eq!(keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>(), names, "keys match objects");
    names
}

#[test]
fn cache_works_as_a_map() {
    let cache = Cache::new();
    assert!(cache.upsert(Arc::new(pod("a", "1"))).unwrap().is_none());
    assert_eq!(cache.upsert(Arc::new(pod("a", "2"))).unwrap().unwrap().node, "1");
    cache.upsert(Arc::new(pod("b", "3"))).unwrap();
    assert_eq!(cache.get(&key("a")).unwrap().node, "2");
    assert_eq!(cache.list_keys().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([key("a"), key("b")]));
    assert_eq!(cache.delete(&key("a"), "").unwrap().node, "2");
    assert!(cache.delete(&key("a"), "").is_none());
    assert_eq!(cache.list().len(), 1);
    cache.replace(vec![Arc::new(pod("c", "4"))], "9");
    assert_eq!((cache.len(), cache.get(&key("b")).is_none()), (1, true));
}

#[test]
fn index_follows_changes_of_several_values() {
    let cache = by_words();
    let put = |name: &str, words: &str| _ = cache.upsert(Arc::new(pod(name, words))).unwrap();
    put("one", "a,b");
    put("two", "b");
    put("three", "a,b,c");
    assert_eq!(names(&cache, "a"), ["one", "three"]);
    assert_eq!(names(&cache, "b"), ["one", "three", "two"]);
    assert_eq!(names(&cache, "c"), ["three"]);
    put("three", "c,d");
    assert_eq!(names(&cache, "a"), ["one"]);
    assert_eq!(names(&cache, "d"), ["three"]);
    cache.delete(&key("one"), "");
    assert_eq!(names(&cache, "b"), ["two"]);
    assert!(names(&cache, "a").is_empty());
}

#[test]
fn unused_index_value_is_removed() {
    let cache = by_words();
    cache.upsert(Arc::new(pod("one", "a"))).unwrap();
    cache.upsert(Arc::new(pod("two", "a"))).unwrap();
    cache.delete(&key("one"), "");
    assert_eq!(cache.index_values("words").unwrap(), ["a"]);
    cache.delete(&key("two"), "");
    assert!(cache.index_values("words").unwrap().is_empty());
}

#[test]
fn later_index_includes_existing_objects() {
    let cache = Cache::new();
    cache.upsert(Arc::new(pod("one", "a"))).unwrap();
    cache.add_index("node", |pod: &Pod| vec![pod.node.clone()]).unwrap();
    assert_eq!(cache.by_index("node", "a").unwrap().len(), 1);
    assert!(cache.add_index("node", |_: &Pod| vec![]).is_err());
    assert!(cache.add_index(NAMESPACE_INDEX, |_: &Pod| vec![]).is_err());
    assert!(cache.by_index("none", "a").is_err());
}

#[test]
fn replace_returns_previous_and_deleted_objects() {
    let cache = by_words();
    for name in ["gone", "stays"] {
        cache.upsert(Arc::new(pod(name, "a"))).unwrap();
    }
    let replacement = cache.replace(vec![Arc::new(pod("stays", "b")), Arc::new(pod("new", "b"))], "9");
    assert_eq!(replacement.deleted.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>(), ["gone"]);
    let present: Vec<_> = replacement.present.iter().map(|(old, new)| (old.is_some(), &*new.metadata.name)).collect();
    assert_eq!(present, [(true, "stays"), (false, "new")], "in list order");
    assert!(names(&cache, "a").is_empty());
    assert_eq!(names(&cache, "b"), ["new", "stays"]);

    let twice = cache.replace(vec![Arc::new(pod("x", "first")), Arc::new(pod("x", "last"))], "10");
    assert_eq!((twice.present.len(), cache.get(&key("x")).unwrap().node.as_str()), (1, "last"));
    assert_eq!(cache.index_values("words").unwrap(), ["last"]);
}

#[test]
fn cache_revision_follows_writes() {
    let cache = Cache::new();
    let check = |expected: &str| {
        assert_eq!(cache.resource_version(), expected);
        assert_eq!(cache.snapshot().resource_version(), expected);
    };
    check("");
    cache.upsert(Arc::new(pod_at("a", 10))).unwrap();
    check("10");
    cache.upsert(Arc::new(pod_at("a", 20))).unwrap();
    check("20");
    cache.delete(&key("a"), "30");
    check("30");
    cache.upsert(Arc::new(pod("without", ""))).unwrap();
    check("30");
    cache.delete(&key("without"), "");
    check("30");
    cache.bookmark("50");
    check("50");
    cache.replace(vec![], "40");
    check("40");
}

fn picky() -> Cache<Pod> {
    let cache = Cache::new();
    let add = cache.add_index("picky", |pod: &Pod| match pod.node.as_str() {
        "bad" => Err("it is bad"),
        "worse" => panic!("expected by the test"),
        node => Ok(vec![node.to_owned()]),
    });
    add.unwrap();
    cache
}

#[test]
fn failing_index_function_keeps_the_last_good_state() {
    let cache = picky();
    cache.upsert(Arc::new(pod("a", "good"))).unwrap();
    for (node, message) in [("bad", "failed: it is bad"), ("worse", "panicked: expected by the test")] {
        let error = cache.upsert(Arc::new(pod("a", node))).unwrap_err();
        assert_eq!((error.key.as_str(), error.index.as_str()), ("ns/a", "picky"));
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(cache.by_index("picky", "good").unwrap().len(), 1);
        assert_eq!((cache.len(), cache.resource_version().as_str()), (1, ""));
        assert_eq!(cache.undecodable()[0].error, error.to_string());
    }
    let replacement = cache.replace(vec![Arc::new(pod("a", "bad")), Arc::new(pod("b", "worse"))], "9");
    assert!(replacement.present.is_empty() && replacement.deleted.is_empty());
    assert_eq!(cache.list()[0].node, "good");
    assert_eq!(cache.undecodable().len(), 2);
    cache.upsert(Arc::new(pod("a", "good"))).unwrap();
    cache.delete(&key("b"), "10");
    assert!(cache.undecodable().is_empty(), "fixed and deleted");
    cache.upsert(Arc::new(pod("b", "good"))).unwrap();
    assert_eq!(cache.by_index("picky", "good").unwrap().len(), 2, "the cache still works");
}

#[test]
fn rejected_object_removes_another_object_of_its_name() {
    let of_uid = |uid: &str, node: &str| {
        let mut pod = pod("a", node);
        pod.metadata.uid = uid.into();
        Arc::new(pod)
    };
    for way in 0..3 {
        let cache = picky();
        cache.upsert(of_uid("1", "good")).unwrap();
        let refused = || of_uid("2", "bad");
        match way {
            0 => _ = cache.upsert(refused()).unwrap_err(),
            1 => {
                let mut written = cache.transaction(vec![(key("a"), Some(refused()))], "");
                written.remove(0).unwrap_err();
            }
            _ => assert_eq!(cache.replace(vec![refused()], "").deleted.len(), 1),
        }
        assert!(cache.get(&key("a")).is_none() && cache.is_empty(), "{way}");
        assert_eq!(cache.undecodable()[0].uid, "2");
        assert!(cache.by_index("picky", "good").unwrap().is_empty());
    }
}

#[test]
fn s7_transaction_applies_valid_changes_and_reports_others() {
    let cache = picky();
    let done = |nodes: [&str; 3]| -> Vec<usize> {
        let changes = nodes.iter().enumerate().map(|(at, node)| {
            let pod = pod(&at.to_string(), node);
            (pod.key(), Some(Arc::new(pod)))
        });
        let results = cache.transaction(changes.collect(), "");
        (0..3).filter(|at| results[*at].is_ok()).collect()
    };
    assert_eq!(done(["good", "good", "good"]), [0, 1, 2]);
    assert!(done(["bad", "bad", "bad"]).is_empty());
    assert_eq!(done(["fine", "worse", "fine"]), [0, 2]);
    assert_eq!(cache.by_index("picky", "fine").unwrap().len(), 2);
    assert_eq!(cache.index_keys("picky", "good").unwrap(), [key("1")]);
    assert!(cache.transaction(Vec::new(), "").is_empty());
}

#[test]
fn failed_add_index_leaves_no_index() {
    let cache = Cache::new();
    for name in ["a", "b"] {
        cache.upsert(Arc::new(pod(name, name))).unwrap();
    }
    let error = cache.add_index("node", |pod: &Pod| (pod.node != "b").then(|| vec![pod.node.clone()]).ok_or("no"));
    assert!(error.unwrap_err().to_string().contains("cannot index ns/b"));
    assert!(cache.by_index("node", "a").is_err());
    cache.add_index("node", |pod: &Pod| Some(pod.node.clone())).unwrap();
    assert_eq!(cache.index_values("node").unwrap(), ["a", "b"]);
}

#[test]
fn index_function_may_read_its_own_cache() {
    let cache = Arc::new(Cache::new());
    let known = Arc::downgrade(&cache);
    let count = move |_: &Pod| known.upgrade().map(|cache| cache.list().len().to_string());
    cache.upsert(Arc::new(pod("a", ""))).unwrap();
    cache.add_index("count", count).unwrap();
    cache.upsert(Arc::new(pod("b", ""))).unwrap();
    cache.replace(vec![Arc::new(pod("c", ""))], "9");
    assert_eq!(cache.index_values("count").unwrap(), ["2"]);
}

#[test]
fn readers_never_see_a_partial_replacement() {
    let cache = Arc::new(by_words());
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (cache, done) = (cache.clone(), done.clone());
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = cache.snapshot();
                    let versions: BTreeSet<String> = snapshot.iter().map(|pod| pod.node.clone()).collect();
                    assert!(versions.len() <= 1, "a mixture: {versions:?}");
                    assert!(versions.iter().all(|version| *version == snapshot.resource_version()));
                }
            })
        })
        .collect();
    for round in 1..300 {
        let version = round.to_string();
        cache.replace((0..50).map(|at| Arc::new(pod(&format!("p{at}"), &version))).collect(), &version);
        assert_eq!(cache.by_index("words", &version).unwrap().len(), 50);
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}

fn shown(indexer: &impl Indexer<ObjectKey, Arc<Pod>>) -> String {
    let states = |mut pods: Vec<Arc<Pod>>| {
        pods.sort_by_key(|pod| pod.metadata.name.clone());
        pods.iter().map(|pod| format!("{}={}", pod.metadata.name, pod.node)).collect::<Vec<_>>().join(" ")
    };
    let (all, of_a) = (indexer.list(), indexer.by_index("words", "a").unwrap());
    assert_eq!(indexer.list_keys().len(), all.len());
    assert_eq!(indexer.index_keys("words", "a").unwrap().len(), of_a.len());
    format!("{} | {} | {}", states(all), states(of_a), indexer.index_values("words").unwrap().len())
}

#[test]
fn cache_and_memory_store_are_equal_indexers() {
    fn check(mut indexer: impl Indexer<ObjectKey, Arc<Pod>, Entry = Arc<Pod>>) {
        indexer.add(Arc::new(pod("one", "a"))).unwrap();
        indexer.add(Arc::new(pod("two", "a,b"))).unwrap();
        assert_eq!(shown(&indexer), "one=a two=a,b | one=a two=a,b | 2");
        indexer.update(Arc::new(pod("one", "b"))).unwrap();
        indexer.delete(Arc::new(pod("two", "stale"))).unwrap();
        indexer.delete(Arc::new(pod("never there", "a"))).unwrap();
        assert_eq!(shown(&indexer), "one=b |  | 1");
        indexer.replace(vec![Arc::new(pod("three", "a"))], "9").unwrap();
        indexer.resync().unwrap();
        assert_eq!(shown(&indexer), "three=a | three=a | 1");
        assert!(indexer.by_index("none", "a").is_none());
        assert_eq!(indexer.get(&Arc::new(pod("three", ""))).unwrap().unwrap().node, "a");
        assert!(indexer.get_by_key(&key("one")).is_none());
    }
    let mut store = MemoryStore::new(|pod: &Arc<Pod>| Ok(key(&pod.metadata.name)));
    store.add_index("words", |pod| pod.node.split(',').map(str::to_owned).collect());
    check(store);
    check(by_words());
}

#[test]
fn index_function_may_read_the_informer_state() {
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (source, factory) = (pods(&["a"]), InformerFactory::new());
            let informer = factory.informer(source.clone(), InformerConfig::default());
            let ask = |index: &str| {
                let (shared, factory) = (informer.clone(), factory.clone());
                let function = move |_: &Pod| vec![format!("{} {:?}", shared.has_synced(), factory.unsynced())];
                informer.add_index(index, function).unwrap();
            };
            ask("early");
            factory.start();
            informer.wait_for_sync().await.unwrap();
            source.put(pod("b", ""));
            settle().await;
            ask("late");
            assert_eq!(informer.lister().by_index("early", r#"false ["Pod"]"#).unwrap().len(), 1);
            assert_eq!(informer.lister().by_index("late", "true []").unwrap().len(), 2);
            factory.shutdown().await;
        });
        sender.send(())
    });
    received.recv_timeout(Duration::from_secs(30)).expect("deadlock");
}

#[test]
fn store_transaction_is_one_step() {
    let mut cache: Cache<Pod> = Cache::new();
    cache
        .add_index("node", |pod: &Pod| if pod.node == "bad" { Err("wanted") } else { Ok(vec![pod.node.clone()]) })
        .unwrap();
    let at = |name: &str, node: &str, revision: u64| Arc::new(Pod { node: node.into(), ..pod_at(name, revision) });
    Store::transaction(&mut cache, vec![Transaction::Add(at("a", "", 1))]).unwrap();
    let writes = vec![
        Transaction::Add(at("b", "", 40)),
        Transaction::Delete(at("a", "", 1)),
        Transaction::Add(at("c", "bad", 41)),
        Transaction::Update(at("d", "", 30)),
    ];
    let error = Store::transaction(&mut cache, writes).unwrap_err();
    assert_eq!((error.successful, error.total, error.causes.len()), (vec![0, 1, 3], 4, 1));
    assert_eq!(cache.resource_version(), "41", "one step has one revision");
    Store::transaction(
        &mut cache,
        vec![
            Transaction::Add(at("b", "", 50)),
            Transaction::Delete(at("b", "", 50)),
            Transaction::Add(at("b", "x", 51)),
        ],
    )
    .unwrap();
    assert_eq!(cache.get(&key("b")).unwrap().node, "x");
}

/// An index function that fails during concurrent writes must not affect writers and readers.
#[test]
fn failed_add_index_does_not_affect_concurrent_writes() {
    let coming = ["b", "c", "d"].map(|name| Arc::new(pod(name, "")));
    for fails_on in ["a", "b", "d"] {
        let cache = Arc::new(Cache::new());
        cache.upsert(Arc::new(pod("a", ""))).unwrap();
        let (within, [b, c, d]) = (Arc::downgrade(&cache), coming.clone());
        let failed = cache.add_index("some", move |pod: &Pod| {
            let cache = within.upgrade().unwrap();
            if pod.metadata.name == "a" && cache.len() == 1 {
                cache.upsert(b.clone()).unwrap();
                cache.transaction(vec![(key("c"), Some(c.clone()))], "").remove(0).unwrap();
                let all = cache.list().into_iter().chain([d.clone()]).collect();
                assert_eq!(cache.replace(all, "").present.len(), 4);
            }
            if pod.metadata.name == fails_on {
                Err(format!("{fails_on} is an unknown case"))
            } else {
                Ok(Some("some".to_owned()))
            }
        });
        let AddIndexError::Failed(error) = failed.unwrap_err() else { panic!("only this variant exists") };
        assert_eq!(error.key, key(fails_on));
        assert!(cache.by_index("some", "some").is_err());
        assert_eq!((cache.len(), cache.undecodable()), (4, vec![]));
        for again in &coming {
            cache.upsert(again.clone()).unwrap();
        }
        cache.add_index("some", |_: &Pod| Some("other".to_owned())).unwrap();
        assert_eq!((cache.by_index("some", "other").unwrap().len(), cache.index_values("some").unwrap().len()), (4, 1));
    }
}
