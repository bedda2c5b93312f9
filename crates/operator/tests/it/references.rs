//! Tests of controllers that reconcile the objects that refer to a changed object.

use std::sync::Arc;

use pintle_meta::{DeleteOptions, ObjectKey, ObjectMeta, Patch, WriteOptions};
use pintle_operator::{Action, Context, Controller, ControllerBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::{ConfigMap, Running, Website, World, map, soon};

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Node {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Node, "v1", "Node", "nodes", Cluster);

/// Runs a controller that sends the name of each reconciled website to the returned receiver.
fn run(world: &World, builder: ControllerBuilder<Website>) -> (Running, UnboundedReceiver<String>) {
    let (sent, reconciled) = unbounded_channel();
    let controller = builder.reconcile(move |site: Arc<Website>, _: Context<Website>| {
        let sent = sent.send(site.metadata.name.clone());
        async move { Ok(sent.map(|()| Action::await_change())?) }
    });
    (Running::start(world.manager().controller(controller)), reconciled)
}

async fn two_sites() -> World {
    let world = World::with_site("blog").await;
    world.create("shop").await;
    world
}

async fn first_reconciliations(reconciled: &mut UnboundedReceiver<String>) {
    let mut names = [soon(reconciled.recv()).await.unwrap(), soon(reconciled.recv()).await.unwrap()];
    names.sort();
    assert_eq!(names, ["blog", "shop"]);
}

#[tokio::test]
async fn changed_object_reconciles_only_the_objects_that_name_it() {
    let world = two_sites().await;
    let (running, mut reconciled) = run(
        &world,
        Controller::<Website>::new().references::<ConfigMap>(|site| Some(format!("settings-of-{}", site.spec.domain))),
    );
    first_reconciliations(&mut reconciled).await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let other = world.cluster.namespaced::<ConfigMap>("kube-system");
    let options = WriteOptions::default();
    let patch = Patch::Merge(json!({"data": {"a": "c"}}));
    // A change of each kind, after an object with the name in another namespace and after an object that no website names.
    other.create(&map("settings-of-shop.example.com", "a", "b"), &options).await.unwrap();
    maps.create(&map("unrelated", "a", "b"), &options).await.unwrap();
    maps.create(&map("settings-of-blog.example.com", "a", "b"), &options).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog");
    maps.patch("settings-of-blog.example.com", &patch, &options).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog");
    maps.delete("settings-of-blog.example.com", &DeleteOptions::default()).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog");
    maps.create(&map("settings-of-shop.example.com", "a", "b"), &options).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "shop");
    running.stop().await.unwrap();
    assert!(reconciled.try_recv().is_err(), "no other reconciliations");
}

#[tokio::test]
async fn references_follow_the_changes_of_the_referring_object() {
    let world = two_sites().await;
    let (running, mut reconciled) = run(
        &world,
        Controller::<Website>::new().references::<ConfigMap>(|site| vec![site.spec.domain.clone(), "shared".into()]),
    );
    first_reconciliations(&mut reconciled).await;
    let patch = Patch::Merge(json!({"spec": {"domain": "new.example.com"}}));
    world.cluster.namespaced::<Website>("default").patch("blog", &patch, &WriteOptions::default()).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog");
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    for (name, expected) in
        [("blog.example.com", &[][..]), ("new.example.com", &["blog"]), ("shared", &["blog", "shop"])]
    {
        maps.create(&map(name, "a", "b"), &WriteOptions::default()).await.unwrap();
        let mut names = Vec::new();
        for _ in expected {
            names.push(soon(reconciled.recv()).await.unwrap());
        }
        names.sort();
        assert_eq!(names, expected, "{name}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn keys_refer_to_objects_in_other_namespaces() {
    let world = two_sites().await;
    let builder = Controller::<Website>::new()
        .references::<ConfigMap>(|site| [ObjectKey::new("kube-system", &site.metadata.name)])
        .references::<Node>(|site| Some(site.metadata.name.clone()));
    let (running, mut reconciled) = run(&world, builder);
    first_reconciliations(&mut reconciled).await;
    let maps = world.cluster.namespaced::<ConfigMap>("kube-system");
    maps.create(&map("shop", "a", "b"), &WriteOptions::default()).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "shop");
    let node = Node { metadata: ObjectMeta::new("", "blog") };
    world.cluster.api().create(&node, &WriteOptions::default()).await.unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog");
    running.stop().await.unwrap();
}

/// The function panics before the index exists, because the cache of another controller is already filled.
#[tokio::test]
async fn references_that_panic_reconcile_all_objects() {
    let world = two_sites().await;
    let informer = world.cluster.informer::<Website>();
    soon(informer.wait_for_sync()).await.unwrap();
    let builder = Controller::<Website>::new().references::<ConfigMap>(|site: &Website| -> Option<String> {
        panic!("no references of {}", site.metadata.name);
    });
    let (running, mut reconciled) = run(&world, builder);
    first_reconciliations(&mut reconciled).await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    maps.create(&map("any", "a", "b"), &WriteOptions::default()).await.unwrap();
    first_reconciliations(&mut reconciled).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn cluster_scoped_object_needs_the_namespace_of_the_reference() {
    let world = World::start().await;
    let nothing = || async |_: Arc<Node>, _: Context<Node>| Ok(Action::await_change());
    let by_name = Controller::<Node>::new().references::<ConfigMap>(|node| [node.metadata.name.clone()]);
    let error = Running::start(world.manager().controller(by_name.reconcile(nothing()))).ended().await.unwrap_err();
    assert!(error.to_string().contains("return an `ObjectKey` instead of a name"), "{error}");
    let by_key =
        Controller::<Node>::new().references::<ConfigMap>(|node| [ObjectKey::new("kube-system", &node.metadata.name)]);
    Running::start(world.manager().controller(by_key.reconcile(nothing()))).stop().await.unwrap();
}

/// Both controllers use the same informer, because the test keeps it.
#[tokio::test]
async fn controllers_with_one_name_have_separate_references() {
    let world = two_sites().await;
    let _kept = world.cluster.informer::<Website>();
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    for name in ["first", "second"] {
        let builder = Controller::<Website>::new()
            .references::<ConfigMap>(move |site| Some(format!("{name}-of-{}", site.metadata.name)));
        let (running, mut reconciled) = run(&world, builder);
        first_reconciliations(&mut reconciled).await;
        maps.create(&map(&format!("{name}-of-blog"), "a", "b"), &WriteOptions::default()).await.unwrap();
        assert_eq!(soon(reconciled.recv()).await.unwrap(), "blog", "{name}");
        running.stop().await.unwrap();
    }
}
