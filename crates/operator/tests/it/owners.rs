//! Tests of owner references that other programs or the reconciler wrote.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_controller::Trigger;
use pintle_meta::{ObjectKey, ObjectMeta, OwnerReference, Patch, WriteOptions};
use pintle_operator::{Action, Context, Controller};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{ConfigMap, Running, Website, World, eventually, map, soon};

fn owned_by(name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Website".into(),
        name: name.into(),
        uid: "no-such-uid".into(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// The children with impossible owner names are stored before the child of `missing`, and the controller processes one
/// key at a time.
#[tokio::test]
async fn owner_with_an_impossible_name_is_never_reconciled() {
    let world = World::with_site("blog").await;
    let ((called, mut calls), (left, mut gone)) = (unbounded_channel(), unbounded_channel());
    let controller = Controller::<Website>::new()
        .owns::<ConfigMap>()
        .gone(move |key, _| {
            let sent = left.send(key);
            async move { Ok(sent?) }
        })
        .reconcile(move |_: Arc<Website>, _: Context<Website>| {
            let sent = called.send(());
            async move { Ok(sent.map(|()| Action::await_change())?) }
        });
    let manager = world.manager().controller(controller);
    let status = manager.status();
    let running = Running::start(manager);
    soon(calls.recv()).await.unwrap();
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    for (number, owner) in ["a/b", "a%b", "..", "missing"].into_iter().enumerate() {
        let mut child = map(&format!("child-{number}"), "a", "b");
        // The finalizer prevents that the garbage collector deletes the child.
        child.metadata.finalizers.push("example.com/keep".into());
        child.metadata.owner_references.push(owned_by(owner));
        maps.create(&child, &WriteOptions::default()).await.unwrap();
    }
    assert_eq!(soon(gone.recv()).await.unwrap(), ObjectKey::new("default", "missing"));
    let failing = status.controller("website").unwrap().most_failing(10);
    assert!(failing.is_empty(), "{}", failing[0]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn object_with_an_impossible_name_is_gone() {
    let world = World::with_site("blog").await;
    let ((left, mut gone), trigger) = (unbounded_channel(), Trigger::new());
    let controller = Controller::<Website>::new()
        .source(trigger.clone())
        .gone(move |key, _| {
            let sent = left.send(key);
            async move { Ok(sent?) }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let impossible = [ObjectKey::new("default", "a%b"), ObjectKey::new("default", ".."), ObjectKey::new("a/b", "c")];
    for key in impossible {
        trigger.trigger(key.clone());
        assert_eq!(soon(gone.recv()).await.unwrap(), key);
    }
    running.stop().await.unwrap();
}

/// A mapping function has forgotten the namespace of an object that exists.
#[tokio::test]
async fn key_without_the_namespace_is_an_error() {
    let world = World::with_site("blog").await;
    for namespace in [None, Some("default")] {
        let ((left, mut gone), trigger) = (unbounded_channel(), Trigger::new());
        let builder = Controller::<Website>::new();
        let builder = namespace.into_iter().fold(builder, |builder, namespace| builder.namespace(namespace));
        let controller = builder
            .source(trigger.clone())
            .gone(move |key, _| {
                let sent = left.send(key);
                async move { Ok(sent?) }
            })
            .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
        let manager = world.manager().controller(controller);
        let status = manager.status();
        let running = Running::start(manager);
        trigger.trigger(ObjectKey::cluster("blog"));
        let failing = async || status.controller("website")?.most_failing(1).pop();
        let failing = eventually("the reconciliation fails", failing).await.to_string();
        assert!(failing.contains("`ObjectKey::new`"), "{failing}");
        running.stop().await.unwrap();
        assert!(gone.try_recv().is_err(), "`gone` was called");
    }
}

#[tokio::test]
async fn plain_reference_to_the_owner_becomes_a_controller_reference() {
    let world = World::with_site("blog").await;
    let controller =
        Controller::<Website>::new().owns::<ConfigMap>().reconcile(async |_: Arc<Website>, cx: Context<Website>| {
            let mut child = map("blog", "a", "b");
            let owner = cx.owner_reference().unwrap();
            let plain = OwnerReference { controller: None, block_owner_deletion: None, ..owner };
            child.metadata.owner_references.push(plain);
            cx.apply(child).await?;
            Ok(Action::await_change())
        });
    let running = Running::start(world.manager().controller(controller));
    let child = eventually("the child exists", async || world.child("blog").await.ok()).await;
    running.stop().await.unwrap();
    let owner = OwnerReference::controller_of(&world.site("blog").await);
    assert_eq!(child.metadata.owner_references, [owner]);
}

/// A ConfigMap that counts in [`DECODED`] how often it is decoded.
#[derive(Clone, Debug, Serialize)]
struct CountedMap {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
    /// Makes the type so large that its objects are decoded when they are read.
    #[serde(skip)]
    _padding: [u64; 128],
}
pintle_meta::resource!(CountedMap, "v1", "ConfigMap", "configmaps", Namespaced);

static DECODED: AtomicUsize = AtomicUsize::new(0);

impl<'de> Deserialize<'de> for CountedMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        let ConfigMap { metadata, data } = ConfigMap::deserialize(deserializer)?;
        Ok(Self { metadata, data, _padding: [0; 128] })
    }
}

/// If the test is slow, the informer may be idle for a second. An idle informer decodes the child once to check it.
#[tokio::test]
async fn large_child_is_not_decoded_at_each_change() {
    const CHANGES: usize = 20;
    let world = World::with_site("blog").await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let mut child = map("child", "text", "x");
    child.metadata.owner_references.push(OwnerReference::controller_of(&world.site("blog").await));
    maps.create(&child, &WriteOptions::default()).await.unwrap();
    let (called, mut calls) = unbounded_channel();
    let controller =
        Controller::<Website>::new().owns::<CountedMap>().reconcile(move |_: Arc<Website>, _: Context<Website>| {
            let sent = called.send(());
            async move { Ok(sent.map(|()| Action::await_change())?) }
        });
    let running = Running::start(world.manager().controller(controller));
    soon(calls.recv()).await.unwrap();
    let decoded = DECODED.load(Ordering::Relaxed);
    for number in 0..CHANGES {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("child", &patch, &WriteOptions::default()).await.unwrap();
        soon(calls.recv()).await.unwrap();
    }
    running.stop().await.unwrap();
    let decoded = DECODED.load(Ordering::Relaxed) - decoded;
    assert!(decoded < CHANGES / 2, "{decoded} decoded objects for {CHANGES} changes");
}
