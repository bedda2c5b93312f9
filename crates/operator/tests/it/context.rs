//! Tests of a context's reads, errors and leadership term.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_crd::Resource;
use pintle_leaderelect::LeadershipLost;
use pintle_meta::{ApiError, DeleteOptions, LabelSelector, ObjectKey, ObjectMeta, OwnerReference, WriteOptions};
use pintle_operator::{Action, Context, Controller, ControllerBuilder, ReconcileError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::{ConfigMap, Running, Spec, Status, Website, World, eventually, map, soon};

/// Runs a controller whose reconciler calls `probe`, and returns the first result of `probe`.
async fn probe<T, Fut>(
    world: &World,
    owns: bool,
    probe: impl Fn(Context<Website>) -> Fut + Clone + Send + Sync + 'static,
) -> T
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send,
{
    let builder = Controller::<Website>::new();
    probe_with(world, if owns { builder.owns::<ConfigMap>() } else { builder }, probe).await
}

async fn probe_with<T, Fut>(
    world: &World,
    builder: ControllerBuilder<Website>,
    probe: impl Fn(Context<Website>) -> Fut + Clone + Send + Sync + 'static,
) -> T
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send,
{
    let (sender, mut results): (_, UnboundedReceiver<T>) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let (probe, sender) = (probe.clone(), sender.clone());
        async move {
            // Ignore the error, because the test may drop the receiver after the first result.
            _ = sender.send(probe(cx).await);
            Ok(Action::await_change())
        }
    };
    let running = Running::start(world.manager().controller(builder.reconcile(reconcile)));
    let result = soon(results.recv()).await.unwrap();
    running.stop().await.unwrap();
    result
}

fn assert_terminal(error: &ReconcileError, expected: &str) {
    assert!(error.is_terminal() && error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn undeclared_kind_is_a_terminal_error_that_names_it() {
    let world = World::with_site("blog").await;
    let errors = probe(&world, false, async |cx| {
        let read = cx.get::<ConfigMap>("x").unwrap_err();
        (read, cx.apply(map("x", "a", "b")).await.unwrap_err())
    });
    let (read, write) = errors.await;
    assert_terminal(&read, "add `.owns::<ConfigMap>()` to the controller");
    assert_terminal(&write, "controller \"website\" does not cache ConfigMap");
}

#[tokio::test]
async fn child_in_another_namespace_needs_apply_unowned() {
    let world = World::with_site("blog").await;
    let (owned, unowned) = probe(&world, true, async |cx| {
        let child = || ConfigMap { metadata: ObjectMeta::new("kube-system", "x"), ..map("", "a", "b") };
        (cx.apply(child()).await.unwrap_err(), cx.apply_unowned(child()).await.unwrap())
    })
    .await;
    assert_terminal(&owned, "use `apply_unowned` and a finalizer");
    assert!(unowned.metadata.owner_references.is_empty());
}

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1", cluster, status = false)]
struct Tenant {
    metadata: ObjectMeta,
    status: Option<Value>,
}

/// Runs a controller for a cluster-scoped tenant, whose reconciler calls `probe`. Returns the first result of
/// `probe`.
async fn probe_tenant<T, Fut>(
    world: &World,
    builder: ControllerBuilder<Tenant>,
    probe: impl Fn(Context<Tenant>) -> Fut + Clone + Send + Sync + 'static,
) -> T
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send,
{
    let (sender, mut results): (_, UnboundedReceiver<T>) = unbounded_channel();
    let reconcile = move |_: Arc<Tenant>, cx: Context<Tenant>| {
        let (probe, sender) = (probe.clone(), sender.clone());
        async move {
            // Ignore the error, because the test may drop the receiver after the first result.
            _ = sender.send(probe(cx).await);
            Ok(Action::await_change())
        }
    };
    let running = Running::start(world.manager().install::<Tenant>().controller(builder.reconcile(reconcile)));
    let tenant = Tenant { metadata: ObjectMeta::new("", "acme"), status: None };
    eventually("created", async || world.cluster.api().create(&tenant, &WriteOptions::default()).await.ok()).await;
    let result = soon(results.recv()).await.unwrap();
    running.stop().await.unwrap();
    result
}

#[tokio::test]
async fn status_without_subresource_is_a_terminal_error() {
    let world = World::start().await;
    let error =
        probe_tenant(&world, Controller::new(), async |cx| cx.apply_status(json!({"url": "x"})).await.unwrap_err())
            .await;
    assert_terminal(
        &error,
        "the resource has no status subresource; check that the struct has a field `status: Option<…>`",
    );
}

#[tokio::test]
async fn cluster_scoped_object_must_name_the_namespace() {
    let world = World::start().await;
    for namespace in ["default", "kube-system"] {
        let child = ConfigMap { metadata: ObjectMeta::new(namespace, "x"), ..map("", "in", namespace) };
        world.cluster.api().create(&child, &WriteOptions::default()).await.unwrap();
    }
    let errors = probe_tenant(&world, Controller::new().reads::<ConfigMap>(), async |cx| {
        for namespace in ["default", "kube-system"] {
            assert_eq!(cx.get_in::<ConfigMap>(namespace, "x").unwrap().unwrap().data["in"], namespace);
            assert_eq!(cx.get_live_in::<ConfigMap>(namespace, "x").await.unwrap().unwrap().data["in"], namespace);
            let listed = cx.list_in::<ConfigMap>(namespace, &LabelSelector::everything()).unwrap();
            assert!(listed.iter().any(|map| map.metadata.name == "x" && map.metadata.namespace == namespace));
            assert!(listed.iter().all(|map| map.metadata.namespace == namespace));
        }
        assert!(cx.get_in::<ConfigMap>("default", "missing").unwrap().is_none());
        assert!(cx.get::<Tenant>("acme").unwrap().is_some());
        assert_eq!(cx.list::<Tenant>(&LabelSelector::everything()).unwrap().len(), 1);
        let all = cx.list::<ConfigMap>(&LabelSelector::everything()).unwrap();
        assert_eq!(all.iter().filter(|map| map.metadata.name == "x").count(), 2);
        [
            (cx.get::<ConfigMap>("x").unwrap_err(), "use `get_in(namespace, \"x\")`"),
            (cx.get_live::<ConfigMap>("x").await.unwrap_err(), "use `get_live_in(namespace, \"x\")`"),
            (cx.get_in::<ConfigMap>("", "x").unwrap_err(), "pass the namespace of the object"),
            (cx.get_by_key::<ConfigMap>(&ObjectKey::cluster("x")).unwrap_err(), "pass the namespace of the object"),
            (cx.list_in::<ConfigMap>("", &LabelSelector::everything()).unwrap_err(), "pass the namespace"),
        ]
    });
    for (error, expected) in errors.await {
        assert_terminal(&error, expected);
    }
}

#[tokio::test]
async fn uncached_namespace_is_refused() {
    let world = World::with_site("blog").await;
    let builder = Controller::<Website>::new().namespace("default").reads::<ConfigMap>();
    let errors = probe_with(&world, builder, async |cx| {
        assert!(cx.get_in::<ConfigMap>("default", "x").unwrap().is_none());
        let listed = cx.list_in::<ConfigMap>("kube-system", &LabelSelector::everything());
        let elsewhere = ConfigMap { metadata: ObjectMeta::new("kube-system", "x"), ..map("", "a", "b") };
        let applied = cx.apply_unowned(elsewhere).await;
        (cx.get_in::<ConfigMap>("kube-system", "x").unwrap_err(), listed.unwrap_err(), applied.unwrap_err())
    });
    let (get, list, apply) = errors.await;
    assert_terminal(&apply, "cannot apply ConfigMap in the namespace \"kube-system\"");
    assert_terminal(&get, "it caches only the namespace \"default\"");
    assert_terminal(&list, "remove `.namespace(\"default\")` from the controller");
}

#[tokio::test]
async fn create_in_an_uncached_namespace_is_refused() {
    let world = World::start().await;
    let builder = Controller::<Tenant>::new().namespace("default").owns::<ConfigMap>();
    let error = probe_tenant(&world, builder, async |cx| {
        let elsewhere = ConfigMap { metadata: ObjectMeta::new("kube-system", "x"), ..map("", "a", "b") };
        cx.create(elsewhere).await.unwrap_err()
    });
    assert_terminal(&error.await, "cannot create ConfigMap in the namespace \"kube-system\"");
}

/// A controller that only reads ConfigMaps would not notice the deletion of a child that it has applied.
#[tokio::test]
async fn child_of_a_kind_only_read_is_refused() {
    let world = World::with_site("blog").await;
    let reads = Controller::<Website>::new().reads::<ConfigMap>();
    let (applied, created) = probe_with(&world, reads, async |cx| {
        cx.apply_unowned(map("unowned", "a", "b")).await.unwrap();
        (cx.apply(map("x", "a", "b")).await.unwrap_err(), cx.create(map("x", "a", "b")).await.unwrap_err())
    })
    .await;
    assert_terminal(&applied, "add `.owns::<ConfigMap>()` to the controller");
    assert_terminal(&created, "add `.owns::<ConfigMap>()` to the controller");
    assert!(world.child("x").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn object_cannot_own_itself() {
    let world = World::with_site("blog").await;
    let error = probe_with(&world, Controller::<Website>::new().owns::<Website>(), async |cx| {
        let site = || {
            let spec = Spec { domain: "blog.example.com".into() };
            Website { metadata: ObjectMeta::new("", "blog"), spec, status: None }
        };
        cx.apply_unowned(site()).await.unwrap();
        cx.apply(site()).await.unwrap_err()
    })
    .await;
    assert_terminal(&error, "use `apply_unowned`");
    assert!(world.site("blog").await.metadata.owner_references.is_empty());
}

#[tokio::test]
async fn delete_without_uid_is_a_terminal_error() {
    let world = World::with_site("blog").await;
    let other = ConfigMap { metadata: ObjectMeta::new("default", "other"), ..map("", "a", "b") };
    world.cluster.api().create(&other, &WriteOptions::default()).await.unwrap();
    let other = Arc::new(other);
    let error = probe(&world, true, move |cx| {
        let other = other.clone();
        async move { cx.delete(&other).await.unwrap_err() }
    })
    .await;
    assert_terminal(&error, "it has no uid, so it was not read");
    assert!(world.child("other").await.is_ok());
}

/// Lets the next matching request fail with a 404 without a `Status` object, as if a proxy had responded.
fn answer_as_a_proxy(world: &World, verb: RequestVerb, resource: &str, subresource: &str) {
    let page = Fault::Answer(Answer { body: Some("no backend".into()), ..Answer::new(404) });
    world.cluster.server().unwrap().faults().add(Rule {
        verb: Some(verb),
        resource: Some(resource.into()),
        subresource: Some(subresource.into()),
        ..Rule::new(page)
    });
}

#[tokio::test]
async fn page_of_a_proxy_is_not_a_missing_object() {
    let world = World::with_site("blog").await;
    answer_as_a_proxy(&world, RequestVerb::Get, "configmaps", "");
    let (first, second) = probe(&world, false, async |cx| {
        (cx.get_live::<ConfigMap>("settings").await, cx.get_live_in::<ConfigMap>("default", "settings").await)
    })
    .await;
    assert!(first.unwrap_err().to_string().contains("404"));
    assert!(second.unwrap().is_none(), "the API server answered");
}

#[tokio::test]
async fn page_of_a_proxy_is_not_terminal() {
    let world = World::with_site("blog").await;
    answer_as_a_proxy(&world, RequestVerb::Patch, "websites", "status");
    let error =
        probe(&world, false, async |cx| cx.apply_status(json!({"url": "u", "conditions": []})).await.unwrap_err())
            .await;
    assert!(!error.is_terminal() && error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn refused_deletion_is_an_error() {
    let world = World::with_site("blog").await;
    let refused = Fault::Answer(Answer::new(409));
    let resource = Some("configmaps".into());
    world.cluster.server().unwrap().faults().add(Rule {
        verb: Some(RequestVerb::Delete),
        resource,
        times: None,
        ..Rule::new(refused)
    });
    let deleted = probe(&world, true, async |cx| {
        let child = cx.apply(map("child", "a", "b")).await.unwrap();
        cx.delete(&child).await
    })
    .await;
    assert!(deleted.unwrap_err().to_string().contains("409"));
    assert!(world.child("child").await.is_ok());
}

/// Without a propagation policy, the API server would only remove the owner from the ConfigMap.
#[tokio::test]
async fn deletion_of_a_job_deletes_its_dependents() {
    #[derive(Clone, Debug, Deserialize, Serialize)]
    struct Job {
        metadata: ObjectMeta,
        spec: Value,
    }
    pintle_meta::resource!(Job, "batch/v1", "Job", "jobs", Namespaced);

    let world = World::with_site("blog").await;
    let container = json!({"name": "c", "image": "i"});
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}});
    let job = Job { metadata: ObjectMeta::new("default", "backup"), spec };
    let job = world.cluster.namespaced::<Job>("default").create(&job, &WriteOptions::default()).await.unwrap();
    let job = Arc::new(job);
    let mut dependent = map("result", "a", "b");
    dependent.metadata.owner_references = vec![OwnerReference::controller_of(&*job)];
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    maps.create(&dependent, &WriteOptions::default()).await.unwrap();
    probe(&world, true, move |cx| {
        let job = job.clone();
        async move { cx.delete(&job).await }
    })
    .await
    .unwrap();
    eventually("the dependent is gone", async || world.child("result").await.err()).await;
}

#[tokio::test]
async fn deletion_leaves_a_recreated_object() {
    let world = World::with_site("blog").await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let deleted = probe(&world, true, move |cx| {
        let maps = maps.clone();
        async move {
            let child = cx.apply(map("child", "a", "b")).await?;
            maps.delete("child", &DeleteOptions::default()).await?;
            maps.create(&map("child", "c", "d"), &WriteOptions::default()).await?;
            cx.delete(&child).await
        }
    })
    .await;
    deleted.unwrap();
    assert!(world.child("child").await.unwrap().data.contains_key("c"));
}

/// The cache does not contain the re-created child, because the watch delivers no events.
#[tokio::test]
async fn recreated_child_does_not_get_the_old_configuration() {
    let world = World::with_site("blog").await;
    let silent = Rule {
        verb: Some(RequestVerb::Watch),
        resource: Some("configmaps".into()),
        times: None,
        ..Rule::new(Fault::SilentAfter(0))
    };
    world.cluster.server().unwrap().faults().add(silent);
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let applied = probe(&world, true, move |cx| {
        let maps = maps.clone();
        async move {
            cx.apply(map("child", "a", "b")).await?;
            maps.delete("child", &DeleteOptions::default()).await?;
            maps.create(&map("child", "c", "d"), &WriteOptions::default()).await?;
            cx.apply(map("child", "a", "new")).await
        }
    });
    let error = applied.await.unwrap_err();
    let is_rejected = |error: &ApiError| error.is_conflict() || error.is_invalid();
    assert!(error.cause().downcast_ref().is_some_and(is_rejected), "{error}");
    assert_eq!(world.child("child").await.unwrap().data.into_keys().collect::<Vec<_>>(), ["c"]);
}

#[tokio::test]
async fn recreated_object_does_not_get_the_old_status() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let calls = Arc::new(AtomicUsize::new(0));
    let (sender, mut results) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let (is_first, sites, sender) = (calls.fetch_add(1, Ordering::SeqCst) == 0, sites.clone(), sender.clone());
        async move {
            if !is_first {
                return Ok(Action::await_change());
            }
            let old = site.metadata.uid.clone();
            sites.delete("blog", &DeleteOptions::default()).await?;
            sites
                .create(
                    &Website { metadata: ObjectMeta::new("default", "blog"), ..Website::clone(&site) },
                    &WriteOptions::default(),
                )
                .await?;
            while cx.get::<Website>("blog")?.is_none_or(|newest| newest.metadata.uid == old) {
                tokio::task::yield_now().await;
            }
            let applied = cx.apply_status(Status { url: "old".into(), conditions: cx.ready("Published") }).await;
            let _ = sender.send(applied.map(drop));
            Ok(Action::await_change())
        }
    };
    let running = Running::start(world.manager().controller(Controller::<Website>::new().reconcile(reconcile)));
    let error = soon(results.recv()).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("no longer exists"), "{error}");
    assert!(world.site("blog").await.status.is_none());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn recreated_object_keeps_no_status_if_the_cache_lags() {
    let world = World::with_site("blog").await;
    let silent = Rule {
        verb: Some(RequestVerb::Watch),
        resource: Some("websites".into()),
        times: None,
        ..Rule::new(Fault::SilentAfter(0))
    };
    world.cluster.server().unwrap().faults().add(silent);
    let sites = world.cluster.namespaced::<Website>("default");
    let site = world.site("blog").await;
    let applied = probe(&world, true, move |cx| {
        let (sites, site) = (sites.clone(), site.clone());
        async move {
            sites.delete("blog", &DeleteOptions::default()).await?;
            let new = Website { metadata: ObjectMeta::new("default", "blog"), ..site };
            sites.create(&new, &WriteOptions::default()).await?;
            cx.apply_status(Status { url: "old".into(), conditions: cx.ready("Published") }).await
        }
    })
    .await;
    let error = applied.map(drop).unwrap_err().to_string();
    assert!(error.contains("no longer exists"), "{error}");
    assert!(world.site("blog").await.status.is_none());
}

#[tokio::test]
async fn child_of_another_controller_is_refused_without_a_request() {
    let world = World::with_site("blog").await;
    let owner = ConfigMap { metadata: ObjectMeta::new("default", "owner"), ..map("", "a", "b") };
    let owner: ConfigMap = world.cluster.api().create(&owner, &WriteOptions::default()).await.unwrap();
    let owner_references = vec![OwnerReference::controller_of(&owner)];
    let metadata = ObjectMeta { owner_references, ..ObjectMeta::new("default", "child") };
    let child = ConfigMap { metadata, ..map("", "a", "b") };
    world.cluster.api().create(&child, &WriteOptions::default()).await.unwrap();
    let applies = world.count(RequestVerb::Patch, "configmaps", "");
    let error = probe(&world, true, async |cx| cx.apply(map("child", "a", "b")).await.unwrap_err()).await;
    assert!(error.to_string().contains("ConfigMap \"owner\" (uid "), "{error}");
    assert_eq!(world.counted(applies), 0);
}

#[tokio::test]
async fn reads_include_own_writes_at_once() {
    let world = World::with_site("blog").await;
    probe(&world, true, async |cx| {
        assert!(cx.get::<ConfigMap>("mine").unwrap().is_none());
        let applied = cx.apply(map("mine", "a", "b")).await.unwrap();
        let read = cx.get::<ConfigMap>("mine").unwrap().unwrap();
        assert_eq!(read.metadata.resource_version, applied.metadata.resource_version);
        assert_eq!(cx.owned::<ConfigMap>().unwrap().len(), 1);
        assert_eq!(cx.list::<ConfigMap>(&LabelSelector::everything()).unwrap().len(), 1);
        assert_eq!(cx.get_live::<ConfigMap>("mine").await.unwrap().unwrap().data["a"], "b");
        cx.delete(&applied).await.unwrap();
        assert!(cx.get::<ConfigMap>("mine").unwrap().is_none(), "the deletion is visible at once");
        cx.delete(&applied).await.unwrap();
        assert!(cx.get_live::<ConfigMap>("mine").await.unwrap().is_none());
        let created = cx.create(map("made", "a", "b")).await.unwrap();
        assert_eq!(created.metadata.owner_references[0].name, "blog");
        assert!(cx.create(map("made", "a", "b")).await.is_err());
        let mut generated = map("", "a", "b");
        generated.metadata.generate_name = "job-".into();
        assert!(cx.create(generated).await.unwrap().metadata.name.starts_with("job-"));
    })
    .await;
}

/// A task may outlive the reconciliation that spawned it, but it must not write after the leadership term.
#[tokio::test]
async fn write_after_the_term_is_refused() {
    let world = World::with_site("blog").await;
    let kept = Arc::new(Mutex::new(None));
    let keeper = kept.clone();
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        *keeper.lock().unwrap() = Some(cx);
        called.send(()).unwrap();
        async { Ok(Action::await_change()) }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().leader_election().controller(controller));
    soon(calls.recv()).await.unwrap();
    let cx = kept.lock().unwrap().take().unwrap();
    cx.apply(map("early", "a", "b")).await.unwrap();
    running.stop().await.unwrap();
    let error = cx.apply(map("late", "a", "b")).await.unwrap_err();
    assert!(error.cause().downcast_ref::<LeadershipLost>().is_some(), "{error}");
    assert!(world.child("late").await.unwrap_err().is_not_found());
    assert!(world.child("early").await.is_ok());
}

#[tokio::test]
async fn other_kinds_are_cached_by_label() {
    let world = World::with_site("blog").await;
    for (name, label) in [("a", "web"), ("b", "other")] {
        let mut other = map(name, "k", "v");
        other.metadata.labels.insert("app".into(), label.into());
        world.cluster.namespaced("default").create(&other, &WriteOptions::default()).await.unwrap();
    }
    let builder = Controller::<Website>::new().labels_of::<ConfigMap>("app=web".parse().unwrap()).owns::<ConfigMap>();
    let (found, labelled, unlabelled, created) = probe_with(&world, builder, async |cx: Context<Website>| {
        let found: Vec<_> = cx
            .list::<ConfigMap>(&LabelSelector::everything())
            .unwrap()
            .iter()
            .map(|map| map.metadata.name.clone())
            .collect();
        let mut child = map("c", "k", "v");
        let unlabelled = cx.apply(child.clone()).await.unwrap_err();
        let created = cx.create(child.clone()).await.unwrap_err();
        child.metadata.labels.insert("app".into(), "web".into());
        (found, cx.apply(child).await.map(drop), unlabelled, created)
    })
    .await;
    assert_eq!(found, ["a"]);
    labelled.unwrap();
    for error in [unlabelled, created] {
        assert_terminal(&error, "caches only objects with the labels \"app=web\"; add these labels to the object");
    }
}

#[tokio::test]
async fn controller_reconciles_only_objects_with_matching_fields() {
    let world = World::with_site("blog").await;
    world.create("shop").await;
    let builder = Controller::<Website>::new().fields("metadata.name=shop".parse().unwrap());
    let names = probe_with(&world, builder, async |cx: Context<Website>| {
        cx.list::<Website>(&LabelSelector::everything())
            .unwrap()
            .iter()
            .map(|site| site.metadata.name.clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(names.await, ["shop"]);
}
