//! Tests that reads include this process's own writes before the watch delivers them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_informer::{Cache, InformerConfig, Lister, Overlay, OverlayConfig, SharedInformer};
use pintle_meta::{DeleteOptions, Metadata, Object, ObjectApi, ObjectKey, ObjectMeta, Patch, WriteOptions};
use pintle_testing::Break;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Pod, key, pod, pods};

/// Returns a pod whose resourceVersion and `node` field both contain `version`.
fn at(name: &str, uid: &str, version: u64) -> Pod {
    let mut pod = pod(name, &version.to_string());
    pod.metadata.uid = uid.into();
    pod.metadata.resource_version = version.to_string();
    pod
}

fn overlay(config: OverlayConfig) -> (Arc<Cache<Pod>>, Overlay<Pod>) {
    let cache = Arc::new(Cache::new());
    (cache.clone(), Overlay::new(Lister::new(cache), config))
}

/// Returns the version that a read by key returns, and checks that a list contains the same version.
#[track_caller]
fn read(overlay: &Overlay<Pod>, name: &str) -> Option<u64> {
    let version = |pod: &Arc<Pod>| pod.node.parse().unwrap();
    let listed = overlay.list().iter().find(|pod| pod.key() == key(name)).map(version);
    let read = overlay.get(&key(name)).as_ref().map(version);
    assert_eq!(read, listed);
    read
}

#[tokio::test(start_paused = true)]
async fn overlay_shows_a_write_until_the_cache_catches_up() {
    let (cache, overlay) = overlay(OverlayConfig::default());
    cache.upsert(Arc::new(at("a", "1", 5))).unwrap();
    assert!(overlay.wrote(at("a", "1", 8)) && overlay.wrote(at("new", "2", 9)));
    assert_eq!((read(&overlay, "a"), read(&overlay, "new"), overlay.len()), (Some(8), Some(9), 2));
    cache.upsert(Arc::new(at("a", "1", 7))).unwrap();
    assert_eq!(read(&overlay, "a"), Some(8), "older writes of others are hidden");
    cache.upsert(Arc::new(at("a", "1", 8))).unwrap();
    cache.delete(&key("new"), "10");
    assert_eq!((read(&overlay, "a"), read(&overlay, "new")), (Some(8), None), "the pod was deleted after the write");
    cache.upsert(Arc::new(at("a", "1", 11))).unwrap();
    assert_eq!((read(&overlay, "a"), overlay.is_empty()), (Some(11), true));
    assert!(overlay.wrote(at("a", "1", 10)));
    assert_eq!(read(&overlay, "a"), Some(11), "a late response changes nothing");

    let mut opaque = at("a", "1", 12);
    opaque.metadata.resource_version = "x".into();
    assert!(!overlay.wrote(opaque));
    let mut labelled = at("b", "3", 12);
    labelled.metadata.labels.insert("app".into(), "web".into());
    overlay.wrote(labelled);
    assert_eq!(overlay.select(&"app=web".parse().unwrap()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn overlay_hides_a_deleted_object() {
    let (cache, overlay) = overlay(OverlayConfig::default());
    cache.upsert(Arc::new(at("a", "1", 5))).unwrap();
    overlay.deleted(at("a", "1", 6));
    assert_eq!(read(&overlay, "a"), None);
    cache.upsert(Arc::new(at("a", "1", 6))).unwrap();
    assert_eq!(read(&overlay, "a"), None, "the deletion is not in the cache yet");
    overlay.wrote(at("a", "1", 6));
    assert_eq!(read(&overlay, "a"), None, "a late response does not restore the object");
    cache.upsert(Arc::new(at("a", "2", 8))).unwrap();
    assert_eq!(read(&overlay, "a"), Some(8), "another object of that name");

    overlay.wrote(at("brief", "3", 9));
    overlay.deleted(at("brief", "3", 9));
    assert_eq!(read(&overlay, "brief"), None);
    cache.upsert(Arc::new(at("brief", "3", 9))).unwrap();
    assert_eq!(read(&overlay, "brief"), None, "the addition arrives after the deletion");
    overlay.wrote(at("brief", "4", 11));
    assert_eq!(read(&overlay, "brief"), Some(11));
}

#[tokio::test(start_paused = true)]
async fn overlay_is_bounded_by_keys_and_age() {
    let config = OverlayConfig { capacity: 2, max_age: Duration::from_secs(10) };
    let (cache, overlay) = overlay(config);
    cache.upsert(Arc::new(at("a", "1", 1))).unwrap();
    for (name, version) in [("a", 2), ("b", 3), ("c", 4)] {
        overlay.wrote(at(name, name, version));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(["a", "b", "c"].map(|name| read(&overlay, name)), [Some(1), Some(3), Some(4)], "the oldest was evicted");
    tokio::time::sleep(Duration::from_millis(8500)).await;
    assert_eq!((read(&overlay, "b"), read(&overlay, "c"), overlay.len()), (None, Some(4), 1));
}

#[derive(Clone, Debug)]
enum Operation {
    Write { own: bool, at: usize },
    Delete { own: bool, at: usize },
    Deliver(usize),
}

proptest! {
    #[test]
    fn read_returns_the_newer_of_cache_and_own_write(operations in vec(prop_oneof![
        3 => (any::<bool>(), 0..3_usize).prop_map(|(own, at)| Operation::Write { own, at }),
        2 => (any::<bool>(), 0..3_usize).prop_map(|(own, at)| Operation::Delete { own, at }),
        3 => (0..4_usize).prop_map(Operation::Deliver),
    ], 1..60)) {
        let (cache, overlay) = overlay(OverlayConfig::default());
        let names = ["a", "b", "c"];
        // The server's state, its event log, and the last write of this process to each pod.
        let mut server: BTreeMap<&str, Pod> = BTreeMap::new();
        let mut log: Vec<(u64, &str, Option<Pod>)> = Vec::new();
        let mut own_writes: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
        let (mut delivered, mut seen) = (0, 0);
        for operation in operations {
            let version = log.len() as u64 + 1;
            match operation {
                Operation::Write { own, at: place } => {
                    let name = names[place];
                    let uid = server.get(name).map_or(version.to_string(), |pod| pod.metadata.uid.clone());
                    let pod = at(name, &uid, version);
                    server.insert(name, pod.clone());
                    log.push((version, name, Some(pod.clone())));
                    if own {
                        own_writes.insert(name, (version, Some(version)));
                        prop_assert!(overlay.wrote(pod));
                    }
                }
                Operation::Delete { own, at } => {
                    let name = names[at];
                    let Some(pod) = server.remove(name) else { continue };
                    log.push((version, name, None));
                    if own {
                        own_writes.insert(name, (version, None));
                        prop_assert!(overlay.deleted(pod));
                    }
                }
                Operation::Deliver(many) => {
                    for (version, name, pod) in log.iter().skip(delivered).take(many) {
                        match pod {
                            Some(pod) => _ = cache.upsert(Arc::new(pod.clone())).unwrap(),
                            None => _ = cache.delete(&key(name), &version.to_string()),
                        }
                        (delivered, seen) = (delivered + 1, *version);
                    }
                }
            }
            for name in names {
                let cached = cache.get(&key(name)).map(|pod| pod.node.parse().unwrap());
                let expected = match own_writes.get(name) {
                    Some((version, left)) if seen < *version => *left,
                    _ => cached,
                };
                prop_assert_eq!(read(&overlay, name), expected, "{} at {}", name, seen);
            }
        }
    }
}

struct Nosy {
    metadata: ObjectMeta,
    overlay: Arc<OnceLock<Overlay<Nosy>>>,
}

impl Object for Nosy {
    fn metadata(&self) -> &dyn Metadata {
        if let Some(overlay) = self.overlay.get() {
            // Read a missing key to end the recursion.
            overlay.get(&ObjectKey::new("ns", "nobody"));
            overlay.wrote(nobody());
        }
        &self.metadata
    }
}

fn nobody() -> Nosy {
    let metadata = ObjectMeta { resource_version: "1".into(), ..ObjectMeta::new("ns", "nobody") };
    Nosy { metadata, overlay: Arc::default() }
}

#[test]
fn overlay_calls_object_methods_without_locks() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let cache: Arc<Cache<Nosy>> = Arc::new(Cache::new());
        let overlay =
            Overlay::new(Lister::new(cache.clone()), OverlayConfig { capacity: 1, ..OverlayConfig::default() });
        let handle = Arc::new(OnceLock::new());
        let _ = handle.set(overlay.clone());
        let at = |name: &str, version: u64| {
            let metadata =
                ObjectMeta { uid: "u".into(), resource_version: version.to_string(), ..ObjectMeta::new("ns", name) };
            Arc::new(Nosy { metadata, overlay: handle.clone() })
        };
        for version in 1..4 {
            overlay.wrote(at("a", version));
            overlay.deleted(at("a", version));
            overlay.wrote(at("b", version));
            cache.upsert(at("b", version)).unwrap();
            overlay.deleted(at("b", version));
            assert!(overlay.get(&ObjectKey::new("ns", "b")).is_none());
            overlay.list();
            overlay.len();
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(10)).expect("deadlock");
}

#[tokio::test(start_paused = true)]
async fn reads_by_index_see_own_writes() {
    let (cache, overlay) = overlay(OverlayConfig::default());
    cache.add_index("node", |pod| vec![pod.node.clone()]).unwrap();
    let on = |name: &str, node: &str, version: u64| Pod { node: node.into(), ..at(name, name, version) };
    cache.replace(vec![Arc::new(on("a", "n1", 1)), Arc::new(on("b", "n1", 1))], "1");
    let names = |node: &str| {
        let mut names: Vec<String> =
            overlay.by_index("node", node).unwrap().iter().map(|pod| pod.metadata.name.clone()).collect();
        names.sort();
        names.concat()
    };
    overlay.wrote(on("a", "n2", 2));
    overlay.wrote(on("c", "n1", 3));
    assert_eq!((names("n1"), names("n2")), ("bc".into(), "a".into()));
    overlay.deleted(on("b", "n1", 1));
    assert_eq!((names("n1"), overlay.namespace("ns").len(), overlay.namespace("other").len()), ("c".into(), 2, 0));
    assert_eq!(overlay.namespace("").len(), overlay.list().len());
    // The cache contains newer states than the writes.
    cache.replace(vec![Arc::new(on("a", "n3", 9))], "9");
    assert_eq!((names("n1"), names("n2"), names("n3")), (String::new(), String::new(), "a".into()));
    assert!(overlay.by_index("none", "n1").is_err());
}

#[tokio::test(start_paused = true)]
async fn overlay_shows_writes_through_its_api() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let overlay = Overlay::new(informer.lister(), OverlayConfig::default());
    let api = overlay.api(source.client("me"));
    // The watch does not deliver the write.
    source.break_watches(Break::Silent);
    let (post, delete) = (WriteOptions::default(), DeleteOptions::default());

    let mut a = api.get(&key("a")).await.unwrap();
    a.node = "n1".into();
    let a = api.update(&a, &post).await.unwrap();
    assert_eq!(overlay.get(&key("a")).unwrap().node, "n1");
    api.create(&pod("b", "n2"), &WriteOptions { dry_run: true, ..post.clone() }).await.ok();
    assert!(overlay.get(&key("b")).is_none(), "a dry run is not shown");
    api.create(&pod("b", "n2"), &post).await.unwrap();
    assert_eq!(overlay.list().len(), 2);
    let patch = Patch::Merge(serde_json::json!({"node": "n3"}));
    api.patch(&key("b"), &patch, &post).await.unwrap();
    assert_eq!(overlay.get(&key("b")).unwrap().node, "n3");
    api.delete(&key("b"), &delete).await.unwrap();
    assert!(overlay.get(&key("b")).is_none());

    let held = Pod { metadata: ObjectMeta { finalizers: vec!["x/y".into()], ..a.metadata }, ..a };
    api.update(&held, &post).await.unwrap();
    api.delete(&key("a"), &delete).await.unwrap();
    let dying = overlay.get(&key("a")).expect("the object waits for its finalizer");
    assert!(dying.metadata.deletion_timestamp.is_some());
    assert_eq!(informer.lister().get(&key("a")).unwrap().node, "", "the cache has no write");
    assert!(api.delete(&key("none"), &delete).await.unwrap_err().is_not_found());
}
