//! Tests of applies. The context must only send requests that would change something.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_controller::predicate::ResourceVersionChanged;
use pintle_events::Event;
use pintle_meta::{
    ApiResource, DeleteOptions, DynamicObject, ListOptions, ObjectMeta, OwnerReference, Patch, Scope, WriteOptions,
};
use pintle_operator::{Action, Context, Controller, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{ConfigMap, Running, Website, World, eventually, map, publish, soon};

#[tokio::test]
async fn unchanged_applies_send_no_request() {
    let world = World::with_site("blog").await;
    let applies = world.count(RequestVerb::Patch, "configmaps", "");
    let statuses = world.count(RequestVerb::Patch, "websites", "status");
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let called = called.clone();
        async move {
            let version = site.metadata.resource_version.clone();
            let result = publish(site, cx).await;
            called.send(version).unwrap();
            result
        }
    };
    // Each change causes a reconciliation, including the controller's writes of the status.
    let controller = Controller::<Website>::new().owns::<ConfigMap>().when(ResourceVersionChanged).reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    for value in ["1", "2", "3"] {
        let version = world.annotate("blog", value).await.metadata.resource_version;
        soon(async { while calls.recv().await.unwrap() != version {} }).await;
    }
    assert_eq!((world.counted(applies), world.counted(statuses)), (1, 1));
    running.stop().await.unwrap();
}

/// The controller must forget deleted children, but remember existing children.
#[tokio::test]
async fn many_unchanged_children_are_applied_once() {
    const CHILDREN: u64 = 100;
    let world = World::with_site("blog").await;
    let applies = world.count(RequestVerb::Patch, "configmaps", "");
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let called = called.clone();
        async move {
            for number in 0..CHILDREN {
                cx.apply(map(&format!("{}-{number}", site.metadata.name), "a", "b")).await?;
            }
            called.send(site.metadata.resource_version.clone()).unwrap();
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    for value in ["1", "2"] {
        let version = world.annotate("blog", value).await.metadata.resource_version;
        soon(async { while calls.recv().await.unwrap() != version {} }).await;
    }
    assert_eq!(world.counted(applies), CHILDREN);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn child_of_a_dynamic_resource_gets_an_owner() {
    let world = World::with_site("blog").await;
    let (applied, mut results) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let applied = applied.clone();
        async move {
            let maps = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
            let namespaces = ApiResource::new("v1", "Namespace", "namespaces", Scope::Cluster);
            let sites = ApiResource::new("example.com/v1", "Website", "websites", Scope::Namespaced);
            let mut child = DynamicObject { metadata: ObjectMeta::new("", "blog"), ..DynamicObject::default() };
            child.data.insert("data".into(), json!({"a": "b", "c": null}));
            for resource in [&maps, &maps, &namespaces, &sites] {
                applied.send(cx.apply_dynamic(resource, &child).await).unwrap();
            }
            Ok(Action::await_change())
        }
    };
    let running = Running::start(world.manager().controller(Controller::<Website>::new().reconcile(reconcile)));
    let site = world.site("blog").await;
    for _ in 0..2 {
        let stored = soon(results.recv()).await.unwrap().unwrap();
        let owner = &stored.metadata.owner_references[0];
        assert_eq!((&stored.metadata.namespace[..], &stored.data["data"]), ("default", &json!({"a": "b"})));
        assert_eq!((&owner.uid, owner.controller), (&site.metadata.uid, Some(true)));
    }
    for expected in ["cannot own Namespace", "cannot own itself"] {
        let refused = soon(results.recv()).await.unwrap().unwrap_err();
        assert!(refused.is_terminal() && refused.to_string().contains(expected), "{refused}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn dynamic_child_of_another_controller_is_not_applied() {
    let world = World::with_site("blog").await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let other = maps.create(&map("other", "a", "b"), &WriteOptions::default()).await.unwrap();
    let mut child = map("blog", "a", "b");
    child.metadata.owner_references.push(OwnerReference::controller_of(&other));
    maps.create(&child, &WriteOptions::default()).await.unwrap();
    let (failed, mut errors) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let failed = failed.clone();
        async move {
            let maps = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
            let child = DynamicObject { metadata: ObjectMeta::new("", "blog"), ..DynamicObject::default() };
            failed.send(cx.apply_dynamic(&maps, &child).await.unwrap_err().to_string()).unwrap();
            Ok(Action::await_change())
        }
    };
    let running = Running::start(world.manager().controller(Controller::<Website>::new().reconcile(reconcile)));
    let error = soon(errors.recv()).await.unwrap();
    assert!(error.contains("controls it"), "{error}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn foreign_change_of_an_applied_field_is_reverted() {
    let world = World::with_site("blog").await;
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().controller(controller));
    eventually("the child exists", async || world.child("blog").await.ok()).await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let change = Patch::Merge(json!({"data": {"domain": "stolen", "theirs": "kept"}}));
    maps.patch("blog", &change, &WriteOptions::default()).await.unwrap();
    let reverted = eventually("the field is reverted", async || {
        world.child("blog").await.ok().filter(|map| map.data["domain"] == "blog.example.com")
    })
    .await;
    assert_eq!(reverted.data["theirs"], "kept");

    maps.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the child exists again", async || world.child("blog").await.ok()).await;
    running.stop().await.unwrap();
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Secret {
    metadata: ObjectMeta,
    #[serde(default, rename = "stringData")]
    string_data: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
}
pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);

/// The server converts `stringData` to `data`, so the stored object never contains the applied field.
#[tokio::test]
async fn field_that_the_server_converts_is_restored() {
    let world = World::with_site("blog").await;
    let requests = world.count(RequestVerb::Patch, "secrets", "");
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let called = called.clone();
        async move {
            let (metadata, string_data) =
                (ObjectMeta::new("", "child"), [("password".to_owned(), "x".to_owned())].into());
            let secret = cx.apply(Secret { metadata, string_data, data: Value::Null }).await?;
            called.send((site.metadata.resource_version.clone(), secret.metadata.resource_version.clone())).unwrap();
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().owns::<Secret>().when(ResourceVersionChanged).reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    soon(calls.recv()).await.unwrap();
    let secrets = world.cluster.namespaced::<Secret>("default");
    let patch =
        async |patch: Value| secrets.patch("child", &Patch::Merge(patch), &WriteOptions::default()).await.unwrap();
    for value in ["1", "2"] {
        let noted = patch(json!({"metadata": {"annotations": {"note": value}}})).await.metadata.resource_version;
        soon(async { while calls.recv().await.unwrap().1 != noted {} }).await;
        assert_eq!(secrets.get("child").await.unwrap().metadata.resource_version, noted, "the apply changes nothing");
    }
    for data in [json!({"password": "c3RvbGVu"}), Value::Null] {
        patch(json!({"data": data})).await;
        let restored = async || secrets.get("child").await.ok().filter(|secret| secret.data["password"] == "eA==");
        eventually("the password is restored", restored).await;
    }
    for value in ["1", "2"] {
        let version = world.annotate("blog", value).await.metadata.resource_version;
        soon(async { while calls.recv().await.unwrap().0 != version {} }).await;
    }
    assert_eq!(
        world.counted(requests),
        1 + 4 + 4,
        "the first apply, four patches of the test, and an apply after each"
    );
    running.stop().await.unwrap();
}

/// The second apply omits a field of the first apply, so the server removes this field.
#[tokio::test]
async fn dropped_field_is_removed() {
    let world = World::with_site("blog").await;
    let reconcile = async |site: Arc<Website>, cx: Context<Website>| {
        let key = if site.metadata.annotations.contains_key("test") { "second" } else { "first" };
        cx.apply(map("child", key, "x")).await?;
        Ok(Action::await_change())
    };
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| Box::pin(reconcile(site, cx));
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    eventually("the first apply", async || {
        world.child("child").await.ok().filter(|map| map.data.contains_key("first"))
    })
    .await;
    world.annotate("blog", "x").await;
    let child = eventually("the second apply", async || {
        world.child("child").await.ok().filter(|map| map.data.contains_key("second"))
    })
    .await;
    assert_eq!(child.data.len(), 1, "{:?}", child.data);
    running.stop().await.unwrap();
}

async fn write_step(cx: &Context<Website>, step: &str, is_status: bool) -> Result<()> {
    if is_status {
        let condition = |name: &str| {
            json!({"type": name, "status": "True", "reason": "Published", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let types: &[&str] = if step == "2" { &["Kept", "Extra"] } else { &["Kept"] };
        let conditions: Vec<_> = types.iter().map(|name| condition(name)).collect();
        cx.apply_status(json!({"url": "https://blog", "conditions": conditions})).await?;
    } else {
        let mut child = map("child", "kept", "x");
        if step == "2" {
            child.data.insert("extra".into(), "y".into());
        }
        cx.apply(child).await?;
    }
    Ok(())
}

/// Runs `write_step` for several steps, and loses the responses to the steps 2 and 3.
async fn take_back_an_apply_with_a_lost_answer(is_status: bool) -> World {
    let world = World::with_site("blog").await;
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let called = called.clone();
        async move {
            let step = site.metadata.annotations.get("test").cloned().unwrap_or_default();
            let written = write_step(&cx, &step, is_status).await;
            called.send((step, written.is_ok())).unwrap();
            written?;
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    soon(async { while calls.recv().await.unwrap() != (String::new(), true) {} }).await;
    let (resource, subresource) = if is_status { ("websites", "status") } else { ("configmaps", "") };
    let lost = Rule {
        verb: Some(RequestVerb::Patch),
        resource: Some(resource.into()),
        subresource: Some(subresource.into()),
        times: None,
        ..Rule::new(Fault::LoseAnswer(Answer::new(500)))
    };
    let faults = world.cluster.server().unwrap().faults();
    let lost = faults.add(lost);
    world.annotate("blog", "2").await;
    soon(async { while calls.recv().await.unwrap() != ("2".into(), false) {} }).await;
    world.annotate("blog", "3").await;
    soon(async { while calls.recv().await.unwrap().0 != "3" {} }).await;
    faults.remove(lost);
    world.annotate("blog", "4").await;
    soon(async { while calls.recv().await.unwrap() != ("4".into(), true) {} }).await;
    running.stop().await.unwrap();
    world
}

#[tokio::test]
async fn field_of_an_unanswered_apply_is_removed() {
    let world = take_back_an_apply_with_a_lost_answer(false).await;
    let child = world.child("child").await.unwrap();
    assert_eq!(child.data.keys().collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test]
async fn condition_of_an_unanswered_apply_is_removed() {
    let world = take_back_an_apply_with_a_lost_answer(true).await;
    let status = world.site("blog").await.status.unwrap();
    let types: Vec<_> = status.conditions.0.iter().map(|condition| &condition.condition_type).collect();
    assert_eq!(types, ["Kept"]);
}

#[tokio::test]
async fn restart_applies_each_child_once() {
    let world = World::with_site("blog").await;
    let applies = world.count(RequestVerb::Patch, "configmaps", "");
    for expected in [1, 2] {
        let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
        let running = Running::start(world.manager().controller(controller));
        eventually("an apply", async || (world.counted(applies) == expected).then_some(())).await;
        running.stop().await.unwrap();
    }
    let child = world.child("blog").await.unwrap();
    assert_eq!(child.metadata.owner_references.len(), 1);
}

#[tokio::test]
async fn writers_that_undo_each_other_are_named() {
    let world = World::with_site("blog").await;
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().controller(controller));
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let options = WriteOptions { field_manager: "other-operator".into(), ..WriteOptions::default() };
    let events = world.cluster.namespaced::<Event>("default");
    let event = eventually("the event", async || {
        if let Ok(map) = maps.get("blog").await
            && map.data["domain"] == "blog.example.com"
        {
            let steal = Patch::Merge(json!({"data": {"domain": "stolen"}}));
            maps.patch("blog", &steal, &options).await.unwrap();
        }
        let events = events.list(&ListOptions::default()).await.unwrap();
        events.items.into_iter().find(|event| event.reason == "FieldContention")
    })
    .await;
    let expected = "website-controller and other-operator both write .data.domain of ConfigMap default/blog: ";
    assert!(event.message.starts_with(expected), "{}", event.message);
    running.stop().await.unwrap();
}
