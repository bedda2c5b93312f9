//! Tests of cache snapshots, and test cases of the store that do not need an informer.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use pintle_informer::{Cache, Lister, NotReached, View};
use pintle_meta::{LabelSelector, Object, ObjectKey};

use crate::support::{Pod, key, pod, pod_at};

fn by_node() -> Cache<Pod> {
    let cache = Cache::new();
    cache.add_index("node", |pod: &Pod| vec![pod.node.clone()]).unwrap();
    cache
}

fn put(cache: &Cache<Pod>, name: &str, node: &str) {
    cache.upsert(Arc::new(pod(name, node))).unwrap();
}

#[test]
fn s3_index_returns_objects_by_value() {
    let cache = by_node();
    for (name, node) in [("a", "b"), ("c", "b"), ("e", "f"), ("g", "h")] {
        put(&cache, name, node);
    }
    for (node, names) in [("b", &["a", "c"][..]), ("f", &["e"]), ("h", &["g"]), ("x", &[])] {
        let keys: Vec<ObjectKey> = names.iter().map(|name| key(name)).collect();
        assert_eq!(cache.index_keys("node", node).unwrap(), keys);
        assert_eq!(cache.by_index("node", node).unwrap().len(), keys.len());
    }
}

#[test]
fn s6_index_values_follow_object_changes() {
    let cache = Cache::new();
    let users = |pod: &Pod| pod.node.split(' ').map(str::to_owned).collect::<Vec<_>>();
    cache.add_index("user", users).unwrap();
    put(&cache, "one", "ernie bert");
    put(&cache, "tre", "ernie elmo");
    assert_eq!(cache.index_values("user").unwrap(), ["bert", "elmo", "ernie"]);
    put(&cache, "two", "elmo");
    cache.delete(&key("tre"), "");
    put(&cache, "one", "ernie");
    assert_eq!(cache.index_values("user").unwrap(), ["elmo", "ernie"]);
    put(&cache, "one", "oscar");
    let count = |user: &str| cache.by_index("user", user).unwrap().len();
    assert_eq!(["ernie", "elmo", "bert", "oscar"].map(count), [0, 1, 0, 1]);
}

#[test]
fn s8_revision_follows_writes_and_replacements() {
    let cache = Cache::new();
    let change = |name: &str, revision: u64| (key(name), Some(Arc::new(pod_at(name, revision))));
    cache.upsert(Arc::new(pod_at("a", 9))).unwrap();
    cache.upsert(Arc::new(pod_at("b", 10))).unwrap();
    assert_eq!(cache.resource_version(), "10", "as numbers");
    cache.upsert(Arc::new(pod_at("a", 8))).unwrap();
    cache.delete(&key("b"), "7");
    cache.bookmark("6");
    cache.transaction(vec![change("a", 11), change("b", 12)], "5");
    assert_eq!(cache.resource_version(), "10");
    cache.transaction(vec![change("a", 40), change("b", 30)], "50");
    assert_eq!(cache.resource_version(), "50", "the given revision counts");
    cache.replace(vec![Arc::new(pod_at("a", 99))], "20");
    assert_eq!(cache.resource_version(), "20", "the history went back");
    let thirty = "123456789012345678901234567890";
    cache.bookmark(thirty);
    cache.bookmark("99");
    assert_eq!(cache.resource_version(), thirty);
}

#[test]
fn s16_select_works_on_a_large_list() {
    let cache = Cache::new();
    let labelled = |at: usize| {
        let mut pod = pod(&at.to_string(), "");
        pod.metadata.labels.insert("app".into(), if at.is_multiple_of(10) { "web" } else { "db" }.into());
        Arc::new(pod)
    };
    cache.replace((0..100_000).map(labelled).collect(), "1");
    let snapshot = cache.snapshot();
    let selected = |selector: &str| snapshot.select(&selector.parse().unwrap()).len();
    assert_eq!((selected("app=web"), selected("app"), selected("app=none")), (10_000, 100_000, 0));
    assert_eq!(snapshot.select(&LabelSelector::everything()).len(), 100_000);
    assert!(snapshot.select(&LabelSelector::nothing()).is_empty());
    let mut seen = 0;
    snapshot.for_each(|pod| seen += usize::from(pod.metadata.labels.contains_key("app")));
    assert_eq!((seen, snapshot.iter().count()), (100_000, 100_000));
}

#[test]
fn list_never_changes_and_is_read_like_a_slice() {
    let cache = by_node();
    (0..500).for_each(|at| put(&cache, &at.to_string(), "old"));
    (0..100).for_each(|at| _ = cache.delete(&key(&(at * 5).to_string()), ""));
    let list = cache.list();
    (0..500).step_by(3).for_each(|at| put(&cache, &at.to_string(), "new"));
    let names: Vec<String> = list.iter().map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!((list.len(), names.len(), cache.len(), list.is_empty()), (400, 400, 434, false));
    assert!(names.iter().all(|name| name.parse::<usize>().unwrap() % 5 != 0));
    assert!((0..400).all(|at| list[at].metadata.name == names[at] && list[at].node == "old"));
    assert!(list.get(400).is_none() && std::panic::catch_unwind(|| list[400].node.len()).is_err());
    let (mut seen, copy) = (0, list.clone());
    list.for_each(|pod| seen += usize::from(pod.node == "old"));
    let shared: Vec<Arc<Pod>> = list.into_iter().collect();
    assert_eq!((seen, shared.len()), (400, 400));
    assert!(copy.into_iter().zip(&shared).all(|(one, other)| Arc::ptr_eq(&one, other)));
    assert!(Cache::<Pod>::new().list().is_empty());
}

#[test]
fn list_keeps_its_objects_alive() {
    let cache = by_node();
    put(&cache, "a", "one");
    let list = cache.list();
    let known = Arc::downgrade(&list[0]);
    put(&cache, "a", "two");
    assert_eq!((list[0].node.as_str(), cache.list()[0].node.as_str()), ("one", "two"));
    drop(list);
    assert!(known.upgrade().is_none());
}

#[test]
fn snapshot_keeps_its_objects_alive() {
    let cache = by_node();
    put(&cache, "a", "one");
    put(&cache, "b", "one");
    let known: Vec<Weak<Pod>> = cache.list().iter().map(|pod| Arc::downgrade(&pod)).collect();
    let alive = || known.iter().filter(|pod| pod.strong_count() > 0).count();
    let first = cache.snapshot();
    put(&cache, "a", "two");
    let second = cache.snapshot();
    cache.replace(Vec::new(), "9");
    assert_eq!((alive(), cache.len()), (2, 0));
    assert_eq!((first.len(), first.index_values("node").unwrap()), (2, vec!["one".to_owned()]));
    assert_eq!(second.index_keys("node", "two").unwrap(), [key("a")]);
    assert_eq!(second.get(&key("a")).unwrap().node, "two");
    drop(first);
    assert_eq!(alive(), 1, "only b has a second reference");
    let rest = second.iter();
    drop(second);
    assert_eq!((alive(), rest.count(), alive()), (1, 2, 0));
}

#[test]
fn snapshot_has_the_indexes_of_its_time() {
    let cache = by_node();
    put(&cache, "a", "one");
    let before = cache.snapshot();
    put(&cache, "a", "two");
    cache.add_index("name", |pod: &Pod| Some(pod.metadata.name.clone())).unwrap();
    assert!(before.index_values("name").unwrap_err().to_string().contains("[\"namespace\", \"node\"]"));
    assert_eq!(cache.snapshot().index_values("name").unwrap(), ["a"]);
}

#[test]
fn diff_lists_changed_and_deleted_objects() {
    let cache = by_node();
    for name in ["changed", "gone", "same"] {
        put(&cache, name, "old");
    }
    let before = cache.snapshot();
    put(&cache, "changed", "between");
    put(&cache, "passing", "");
    put(&cache, "changed", "new");
    put(&cache, "added", "new");
    cache.delete(&key("gone"), "");
    cache.delete(&key("passing"), "");
    let after = cache.snapshot();
    let node = |pod: Option<Arc<Pod>>| pod.map(|pod| pod.node.clone());
    let received = |difference: pintle_informer::Difference<Pod>| {
        format!("{} {:?} {:?}", difference.key.name(), node(difference.old), node(difference.new))
    };
    let forward: Vec<String> = after.diff(&before).into_iter().map(received).collect();
    let expected = [r#"added None Some("new")"#, r#"changed Some("old") Some("new")"#, r#"gone Some("old") None"#];
    assert_eq!(forward, expected);
    let backward: Vec<String> = before.diff(&after).into_iter().map(received).collect();
    assert_eq!(backward[0], r#"added Some("new") None"#);
    assert!(after.diff(&cache.snapshot()).is_empty());
}

#[test]
#[should_panic = "snapshots of different caches"]
fn diff_of_two_caches_panics() {
    by_node().snapshot().diff(&by_node().snapshot());
}

#[test]
fn view_is_consistent_across_listers() {
    let (pods, others) = (Arc::new(by_node()), Arc::new(by_node()));
    let (all, rest) = (Lister::new(pods.clone()), Lister::new(others.clone()));
    pods.replace(vec![Arc::new(pod("a", ""))], "1");
    others.replace(vec![Arc::new(pod("b", "")), Arc::new(pod("c", ""))], "2");
    let view = View::new(&[&rest, &all, &rest]);
    pods.replace(Vec::new(), "3");
    others.replace(Vec::new(), "4");
    assert_eq!(view.resource_versions(), ["2", "1", "2"]);
    assert_eq!(view.of(&all).unwrap().iter().map(|pod| pod.key()).collect::<Vec<_>>(), [key("a")]);
    assert_eq!(view.of(&rest.clone()).unwrap().len(), 2);
    assert!(view.of(&Lister::new(Arc::new(by_node()))).is_none());
}

#[test]
fn wait_for_a_revision_succeeds_or_fails() {
    let cache = by_node();
    let mut wait = pin!(cache.read_at_least("20"));
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    cache.bookmark("9");
    assert!(poll().is_pending(), "as numbers");
    put(&cache, "a", "");
    cache.bookmark("100");
    let Poll::Ready(Ok(snapshot)) = poll() else { panic!("the revision was reached") };
    assert_eq!((snapshot.len(), snapshot.resource_version()), (1, "100"));

    let mut opaque = pin!(cache.wait_for("x"));
    let not_comparable = |version: &str| Err(NotReached::NotComparable { resource_version: version.into() });
    assert_eq!(opaque.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(not_comparable("x")));
    cache.replace(Vec::new(), "y");
    let mut of_opaque = pin!(cache.wait_for("7"));
    assert_eq!(of_opaque.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(not_comparable("y")));
}
