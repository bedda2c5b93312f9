//! Tests that undecodable objects are reported, and do not affect other objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer, Subscription};
use pintle_meta::{ListPart, WatchEvent};
use pintle_testing::{Break, Collection};
use serde_json::{Value, json};

use crate::support::scripted::{Items, Scripted, list, raw, silence};
use crate::support::{Pod, drain, drain_sorted, expired, key, settle};

fn listing(pods: &[(&str, &str, Value)]) -> Collection<Pod> {
    let source = Collection::default();
    pods.iter().for_each(|(name, uid, node)| put(&source, name, uid, node.clone()));
    (source.revision()..7).for_each(|_| source.advance());
    source
}

/// Stores a pod. A pod whose `node` is a number cannot be decoded.
fn put(source: &Collection<Pod>, name: &str, uid: &str, node: impl Into<Value>) {
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": name, "uid": uid}, "node": node.into()}));
}

async fn expire(source: &Collection<Pod>) {
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(5)).await;
}

async fn start(source: &Collection<Pod>, streaming_list: bool) -> (SharedInformer<Pod>, Subscription<Pod>) {
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    let informer = SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
    let events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    (informer, events)
}

fn shown(informer: &SharedInformer<Pod>) -> Vec<String> {
    let entries = informer.lister().undecodable();
    assert!(entries.iter().all(|entry| entry.error.contains("expected a string")), "{entries:?}");
    entries.iter().map(|entry| format!("{}@{}", entry.key, entry.resource_version)).collect()
}

fn node(informer: &SharedInformer<Pod>, name: &str) -> Option<String> {
    informer.lister().get(&key(name)).map(|pod| pod.node.clone())
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_in_the_first_list_is_reported() {
    for streaming_list in [false, true] {
        let source = listing(&[("a", "1", "x".into()), ("b", "2", 7.into()), ("c", "3", "x".into())]);
        let (informer, mut events) = start(&source, streaming_list).await;
        assert!(informer.state().is_synced(), "{:?}", informer.state());
        assert_eq!(drain_sorted(&mut events).await, ["A! a@1", "A! c@3"]);
        assert_eq!(shown(&informer), ["ns/b@2"]);

        put(&source, "b", "2", "x");
        assert_eq!(drain(&mut events).await, ["A b@8"], "fixed");
        assert!(shown(&informer).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_keeps_its_last_good_state() {
    let source = listing(&[("a", "1", "x".into())]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    put(&source, "a", "1", 7);
    put(&source, "b", "2", "y");
    assert_eq!(drain(&mut events).await, ["A b@9"], "no deletion is delivered");
    assert_eq!((node(&informer, "a").unwrap().as_str(), shown(&informer)), ("x", vec!["ns/a@8".into()]));

    expire(&source).await;
    assert!(drain(&mut events).await.is_empty(), "also not after a list");
    assert_eq!((node(&informer, "a").unwrap().as_str(), shown(&informer)), ("x", vec!["ns/a@8".into()]));

    put(&source, "a", "1", "z");
    assert_eq!(drain(&mut events).await, ["U a@1..10"]);
    assert!(shown(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleted_undecodable_object_disappears() {
    let source = listing(&[("a", "1", "x".into()), ("b", "2", 7.into())]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    put(&source, "a", "1", 7);
    source.remove(&key("a"));
    source.remove(&key("b"));
    assert_eq!(drain(&mut events).await, ["D? a@1"], "the last state is unknown");
    assert!(shown(&informer).is_empty() && informer.lister().is_empty());

    put(&source, "c", "3", 7);
    settle().await;
    assert_eq!(shown(&informer), ["ns/c@11"]);
    source.break_watches(Break::Silent);
    source.remove(&key("c"));
    expire(&source).await;
    assert!(shown(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn recreated_undecodable_object_deletes_the_old_one() {
    let source = listing(&[("a", "1", "x".into())]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    put(&source, "a", "other", 7);
    assert_eq!(drain(&mut events).await, ["D? a@1"]);
    assert_eq!((node(&informer, "a"), shown(&informer)), (None, vec!["ns/a@8".into()]));

    put(&source, "b", "2", "y");
    drain(&mut events).await;
    source.break_watches(Break::Silent);
    put(&source, "b", "other", 7);
    source.remove(&key("a"));
    expire(&source).await;
    assert_eq!(drain(&mut events).await, ["D? b@9"], "also after a list");
    assert_eq!(shown(&informer), ["ns/b@10"]);
}

#[tokio::test(start_paused = true)]
async fn list_without_metadata_is_rejected() {
    let pod = raw(&json!({"metadata": {"namespace": "ns", "name": "a", "uid": "1"}, "node": "x"}));
    let half = Scripted::new(move || Ok(Box::new([ListPart::Item(pod.clone())].into_iter())), || Ok(silence()));
    let informer = SharedInformer::new(half, InformerConfig::default());
    informer.start();
    settle().await;
    assert!(!informer.has_synced() && informer.lister().is_empty());
    let error = informer.state().cause().unwrap().to_string();
    assert!(
        error
            .ends_with("GET /api/v1/namespaces/ns/pods: cannot read the response: the list ended without its metadata"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn list_with_a_nameless_object_is_ignored() {
    let corrupt = AtomicBool::new(false);
    let list = move || {
        if corrupt.swap(true, Ordering::Relaxed) {
            Ok(list(&[json!({"metadata": {"name": 7}})], "7"))
        } else {
            Ok(list(&[json!({"metadata": {"namespace": "ns", "name": "a"}, "node": "x"})], "7"))
        }
    };
    let informer = SharedInformer::new(Scripted::new(list, || Err(expired())), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(drain(&mut events).await, ["A! a@"], "no deletion is delivered");
    assert!(node(&informer, "a").is_some());
    let error = informer.state().cause().unwrap().to_string();
    assert!(
        error.contains("GET /api/v1/namespaces/ns/pods: cannot read the response: item 0 of the list has no name: "),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn event_of_a_nameless_object_causes_a_relist() {
    let lists = Arc::new(AtomicU32::new(0));
    let listed = lists.clone();
    let pod = json!({"metadata": {"namespace": "ns", "name": "a"}, "node": "x"});
    let list = move || {
        listed.fetch_add(1, Ordering::Relaxed);
        Ok(list(std::slice::from_ref(&pod), "7"))
    };
    let mended = AtomicBool::new(false);
    let watch = move || {
        if mended.swap(true, Ordering::Relaxed) {
            Ok(silence())
        } else {
            Ok(Box::new([WatchEvent::Deleted(raw(&json!({"metadata": {"name": 7}})))].into_iter()) as Items<_>)
        }
    };
    let informer = SharedInformer::new(Scripted::new(list, watch), InformerConfig::default());
    let (mut events, mut states) = (informer.subscribe(), informer.states());
    informer.start();
    let degraded = states.wait_for(|state| state.cause().is_some()).await.unwrap();
    let error = degraded.cause().unwrap();
    let received = "GET /api/v1/namespaces/ns/pods: cannot read the response: the object of an event has no name: ";
    assert!(error.to_string().contains(received), "{error}");
    let request = error.cause().unwrap().request.clone().unwrap();
    assert_eq!((&*request.method, request.path()), ("GET", "/api/v1/namespaces/ns/pods"));
    assert_eq!(lists.load(Ordering::Relaxed), 1);

    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(lists.load(Ordering::Relaxed), 2);
    assert_eq!(drain(&mut events).await, ["A! a@"], "no deletion is delivered");
    assert!(node(&informer, "a").is_some() && informer.state().is_synced());
}
