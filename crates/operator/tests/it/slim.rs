//! Tests of types whose metadata lacks the finalizers.

use std::sync::Arc;

use pintle_controller::{Cleanup, Trigger};
use pintle_meta::{DeleteOptions, ObjectKey, OwnerReference, Patch, PropagationPolicy, WriteOptions};
use pintle_operator::{Action, Context, Controller, ControllerBuilder};
use pintle_testing::SlimMetadata;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{ConfigMap, Running, Website, World, eventually, map, soon};

#[derive(Clone, Debug, Deserialize, Serialize)]
struct SlimWebsite {
    metadata: SlimMetadata,
}
pintle_meta::resource!(SlimWebsite, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct SlimMap {
    metadata: SlimMetadata,
}
pintle_meta::resource!(SlimMap, "v1", "ConfigMap", "configmaps", Namespaced);

/// Runs `builder` with a cleanup until it has reported an error for `blog`. Returns the error.
async fn error_of(world: &World, builder: ControllerBuilder<SlimWebsite>) -> String {
    let trigger = Trigger::new();
    let controller = builder
        .source(trigger.clone())
        .cleanup("example.com/dns", async |_: Arc<SlimWebsite>, _: Context<SlimWebsite>| Ok(Cleanup::Done))
        .reconcile(async |_: Arc<SlimWebsite>, _: Context<SlimWebsite>| Ok(Action::await_change()));
    let manager = world.manager().controller(controller);
    let status = manager.status();
    let running = Running::start(manager);
    // A controller with a selector receives no event for the object.
    trigger.trigger(ObjectKey::new("default", "blog"));
    let failing = async || status.controller("website")?.most_failing(1).pop();
    let failing = eventually("the reconciliation fails", failing).await.to_string();
    running.stop().await.unwrap();
    failing
}

#[tokio::test]
async fn cleanup_of_a_type_without_finalizers_is_an_error() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let other = Patch::Merge(json!({"metadata": {"finalizers": ["other.example/data", "example.com/dns"]}}));
    sites.patch("blog", &other, &WriteOptions::default()).await.unwrap();
    let error = error_of(&world, Controller::new()).await;
    assert!(error.contains("`Metadata::supports_finalizers`"), "{error}");
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    // With a selector, the controller reads the object from the server.
    let error = error_of(&world, Controller::new().labels("team=a".parse().unwrap())).await;
    assert!(error.contains("`Metadata::supports_finalizers`"), "{error}");
    assert_eq!(world.site("blog").await.metadata.finalizers, ["other.example/data", "example.com/dns"]);
}

#[tokio::test]
async fn deletion_keeps_the_policy_of_an_earlier_deletion() {
    let world = World::with_site("blog").await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let mut child = map("child", "a", "b");
    child.metadata.finalizers.push("example.com/keep".into());
    let child = maps.create(&child, &WriteOptions::default()).await.unwrap();
    // The foreground deletion of the child waits for this dependent.
    let mut dependent = map("dependent", "a", "b");
    dependent.metadata.finalizers.push("example.com/keep".into());
    dependent.metadata.owner_references.push(OwnerReference::controller_of(&child));
    maps.create(&dependent, &WriteOptions::default()).await.unwrap();
    let foreground =
        DeleteOptions { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteOptions::default() };
    maps.delete("child", &foreground).await.unwrap();
    let (sent, mut results) = unbounded_channel();
    let controller =
        Controller::<Website>::new().reads::<SlimMap>().reconcile(move |_: Arc<Website>, cx: Context<Website>| {
            let sent = sent.clone();
            async move {
                let child = cx.get::<SlimMap>("child")?.ok_or("the child is missing")?;
                sent.send(cx.delete(&child).await)?;
                Ok(Action::await_change())
            }
        });
    let before = world.child("child").await.unwrap().metadata.finalizers;
    let running = Running::start(world.manager().controller(controller));
    soon(results.recv()).await.unwrap().unwrap();
    running.stop().await.unwrap();
    assert_eq!(world.child("child").await.unwrap().metadata.finalizers, before);
    assert!(before.contains(&"foregroundDeletion".to_owned()), "{before:?}");
}
