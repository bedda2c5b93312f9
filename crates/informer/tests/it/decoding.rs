//! Tests which objects are decoded, on which thread, how often, and without which fields.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pintle_informer::{InformerConfig, Namespaces, Projection, ReflectorConfig, ResourceEvent, SharedInformer};
use pintle_meta::{
    ApiResource, Bookmark, FieldSelector, LabelSelector, ObjectKey, ObjectMeta, PartialObject, Resource, Scope,
    WatchEvent,
};
use pintle_testing::{Break, Collection, CollectionConfig};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::log::Log;
use crate::support::scripted::{Items, Scripted, list, raw, silence};
use crate::support::settle;

#[derive(Deserialize)]
struct Told {
    metadata: ObjectMeta,
    #[serde(rename = "number", deserialize_with = "received")]
    number: usize,
}

pintle_meta::resource!(Told, "v1", "Pod", "pods", Namespaced);

static DECODED: Mutex<Vec<(ThreadId, usize)>> = Mutex::new(Vec::new());

fn received<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = usize::deserialize(deserializer)?;
    DECODED.lock().unwrap().push((thread::current().id(), number));
    Ok(number)
}

/// Each test uses its own range of object numbers, because all tests share the list of decoded
/// objects.
fn decoded_from(first: usize) -> Vec<(ThreadId, usize)> {
    let decoded = DECODED.lock().unwrap();
    decoded.iter().filter(|(_, number)| (first..first + 100_000).contains(number)).copied().collect()
}

fn object(number: usize, version: usize, size: usize) -> Value {
    let name = format!("pod-{number:06}");
    json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{number}"), "resourceVersion": version.to_string()},
        "number": number,
        "padding": "x".repeat(size),
    })
}

fn source(objects: Vec<Value>) -> Scripted<Told> {
    let listed = objects.clone();
    let events = move || {
        let added = objects.iter().map(|object| WatchEvent::Added(raw(object))).collect::<Vec<_>>();
        let end = Bookmark { resource_version: "7".into(), initial_events_end: true };
        Box::new(added.into_iter().chain([WatchEvent::Bookmark(end)])) as Items<_>
    };
    Scripted::of(
        Told::api_resource(),
        Some("ns"),
        move || Ok(list(&listed, "7")),
        move |options| if options.send_initial_events { Ok(events()) } else { Ok(silence()) },
    )
}

fn config<T>(streaming_list: bool) -> InformerConfig<T> {
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    InformerConfig { reflector, ..InformerConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn large_list_is_decoded_in_order_off_the_runtime() {
    for (first, streaming_list) in [(100_000, false), (200_000, true)] {
        let runtime = thread::current().id();
        let objects = (first..first + 1_500).map(|number| object(number, 7, 1_000)).collect();
        let informer = SharedInformer::new(source(objects), config(streaming_list));
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let decoded = decoded_from(first);
        let here = decoded.iter().filter(|(thread, _)| *thread == runtime).count();
        assert_eq!(decoded.len(), 1_500);
        // The informer may decode up to 32 KiB of the last objects on the runtime's thread.
        assert!(here * 1_000 <= 32 << 10, "{here} objects were decoded on the runtime's thread");
        settle().await;
        let received = std::iter::from_fn(|| events.try_next()).map(|event| match event {
            ResourceEvent::Added { object, is_initial: true } => object.number,
            event => panic!("{:?}", event.key()),
        });
        assert_eq!(received.collect::<Vec<_>>(), (first..first + 1_500).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn single_event_is_decoded_at_once() {
    let objects = vec![object(300_000, 7, 10)];
    let informer = SharedInformer::new(source(objects), config(true));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(decoded_from(300_000), [(thread::current().id(), 300_000)]);
}

#[tokio::test(start_paused = true)]
async fn list_reuses_unchanged_cached_objects() {
    for (first, streaming_list) in [(400_000, false), (500_000, true)] {
        let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
        let source = Collection::<Told>::dynamic(resource, CollectionConfig::default());
        let put = |number: usize| source.put_raw(object(number, 0, 0));
        (first..first + 10).for_each(put);
        let transformed = Arc::new(AtomicUsize::new(0));
        let counted = transformed.clone();
        let transform = move |received: &mut Told| {
            counted.fetch_add(1, Ordering::Relaxed);
            received.number += 1_000_000;
        };
        let config = InformerConfig { transform: Some(Arc::new(transform)), ..config(streaming_list) };
        let informer = SharedInformer::new(source.clone(), config);
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let before = informer.lister().list();
        assert_eq!((decoded_from(first).len(), transformed.load(Ordering::Relaxed)), (10, 10));

        source.break_watches(Break::Silent);
        put(first + 3);
        source.remove(&ObjectKey::new("ns", &format!("pod-{:06}", first + 4)));
        put(first + 10);
        source.compact();
        source.break_watches(Break::expired());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let decoded: Vec<usize> = decoded_from(first)[10..].iter().map(|(_, number)| *number).collect();
        assert_eq!(BTreeSet::from_iter(decoded.clone()), BTreeSet::from([first + 3, first + 10]), "{streaming_list}");
        assert_eq!((decoded.len(), transformed.load(Ordering::Relaxed)), (2, 12));
        let after = informer.lister().list();
        assert!(after.len() == 10 && after.iter().all(|received| (1_000_000..2_000_000).contains(&received.number)));
        let same = after.iter().filter(|pod| before.iter().any(|before| Arc::ptr_eq(&before, pod))).count();
        assert_eq!(same, 8);
    }
}

#[tokio::test(start_paused = true)]
async fn object_without_matching_uid_and_version_is_decoded() {
    let known = json!({"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1"});
    for (number, (first, second)) in [
        (json!({"namespace": "ns", "name": "a"}), json!({"namespace": "ns", "name": "a"})),
        (json!({"namespace": "ns", "name": "a", "uid": "u"}), json!({"namespace": "ns", "name": "a", "uid": "u"})),
        (known.clone(), json!({"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "2"})),
        (known.clone(), json!({"namespace": "ns", "name": "a", "uid": "v", "resourceVersion": "1"})),
        (known.clone(), json!({"namespace": "ns", "name": "b", "uid": "u", "resourceVersion": "1"})),
    ]
    .into_iter()
    .enumerate()
    {
        let number = 600_000 + 10 * number;
        let [first, second] = [first, second].map(|metadata| json!({"metadata": metadata, "number": number}));
        let lists = AtomicUsize::new(0);
        let source = Scripted::<Told>::of(
            Told::api_resource(),
            Some("ns"),
            move || match lists.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(list(std::slice::from_ref(&first), "7")),
                _ => Ok(list(std::slice::from_ref(&second), "8")),
            },
            |options| match options.resource_version.as_str() {
                "7" => Err(crate::support::expired()),
                _ => Ok(silence()),
            },
        );
        let informer = SharedInformer::new(source, InformerConfig::default());
        informer.start();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(informer.state().is_synced());
        let decoded = decoded_from(number);
        assert_eq!(decoded.iter().filter(|(_, decoded)| *decoded == number).count(), 2, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn default_projection_drops_only_managed_fields() {
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"});
    let metadata =
        json!({"namespace": "ns", "name": "a", "managedFields": [{"manager": "m"}], "annotations": annotations});
    let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "env": []}]}});
    let without_env = Projection::default().without(&["spec", "containers", "env"]);
    for (projection, expected) in [
        (Projection::default(), [false, true, true]),
        (Projection::whole(), [true, true, true]),
        (Projection::whole().without(Projection::LAST_APPLIED), [true, false, true]),
        (without_env, [false, true, false]),
    ] {
        for streaming_list in [false, true] {
            let (listed, initial) = (pod.clone(), pod.clone());
            let source = Scripted::<Whole>::of(
                Whole::api_resource(),
                Some("ns"),
                move || Ok(list(std::slice::from_ref(&listed), "7")),
                move |options| {
                    if options.send_initial_events {
                        Ok(Box::new(
                            [
                                WatchEvent::Added(raw(&initial)),
                                WatchEvent::Bookmark(Bookmark {
                                    resource_version: "7".into(),
                                    initial_events_end: true,
                                }),
                            ]
                            .into_iter(),
                        ))
                    } else {
                        Ok(silence())
                    }
                },
            );
            let config = InformerConfig { projection: projection.clone(), ..config(streaming_list) };
            let informer = SharedInformer::new(source, config);
            informer.start();
            informer.wait_for_sync().await.unwrap();
            let Whole { object, .. } = &*informer.lister().get(&ObjectKey::new("ns", "a")).unwrap();
            let managed = object["metadata"].get("managedFields").is_some();
            let annotations = &object["metadata"]["annotations"];
            let applied = annotations.get("kubectl.kubernetes.io/last-applied-configuration").is_some();
            let env = object["spec"]["containers"][0].get("env").is_some();
            assert_eq!([managed, applied, env], expected, "{projection:?}");
            assert_eq!((&annotations["note"], &object["spec"]["containers"][0]["name"]), (&json!("x"), &json!("c")));
        }
    }
}

struct Whole {
    metadata: ObjectMeta,
    object: Value,
}

pintle_meta::resource!(Whole, "v1", "Pod", "pods", Namespaced);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let metadata = ObjectMeta::deserialize(&object["metadata"]).map_err(serde::de::Error::custom)?;
        Ok(Self { metadata, object })
    }
}

#[test]
fn projection_of_needed_fields_panics() {
    let fields = ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "finalizers"];
    let needed = fields.map(|field| vec!["metadata", field]);
    for path in [vec![], vec!["metadata"]].iter().chain(&needed) {
        assert!(std::panic::catch_unwind(|| Projection::whole().without(path)).is_err(), "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unrestricted_secret_informer_logs_one_warning() {
    let warnings = |namespace, plural: &str, projection: Projection, selector: &str| {
        let (log, _here) = Log::here();
        let resource = ApiResource::new("v1", "Secret", plural, Scope::Namespaced);
        let source = Scripted::<PartialObject>::of(resource, namespace, || Ok(list(&[], "1")), |_| Ok(silence()));
        let reflector = ReflectorConfig { label_selector: selector.parse().unwrap(), ..ReflectorConfig::default() };
        let informer =
            SharedInformer::new(source, InformerConfig { projection, reflector, ..InformerConfig::default() });
        informer.start();
        log.count("all Secrets of the cluster")
    };
    assert_eq!(warnings(None, "secrets", Projection::default(), ""), 1);
    assert_eq!(warnings(Some("ns"), "secrets", Projection::default(), ""), 0);
    assert_eq!(warnings(None, "configmaps", Projection::default(), ""), 0);
    assert_eq!(warnings(None, "secrets", Projection::default().without(&["data"]), ""), 0);
    assert_eq!(warnings(None, "secrets", Projection::default(), "a=b"), 0);
}

#[tokio::test(start_paused = true)]
async fn change_to_all_secrets_logs_a_warning() {
    let (log, _here) = Log::here();
    let source = |namespace: Option<&str>| {
        let resource = ApiResource::new("v1", "Secret", "secrets", Scope::Namespaced);
        let namespace = namespace.map(|_| "a");
        Scripted::<PartialObject>::of(resource, namespace, || Ok(list(&[], "1")), |_| Ok(silence()))
    };
    let namespaces = Namespaces::new(["a"]);
    let informer = SharedInformer::of_namespaces(&namespaces, source, InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer.set_selectors("a=b".parse().unwrap(), FieldSelector::everything()).unwrap();
    assert_eq!(log.count("all Secrets of the cluster"), 0);
    namespaces.set_all();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(log.count("all Secrets of the cluster"), 0, "they are selected");
    informer.set_selectors(LabelSelector::everything(), FieldSelector::everything()).unwrap();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(log.count("all Secrets of the cluster"), 1);
    namespaces.set(["a"]);
    informer.wait_for_sync().await.unwrap();
    namespaces.set_all();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(log.count("all Secrets of the cluster"), 2);
}

#[tokio::test(start_paused = true)]
async fn small_lists_are_decoded_at_once_larger_ones_offloaded() {
    let [short, long] = [String::new(), "x".repeat(5000)];
    // Up to 15 objects are decoded on the runtime's thread: the limit is 16 items, including the
    // metadata of the list.
    let cases = [(2_000_000, 15, &short, true), (2_100_000, 16, &short, false), (2_200_000, 15, &long, false)];
    for (first, many, text, is_here) in cases {
        let object = |number: usize| json!({"metadata": {"name": number.to_string()}, "number": number, "text": text});
        let objects: Vec<Value> = (first..first + many).map(object).collect();
        let answer = move || Ok(list(&objects, "1"));
        let source = Scripted::<Told>::of(Told::api_resource(), None, answer, |_| Ok(silence()));
        let informer = SharedInformer::new(source, InformerConfig::default());
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let (decoded, here) = (decoded_from(first), thread::current().id());
        assert_eq!((decoded.len(), decoded.iter().all(|(thread, _)| *thread == here)), (many, is_here));
    }
}
