//! Tests that compact and plain objects look the same to readers of a cache.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pintle_informer::{
    Cache, Compact, InformerConfig, Lister, Overlay, OverlayConfig, ReflectorConfig, ResourceEvent, SharedInformer,
};
use pintle_meta::{DecodeError, DynamicObject, Metadata, Object, ObjectKey, ObjectMeta, PartialObject};
use pintle_testing::Collection;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::log::Log;
use crate::support::{Pod, key, pod, settle};

fn compact(pod: &Pod) -> Compact<Pod> {
    Compact::new(pod).unwrap()
}

fn labeled(name: &str, node: &str, label: &str) -> Compact<Pod> {
    let mut pod = pod(name, node);
    pod.metadata.labels.insert("app".into(), label.into());
    compact(&pod)
}

fn node(pod: &Compact<Pod>) -> String {
    pod.get().unwrap().node.clone()
}

fn by_node(pod: &Compact<Pod>) -> Vec<String> {
    vec![node(pod)]
}

async fn synced(
    source: &Collection<Compact<Pod>>,
    config: InformerConfig<Compact<Pod>>,
) -> SharedInformer<Compact<Pod>> {
    let informer = SharedInformer::new(source.clone(), config);
    informer.add_index("node", by_node).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    informer
}

#[tokio::test(start_paused = true)]
async fn informer_works_with_compact_objects() {
    let source = Collection::from([labeled("a", "x", "web"), labeled("b", "y", "db")]);
    let transform = |pod: &mut Compact<Pod>| {
        let mut changed = Pod::clone(&pod.get().unwrap());
        changed.node.push('!');
        *pod = compact(&changed);
    };
    let config = InformerConfig { transform: Some(Arc::new(transform)), ..InformerConfig::default() };
    let informer = synced(&source, config).await;
    let lister = informer.lister();
    assert_eq!(node(&lister.get(&key("a")).unwrap()), "x!");
    assert_eq!(lister.by_index("node", "y!").unwrap()[0].name(), "b");
    let web = lister.select(&"app=web".parse().unwrap());
    assert_eq!(web.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["a"]);

    let mut events = informer.subscribe();
    for _ in 0..2 {
        assert!(matches!(events.next().await, Some(ResourceEvent::Added { is_initial: true, .. })));
    }
    source.put(labeled("a", "z", "web"));
    let Some(ResourceEvent::Updated { old, new }) = events.next().await else { panic!("no update") };
    assert_eq!((node(&old), node(&new)), ("x!".into(), "z!".into()));
    assert_eq!(informer.lister().snapshot().by_index("node", "z!").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn log_names_the_compact_type() {
    let (log, _here) = Log::here();
    let source = Collection::default();
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": "a", "generation": "seven"}}));
    synced(&source, InformerConfig::default()).await;
    log.assert_tells(&["cannot decode an object", "informer=Compact<Pod> "]);
}

#[tokio::test(start_paused = true)]
async fn server_selectors_work_with_compact_objects() {
    let source = Collection::from([labeled("a", "x", "web"), labeled("b", "y", "db")]);
    let reflector = ReflectorConfig { label_selector: "app=db".parse().unwrap(), ..ReflectorConfig::default() };
    let informer = synced(&source, InformerConfig { reflector, ..InformerConfig::default() }).await;
    assert_eq!(informer.lister().list().iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn overlay_works_with_compact_objects() {
    let cache = Arc::new(Cache::new());
    let overlay = Overlay::new(Lister::new(cache.clone()), OverlayConfig::default());
    let at = |node: &str, version: &str| {
        let mut pod = pod("a", node);
        pod.metadata.uid = "1".into();
        pod.metadata.resource_version = version.into();
        compact(&pod)
    };
    cache.upsert(Arc::new(at("x", "5"))).unwrap();
    assert!(overlay.wrote(at("y", "8")));
    assert_eq!(node(&overlay.get(&key("a")).unwrap()), "y");
    cache.upsert(Arc::new(at("z", "9"))).unwrap();
    assert_eq!((node(&overlay.get(&key("a")).unwrap()), overlay.is_empty()), ("z".into(), true));
}

#[tokio::test(start_paused = true)]
async fn compact_reports_an_invalid_object_on_read() {
    let source = Collection::from([labeled("a", "x", "web")]);
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": "b", "uid": "2"}, "node": {"hush": "hush"}}));
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": "c", "generation": "hush"}, "node": "x"}));
    let informer = SharedInformer::new(source, InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let b = informer.lister().get(&key("b")).unwrap();
    for _ in 0..2 {
        let error = b.get().unwrap_err();
        assert_eq!((error.key.clone(), error.uid.as_str(), error.resource_version.as_str()), (key("b"), "2", "2"));
        let received = "ns/b cannot be decoded: invalid type: map, expected a string at line 1 column ";
        assert!(error.to_string().starts_with(received), "{error}");
    }
    assert!(!format!("{b:?}").contains("hush") && format!("{b:?}").starts_with("Compact(ns/b, "), "{b:?}");
    // Even the metadata of the object `c` cannot be read.
    let lister = informer.lister();
    let shown = lister.undecodable();
    assert_eq!((shown.len(), shown[0].key.clone()), (1, key("c")));
    assert!(shown[0].error.starts_with("invalid type: string, expected i64"), "{:?}", shown[0].error);
}

/// A type whose `Deserialize` panics, for tests that must not decode objects.
#[derive(Debug)]
struct Closed;

impl<'de> Deserialize<'de> for Closed {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("the object was decoded")
    }
}

#[test]
fn compact_supports_the_finalizers_that_its_type_contains() {
    let mut pod = pod("a", "x");
    pod.metadata.finalizers.push("example.com/dns".into());
    let compact = compact(&pod);
    assert!(compact.metadata().supports_finalizers());
    assert_eq!(compact.metadata().finalizers(), ["example.com/dns"]);
}

/// The metadata of an object, without the finalizers.
#[derive(Serialize)]
struct Slim {
    name: String,
}

impl Metadata for Slim {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        ""
    }

    fn uid(&self) -> &str {
        ""
    }

    fn resource_version(&self) -> &str {
        ""
    }
}

#[test]
fn compact_of_a_type_without_finalizers_supports_none() {
    #[derive(Serialize)]
    struct SlimPod {
        metadata: Slim,
    }
    impl Object for SlimPod {
        fn metadata(&self) -> &dyn Metadata {
            &self.metadata
        }
    }
    let compact = Compact::new(&SlimPod { metadata: Slim { name: "a".into() } }).unwrap();
    assert_eq!((compact.name(), compact.metadata().supports_finalizers()), ("a", false));
}

#[test]
fn metadata_is_read_without_decoding() {
    let json = r#" {"metadata": {"name": "web\u002d1", "namespace": "a", "uid": "4f9a", "resourceVersion": "7", "generation": 3,
        "deletionTimestamp": "2026-11-20T08:30:00Z", "labels": {"b": "c", "d": null}, "annotations": {"e": "ü\n"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}],
        "finalizers": ["f", "g"], "other": [1]}, "spec": {}}"#;
    let closed: Compact<Closed> = serde_json::from_str(json).unwrap();
    let plain: PartialObject = serde_json::from_slice(json.as_bytes()).unwrap();
    let (read, expected) = (closed.metadata(), plain.metadata());
    assert_eq!((closed.key(), closed.uid(), closed.resource_version()), (ObjectKey::new("a", "web-1"), "4f9a", "7"));
    assert_eq!((read.generation(), read.is_terminating()), (3, true));
    assert_eq!((read.labels(), read.annotations()), (expected.labels(), expected.annotations()));
    assert_eq!((read.owners(), read.finalizers()), (expected.owners(), expected.finalizers()));
    assert_eq!(read.controller().unwrap().group(), "apps");

    let error = closed.get().unwrap_err();
    assert_eq!(error.error, "its Deserialize panicked: the object was decoded");
    assert_eq!(closed.get().unwrap_err(), error);
}

/// A type that does not serialize its metadata.
struct Unnamed(ObjectMeta);

impl Serialize for Unnamed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(7)
    }
}

impl Object for Unnamed {
    fn metadata(&self) -> &dyn Metadata {
        &self.0
    }
}

#[test]
fn compact_without_metadata_is_an_error() {
    for json in ["null", "[", "7", r#"{"metadata": 7}"#, r#"{"metadata": {"name": 7}}"#, r#"{"metadata": {}"#] {
        assert!(serde_json::from_str::<Compact<Pod>>(json).is_err(), "{json}");
    }
    let hush = serde_json::from_str::<Compact<Pod>>(r#"{"metadata": {"labels": "hush"}}"#).unwrap_err();
    assert!(!DecodeError::from(hush).to_string().contains("hush"));
    assert!(Compact::new(&Unnamed(ObjectMeta::default())).is_err());
}

static COUNTED: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Counted;

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PartialObject::deserialize(deserializer)?;
        COUNTED.fetch_add(1, Ordering::Relaxed);
        Ok(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNTED.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn decoded_objects_are_shared_while_recent() {
    let counted =
        |n| -> Compact<Counted> { serde_json::from_value(json!({"metadata": {"name": format!("a-{n}")}})).unwrap() };
    // A second object keeps the compression dictionary of the type in memory.
    let _another = counted(1_000);
    let first = counted(0);
    let decoded = first.get().unwrap();
    assert!(Arc::ptr_eq(&decoded, &first.get().unwrap()));
    drop(first);
    assert_eq!(Arc::strong_count(&decoded), 1, "there is another reference");
    drop(decoded);
    assert_eq!(COUNTED.load(Ordering::Relaxed), 0);

    let many: Vec<_> = (0..1000).map(counted).collect();
    many.iter().for_each(|one| drop(one.get().unwrap()));
    let kept = COUNTED.load(Ordering::Relaxed);
    assert!((1..=17).contains(&kept), "{kept} are kept");
    drop(many);
    assert_eq!(COUNTED.load(Ordering::Relaxed), 0);
}

#[test]
fn panicking_drop_does_not_affect_other_objects() {
    struct Bad(bool);
    impl<'de> Deserialize<'de> for Bad {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(Self(PartialObject::deserialize(deserializer)?.metadata.name == "bad"))
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(!self.0, "wanted");
        }
    }
    let read = |name| -> Compact<Bad> { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    let (bad, good) = (read("bad"), read("good"));
    bad.get().map(drop).unwrap();
    assert!(catch_unwind(move || drop(bad)).is_err());
    assert!(!good.get().unwrap().0);
}

#[test]
fn concurrent_threads_compress_and_read() {
    let object = |thread: usize, n: usize| {
        let kind = ["Pod", "Node", "Lease"][n % 3];
        let items: Vec<_> =
            (0..40).map(|i| format!("{kind} {i} differs from the previous one only in {}", n / 50)).collect();
        json!({"kind": kind, "metadata": {"name": format!("a-{thread}-{n}"), "labels": {"n": (n / 20).to_string()}}, "items": items})
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let all: Vec<Compact<DynamicObject>> =
                    (0..200).map(|n| serde_json::from_value(object(thread, n)).unwrap()).collect();
                for (n, one) in all.iter().enumerate() {
                    let expected: DynamicObject = serde_json::from_value(object(thread, n)).unwrap();
                    assert_eq!(*one.get().unwrap(), expected);
                    assert_eq!(one.metadata().labels(), &expected.metadata.labels);
                }
            });
        }
    });
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9a-f]{30,40}".prop_map(Value::from),
        Just(Value::from("as before, as before, as before")),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map("[a-zA-Z]{1,9}", inner, 0..6).prop_map(|map| Value::from(Map::from_iter(map))),
        ]
    })
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    let texts = || btree_map("[a-z./]{1,12}", ".{0,12}", 0..4);
    ("[a-z]{1,9}", "[a-z]{0,9}", texts(), texts(), any::<i64>()).prop_map(
        |(name, namespace, labels, annotations, generation)| ObjectMeta {
            labels,
            annotations,
            generation,
            ..ObjectMeta::new(namespace, name)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compact_object_equals_its_json(objects in vec((metadata(), btree_map("[a-z]{3,9}", value(), 0..6)), 1..8)) {
        for (metadata, members) in objects {
            let mut object: BTreeMap<_, _> = members;
            object.insert("metadata".into(), serde_json::to_value(&metadata).unwrap());
            let json = serde_json::to_string(&object).unwrap();
            let one: Compact<DynamicObject> = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&*one.get().unwrap(), &serde_json::from_str(&json).unwrap());
            prop_assert_eq!(serde_json::to_string(&one).unwrap(), json);
            prop_assert_eq!(one.key(), ObjectKey::new(&metadata.namespace, &metadata.name));
            prop_assert_eq!(one.metadata().generation(), metadata.generation);
            prop_assert_eq!(one.metadata().labels(), &metadata.labels);
            prop_assert_eq!(one.metadata().annotations(), &metadata.annotations);
        }
    }
}
