//! Tests that causes and reports contain the field managers of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_events::Event;
use pintle_meta::{ListOptions, Patch, WriteOptions};
use pintle_operator::{Action, Context, Controller};
use serde_json::{Value, json};

use crate::http::{get, listen};
use crate::support::{ConfigMap, Running, Website, World, eventually, publish, soon};

fn options(manager: &str) -> WriteOptions {
    WriteOptions { field_manager: manager.into(), ..WriteOptions::default() }
}

/// Changes a field of the child directly, without the context.
async fn set(world: &World, manager: &str, field: &str, value: &str) {
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let patch = Patch::Merge(json!({"data": {field: value}}));
    maps.patch("blog", &patch, &options(manager)).await.unwrap();
}

async fn contention(world: &World) -> Option<String> {
    let events = world.cluster.namespaced::<Event>("default").list(&ListOptions::default()).await.unwrap();
    events.items.into_iter().find(|event| event.reason == "FieldContention").map(|event| event.message)
}

#[tokio::test]
async fn explanation_names_the_field_managers() {
    let world = World::with_site("blog").await;
    let (listener, address) = listen().await;
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().serve_on(listener).controller(controller));
    eventually("the child", async || world.child("blog").await.ok()).await;
    let patch = Patch::Merge(json!({"spec": {"domain": "new.example.com"}}));
    world.cluster.namespaced::<Website>("default").patch("blog", &patch, &options("kubectl-edit")).await.unwrap();
    for expected in [
        "listed default/blog in Website (resourceVersion ",
        "added by website-controller (Apply): default/blog in ConfigMap (resourceVersion ",
        "updated by kubectl-edit (Update): default/blog in Website (resourceVersion ",
    ] {
        eventually(expected, async || {
            let (_, body) = get(address, "/debug.json?controller=website&key=default/blog").await?;
            let json: Value = serde_json::from_str(&body).ok()?;
            let mut causes = json["explanation"]["causes"].as_array()?.iter();
            causes.find(|cause| cause["text"].as_str().is_some_and(|text| text.starts_with(expected)))?;
            Some(())
        })
        .await;
    }
    running.stop().await.unwrap();
}

/// The context cannot detect conflicts between writers, because the reconciler sends its requests without it.
#[tokio::test]
async fn writers_that_undo_each_other_are_named_without_applies() {
    let world = Arc::new(World::with_site("blog").await);
    set_up_child(&world).await;
    let writer = world.clone();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let world = writer.clone();
        async move {
            let child = cx.get_live::<ConfigMap>("blog").await?;
            if child.is_some_and(|child| child.data["domain"] != "ours") {
                set(&world, cx.field_manager(), "domain", "ours").await;
            }
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    let message = eventually("the event", async || {
        if world.child("blog").await.unwrap().data["domain"] == "ours" {
            set(&world, "other-operator", "domain", "theirs").await;
        }
        contention(&world).await
    });
    let message = message.await;
    let expected = "website-controller and other-operator both write .data.domain of ConfigMap default/blog: ";
    assert!(message.starts_with(expected), "{message}");
    let count = message.strip_prefix(expected).unwrap().split(' ').next().unwrap();
    assert!(count.parse::<usize>().unwrap() >= 5, "{message}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn writers_of_different_fields_are_not_reported() {
    let world = Arc::new(World::with_site("blog").await);
    set_up_child(&world).await;
    let reads = world.count(RequestVerb::Get, "configmaps", "");
    let answers = Arc::new(AtomicUsize::new(0));
    let (writer, counter) = (world.clone(), answers.clone());
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let (world, answers) = (writer.clone(), counter.clone());
        async move {
            let Some(child) = cx.get::<ConfigMap>("blog")? else { return Ok(Action::await_change()) };
            let domain = &child.data["domain"];
            if child.data.get("answer") != Some(domain) {
                set(&world, cx.field_manager(), "answer", domain).await;
                answers.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    for turn in 0..20 {
        // `managedFields` distinguishes only writes in different seconds.
        world.cluster.server().unwrap().set_clock_ahead(Duration::from_secs(turn as u64));
        set(&world, "other-operator", "domain", &format!("{turn}.example.com")).await;
        eventually("the answer", async || (answers.load(Ordering::SeqCst) > turn).then_some(())).await;
    }
    soon(running.stop()).await.unwrap();
    assert_eq!(contention(&world).await, None);
    let reads = world.counted(reads);
    assert!((2..=6).contains(&reads), "{reads} reads in at most three checks");
}

/// Creates the child with the website as its owner and with a field of another writer.
async fn set_up_child(world: &World) {
    let site = world.site("blog").await;
    let metadata = json!({"name": "blog", "namespace": "default", "ownerReferences": [{
        "apiVersion": "example.com/v1", "kind": "Website", "name": "blog", "uid": site.metadata.uid, "controller": true,
    }]});
    let child: ConfigMap = serde_json::from_value(json!({"metadata": metadata, "data": {"domain": "new"}})).unwrap();
    world.cluster.namespaced::<ConfigMap>("default").create(&child, &options("installer")).await.unwrap();
}
