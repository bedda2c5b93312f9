//! Tests of finalizers, deletions and conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_apiserver::faults::{Fault, Lag, Rule};
use pintle_controller::{EnqueueMapped, ReconcileRequest, Trigger};
use pintle_events::{Event, EventType, ObjectReference};
use pintle_informer::ResourceEvent;
use pintle_meta::{ConditionStatus, DeleteOptions, ListOptions, ObjectKey, ObjectMeta, Patch, Resource, WriteOptions};
use pintle_operator::{Action, Cleanup, Context, Controller, ControllerBuilder, Manager, Reconciler, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::{ConfigMap, Running, Status, Website, World, eventually, map, publish, soon};

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Node {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Node, "v1", "Node", "nodes", Cluster);

struct Publisher {
    cleanups: AtomicUsize,
    gone: UnboundedSender<ObjectKey>,
}

impl Reconciler<Website> for Publisher {
    async fn reconcile(&self, site: Arc<Website>, _cx: Context<Website>) -> Result<Action> {
        assert_eq!(site.metadata.finalizers, ["example.com/dns"], "the finalizer comes before the first call");
        Ok(Action::await_change())
    }

    async fn cleanup(&self, _site: Arc<Website>, _cx: Context<Website>) -> Result<Cleanup> {
        match self.cleanups.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Cleanup::NotYet(Duration::from_millis(1))),
            _ => Ok(Cleanup::Done),
        }
    }

    async fn gone(&self, key: ObjectKey, cx: Context<Website>) -> Result<()> {
        assert_eq!((&key, cx.owner_reference()), (cx.key(), None));
        self.gone.send(key).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn cleanup_repeats_until_done_and_gone_follows() {
    let world = World::with_site("blog").await;
    let (sender, mut gone) = unbounded_channel();
    let publisher = Publisher { cleanups: AtomicUsize::new(0), gone: sender };
    let controller = Controller::<Website>::new().finalizer("example.com/dns").reconcile(publisher);
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    world.cluster.namespaced::<Website>("default").delete("blog", &DeleteOptions::default()).await.unwrap();
    assert_eq!(soon(gone.recv()).await.unwrap(), ObjectKey::new("default", "blog"));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn condition_keeps_its_transition_time() {
    let world = World::with_site("blog").await;
    let (sender, mut seen) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let sender = sender.clone();
        async move {
            let conditions = match site.metadata.annotations.get("test").map(String::as_str) {
                Some("broken") => cx.not_ready("Broken", "the DNS does not answer"),
                _ => cx.ready("Published"),
            };
            let stored = cx.apply_status(Status { url: String::new(), conditions }).await?;
            sender.send(stored.status.clone().unwrap().conditions).unwrap();
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    let mut next = async || soon(seen.recv()).await.unwrap().find("Ready").unwrap().clone();
    let first = next().await;
    assert_eq!((first.reason.as_str(), first.observed_generation), ("Published", Some(1)));
    world.annotate("blog", "again").await;
    assert_eq!(next().await, first);
    world.annotate("blog", "broken").await;
    let broken = next().await;
    assert_eq!(broken.message, "the DNS does not answer");
    assert!(broken.last_transition_time >= first.last_transition_time);
    running.stop().await.unwrap();
}

/// Each controller reads an outdated condition of the other controller, because the caches are delayed.
#[tokio::test]
async fn condition_of_another_controller_is_not_reverted() {
    let world = World::with_site("blog").await;
    let lag = Fault::Lag(Lag::Time(Duration::from_secs(1)));
    let rule = Rule { resource: Some("websites".into()), times: None, ..Rule::new(lag) };
    world.cluster.server().unwrap().faults().add(rule);
    let go = Arc::new(Semaphore::new(0));
    let controller = |name: &'static str, waits: bool| {
        let go = go.clone();
        Controller::<Website>::new().name(name).field_manager(name).reconcile(
            move |site: Arc<Website>, cx: Context<Website>| {
                let go = go.clone();
                async move {
                    let is_changed = site.metadata.annotations.contains_key("test");
                    if is_changed && waits {
                        go.acquire().await.unwrap().forget();
                    }
                    let status = if is_changed { ConditionStatus::True } else { ConditionStatus::False };
                    let conditions = cx.with_condition(name, status, "Checked", "");
                    cx.apply_status(json!({"url": "", "conditions": conditions})).await?;
                    Ok(Action::await_change())
                }
            },
        )
    };
    let running =
        Running::start(world.manager().controller(controller("Dns", false)).controller(controller("Cdn", true)));
    let status = async |kind: &str| world.site("blog").await.status?.conditions.find(kind).map(|found| found.status);
    eventually("both conditions", async || status("Dns").await.and(status("Cdn").await)).await;
    world.annotate("blog", "x").await;
    let is_true = async |kind: &str| status(kind).await.filter(|status| *status == ConditionStatus::True);
    eventually("the first controller has written", async || is_true("Dns").await).await;
    go.add_permits(1);
    eventually("the second controller has written", async || is_true("Cdn").await).await;
    assert_eq!(status("Dns").await, Some(ConditionStatus::True));
    running.stop().await.unwrap();
}

/// After a restart, the process reads from `managedFields` which conditions it has set. The restarted process does
/// not change the conditions of other field managers.
#[tokio::test]
async fn restart_keeps_own_conditions() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "Seen", "message": ""});
    for (manager, kind) in [("website-controller", "Old"), ("other", "Theirs")] {
        let status = json!({"url": "", "conditions": [condition(kind)]});
        let body =
            json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "blog"}, "status": status});
        sites.patch_status("blog", &Patch::Apply(body), &WriteOptions::apply(manager)).await.unwrap();
    }
    let reconcile = async |_: Arc<Website>, cx: Context<Website>| {
        cx.apply_status(Status { url: String::new(), conditions: cx.ready("Published") }).await?;
        Ok(Action::await_change())
    };
    let running = Running::start(world.manager().controller(Controller::<Website>::new().reconcile(reconcile)));
    let find = async |kind: &str| world.site("blog").await.status?.conditions.find(kind).cloned();
    eventually("ready", async || find("Ready").await).await;
    assert!(find("Old").await.is_some() && find("Theirs").await.is_some());
    running.stop().await.unwrap();
    let body = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "blog"}});
    sites.patch_status("blog", &Patch::Apply(body), &WriteOptions::apply("other")).await.unwrap();
    assert!(find("Old").await.is_some() && find("Theirs").await.is_none(), "only the other writer owned its condition");
}

#[tokio::test]
async fn gone_is_not_called_for_unselected_objects() {
    gone_is_not_called(Controller::<Website>::new().labels("team=a".parse().unwrap()), "default").await;
}

#[tokio::test]
async fn gone_is_not_called_for_other_namespaces() {
    gone_is_not_called(Controller::<Website>::new().namespace("elsewhere"), "elsewhere").await;
}

/// The object belongs to the operator of its namespace, which may use the same finalizer.
#[tokio::test]
async fn terminating_object_of_another_namespace_is_not_cleaned_up() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/dns"]}}));
    sites.patch("blog", &finalizer, &WriteOptions::default()).await.unwrap();
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    let (cleanups, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (trigger, counted, counted_gone) = (Trigger::new(), cleanups.clone(), gone.clone());
    let controller = Controller::<Website>::new()
        .namespace("elsewhere")
        .source(trigger.clone())
        .cleanup("example.com/dns", move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Cleanup::Done) }
        })
        .gone(move |_, _| {
            counted_gone.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    trigger.trigger(ObjectKey::new("default", "blog"));
    trigger.trigger(ObjectKey::new("elsewhere", "missing"));
    eventually("the second key is reconciled", async || (gone.load(Ordering::SeqCst) == 1).then_some(())).await;
    assert_eq!(cleanups.load(Ordering::SeqCst), 0);
    assert_eq!(world.site("blog").await.metadata.finalizers, ["example.com/dns"]);
    running.stop().await.unwrap();
}

/// The cache is delayed, so it still contains the object for a second after the finalizer was removed.
#[tokio::test]
async fn key_of_a_removed_object_causes_no_second_cleanup() {
    let world = World::with_site("blog").await;
    let lag = Fault::Lag(Lag::Time(Duration::from_secs(1)));
    let rule = Rule { resource: Some("websites".into()), times: None, ..Rule::new(lag) };
    world.cluster.server().unwrap().faults().add(rule);
    let (trigger, cleanups, gone) = (Trigger::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, counted_gone) = (cleanups.clone(), gone.clone());
    let controller = Controller::<Website>::new()
        .source(trigger.clone())
        .cleanup("example.com/dns", move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Cleanup::Done) }
        })
        .gone(move |_, _| {
            counted_gone.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    let sites = world.cluster.namespaced::<Website>("default");
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the object is deleted", async || sites.get("blog").await.is_err().then_some(())).await;
    eventually("the watch reports the deletion", async || {
        trigger.trigger(ObjectKey::new("default", "blog"));
        (gone.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    assert_eq!(cleanups.load(Ordering::SeqCst), 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn cleanup_that_writes_the_status_runs_once() {
    let world = World::with_site("blog").await;
    let cleanups = Arc::new(AtomicUsize::new(0));
    let counted = cleanups.clone();
    let controller = Controller::<Website>::new()
        .cleanup("example.com/dns", move |_, cx: Context<Website>| {
            let url = counted.fetch_add(1, Ordering::SeqCst).to_string();
            async move {
                cx.apply_status(Status { url, conditions: cx.ready("Removed") }).await?;
                Ok(Cleanup::Done)
            }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    let sites = world.cluster.namespaced::<Website>("default");
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the object is deleted", async || sites.get("blog").await.is_err().then_some(())).await;
    assert_eq!(cleanups.load(Ordering::SeqCst), 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn change_during_a_cleanup_causes_another_cleanup() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let (sender, mut cleanups) = unbounded_channel();
    let writer = sites.clone();
    let controller = Controller::<Website>::new()
        .cleanup("example.com/dns", move |site: Arc<Website>, cx: Context<Website>| {
            let (sender, writer) = (sender.clone(), writer.clone());
            async move {
                let domain = site.spec.domain.clone();
                if domain != "changed" {
                    let change = Patch::Merge(json!({"spec": {"domain": "changed"}}));
                    writer.patch("blog", &change, &WriteOptions::default()).await?;
                    while cx.get::<Website>("blog")?.is_none_or(|site| site.spec.domain != "changed") {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
                sender.send((domain, writer.get("blog").await.is_ok()))?;
                Ok(Cleanup::Done)
            }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the object is deleted", async || sites.get("blog").await.is_err().then_some(())).await;
    running.stop().await.unwrap();
    let exists = true;
    assert_eq!(cleanups.recv().await, Some(("blog.example.com".into(), exists)));
    assert_eq!(cleanups.recv().await, Some(("changed".into(), exists)));
}

#[tokio::test]
async fn changed_config_map_causes_another_cleanup() {
    let world = World::with_site("blog").await;
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let map = serde_json::from_value(json!({"metadata": {"name": "blog"}, "data": {"domain": "first"}})).unwrap();
    maps.create(&map, &WriteOptions::default()).await.unwrap();
    let domain_of = |map: &ConfigMap| map.data.get("domain").cloned();
    let (sender, mut cleanups) = unbounded_channel();
    let writer = maps.clone();
    let controller = Controller::<ConfigMap>::new()
        .namespace("default")
        .cleanup("example.com/dns", move |map: Arc<ConfigMap>, cx: Context<ConfigMap>| {
            let (sender, writer, domain) = (sender.clone(), writer.clone(), domain_of(&map));
            async move {
                if domain.as_deref() == Some("first") {
                    let change = Patch::Merge(json!({"data": {"domain": "changed"}}));
                    writer.patch("blog", &change, &WriteOptions::default()).await?;
                    while cx.get::<ConfigMap>("blog")?.is_none_or(|map| domain_of(&map) == domain) {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
                sender.send(domain)?;
                Ok(Cleanup::Done)
            }
        })
        .reconcile(async |_: Arc<ConfigMap>, _: Context<ConfigMap>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!maps.get("blog").await.unwrap().metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    maps.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the object is deleted", async || maps.get("blog").await.is_err().then_some(())).await;
    running.stop().await.unwrap();
    assert_eq!(cleanups.recv().await, Some(Some("first".into())));
    assert_eq!(cleanups.recv().await, Some(Some("changed".into())));
}

/// A website type with a required field that the stored object does not have.
#[derive(Debug, Deserialize, Serialize)]
struct OwnedWebsite {
    metadata: ObjectMeta,
    owner: String,
}
pintle_meta::resource!(OwnedWebsite, "example.com/v1", "Website", "websites", Namespaced);

#[tokio::test]
async fn gone_is_not_called_for_undecodable_objects() {
    gone_is_not_called(Controller::<OwnedWebsite>::new(), "default").await;
}

/// Triggers the existing object `blog`, which is missing in the controller's cache, and an object that does not exist
/// in `namespace`.
async fn gone_is_not_called<K: Resource + Serialize + DeserializeOwned>(
    controller: ControllerBuilder<K>,
    namespace: &str,
) {
    let world = World::with_site("blog").await;
    let (sender, mut gone) = unbounded_channel();
    let trigger = Trigger::new();
    let controller = controller
        .source(trigger.clone())
        .gone(move |key, _| {
            let sent = sender.send(key);
            async move { Ok(sent?) }
        })
        .reconcile(async |_: Arc<K>, _: Context<K>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    // The controller processes these keys one at a time, in this order.
    trigger.trigger(ObjectKey::new("default", "blog"));
    trigger.trigger(ObjectKey::new(namespace, "missing"));
    assert_eq!(soon(gone.recv()).await.unwrap(), ObjectKey::new(namespace, "missing"));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn deleted_object_that_lost_its_label_is_cleaned_up() {
    let world = World::with_site("blog").await;
    let sites = world.cluster.namespaced::<Website>("default");
    let label = |value: Option<&str>| Patch::Merge(json!({"metadata": {"labels": {"team": value}}}));
    sites.patch("blog", &label(Some("a")), &WriteOptions::default()).await.unwrap();
    let (trigger, cleanups) = (Trigger::new(), Arc::new(AtomicUsize::new(0)));
    let counted = cleanups.clone();
    let controller = Controller::<Website>::new()
        .labels("team=a".parse().unwrap())
        .source(trigger.clone())
        .cleanup("example.com/dns", move |_, cx: Context<Website>| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                cx.apply_status(Status { url: "removed".into(), conditions: cx.ready("Removed") }).await?;
                Ok(Cleanup::Done)
            }
        })
        .reconcile(async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change()));
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    sites.patch("blog", &label(None), &WriteOptions::default()).await.unwrap();
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the object is deleted", async || {
        trigger.trigger(ObjectKey::new("default", "blog")); // Like the periodic check.
        sites.get("blog").await.is_err().then_some(())
    })
    .await;
    assert!(cleanups.load(Ordering::SeqCst) > 0);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn impossible_names_end_the_manager_at_start() {
    let world = World::start().await;
    let nothing = || async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change());
    let done = async |_, _| Ok(Cleanup::Done);
    let without_domain = Controller::<Website>::new().cleanup("dns", done).reconcile(nothing());
    let everywhere = Controller::<Website>::new().namespace("");
    let unused = Controller::<Website>::new().labels_of::<ConfigMap>("a=b".parse().unwrap());
    let owns_nodes = Controller::<Website>::new().owns::<Node>();
    let two = Controller::<Website>::new().cleanup("example.com/a", done).cleanup("example.com/b", done);
    for (manager, expected) in [
        (Manager::new("My Operator", world.cluster.clone()).leader_election(), "a Lease cannot have this name"),
        (world.manager().controller(without_domain), "\"dns\" is not a finalizer; use a domain"),
        (world.manager().controller(two.reconcile(nothing())), "\"example.com/a\" and \"example.com/b\""),
        (
            world.manager().controller(unused.reconcile(nothing())),
            "it has labels of ConfigMap, but does not use this kind",
        ),
        (world.manager().controller(everywhere.reconcile(nothing())), "its namespace is empty; omit `.namespace(…)`"),
        (
            world.manager().controller(owns_nodes.reconcile(nothing())),
            "it owns Node, which is cluster-scoped, but Website is namespaced",
        ),
    ] {
        let error = Running::start(manager).ended().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn cluster_scoped_owner_can_have_a_namespace() {
    let world = World::start().await;
    let in_namespace = || Controller::<Node>::new().namespace("prod");
    for controller in [in_namespace().owns::<ConfigMap>().owns::<Node>(), in_namespace()] {
        let controller = controller.reconcile(async |_: Arc<Node>, _| Ok(Action::await_change()));
        Running::start(world.manager().controller(controller)).stop().await.unwrap();
    }
}

/// The server never responds to Event requests, so the manager must drop pending Events after the shutdown timeout.
#[tokio::test]
async fn pending_events_do_not_prolong_the_stop() {
    let world = World::with_site("blog").await;
    let server = world.cluster.server().unwrap();
    let delay = Fault::Delay(Duration::from_secs(60));
    server.faults().add(Rule { resource: Some("events".into()), times: None, ..Rule::new(delay) });
    let (sender, mut called) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let sender = sender.clone();
        async move {
            cx.event(EventType::Normal, "Seen", "it exists");
            sender.send(()).unwrap();
            std::future::pending::<Result<Action>>().await
        }
    };
    let manager = Manager::connect("auditor", server.client_config()).unwrap();
    let manager = manager.shutdown_timeout(Duration::from_millis(200));
    let running = Running::start(manager.controller(Controller::<Website>::new().reconcile(reconcile)));
    soon(called.recv()).await.unwrap();
    let start = Instant::now();
    let error = running.stop().await.unwrap_err().to_string();
    assert!(error.contains("default/blog"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(4), "Events had 5 s more: {:?}", start.elapsed());
}

/// The manager stops before it has installed the definition, and therefore before it runs its components.
#[tokio::test]
async fn early_stop_writes_pending_events_and_closes_the_informers() {
    let world = World::start().await;
    let manager = Manager::connect("auditor", world.cluster.server().unwrap().client_config()).unwrap();
    let about = ObjectReference { namespace: "default".into(), name: "blog".into(), ..ObjectReference::default() };
    manager.cluster().recorder("auditor").event(about, EventType::Normal, "Seen", "it exists");
    let informer = manager.cluster().informer::<ConfigMap>();
    let stop = CancellationToken::new();
    stop.cancel();
    soon(manager.install::<Website>().run(&stop)).await.unwrap();
    let events = world.cluster.namespaced::<Event>("default").list(&ListOptions::default()).await.unwrap();
    assert_eq!(events.items.iter().map(|event| &*event.reason).collect::<Vec<_>>(), ["Seen"]);
    soon(informer.wait_for_sync()).await.unwrap_err();
}

#[tokio::test]
async fn two_controllers_of_one_name_are_an_error() {
    let world = World::with_site("blog").await;
    let controller = || Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().controller(controller()).controller(controller()));
    let error = running.ended().await.unwrap_err().to_string();
    assert!(error.contains("two controllers are named \"website\""), "{error}");
}

#[tokio::test]
async fn leader_service_runs_in_a_term_and_is_retried() {
    let world = World::start().await;
    let (sender, mut starts) = unbounded_channel();
    let runs = Arc::new(AtomicUsize::new(0));
    let manager = world.manager().leader_election().leader_service("report", move |stop| {
        let (sender, run) = (sender.clone(), runs.fetch_add(1, Ordering::SeqCst));
        async move {
            sender.send(run).unwrap();
            if run == 0 {
                return Err("the first run fails".into());
            }
            stop.cancelled().await;
            Ok(())
        }
    });
    let running = Running::start(manager);
    assert_eq!(soon(starts.recv()).await, Some(0));
    assert_eq!(soon(starts.recv()).await, Some(1));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn leader_service_stops_when_another_part_fails() {
    let world = World::start().await;
    let (started, mut starts) = unbounded_channel();
    let (stopped, mut stops) = unbounded_channel();
    let manager = world.manager().leader_service("report", move |stop| {
        let (started, stopped) = (started.clone(), stopped.clone());
        async move {
            started.send(()).unwrap();
            stop.cancelled().await;
            stopped.send(()).unwrap();
            Ok(())
        }
    });
    let manager = manager.service("fails", async move |_| {
        starts.recv().await;
        Err("broken".into())
    });
    let error = Running::start(manager).ended().await.unwrap_err().to_string();
    assert!(error.contains("broken"), "{error}");
    assert!(stops.try_recv().is_ok(), "the service was dropped");
}

#[tokio::test]
async fn plain_controller_with_own_keys_runs_in_the_manager() {
    let world = World::with_site("blog").await;
    let (calls, mut called) = unbounded_channel();
    let sites = world.cluster.informer::<Website>();
    let by_domain = EnqueueMapped::new(|site: &Website| [site.spec.domain.clone()]);
    let domains = pintle_controller::Controller::named("domains").watches(&sites, by_domain).reconciler(
        move |request: ReconcileRequest<String>| {
            let sent = calls.send(request.key);
            async { Ok(sent.map(|()| Action::await_change())?) }
        },
    );
    let running = Running::start(
        world
            .manager()
            .controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish))
            .plain_controller(domains),
    );
    assert_eq!(soon(called.recv()).await.as_deref(), Some("blog.example.com"));
    eventually("the other controller works, too", async || world.child("blog").await.ok()).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn watch_handler_sees_both_states_of_an_update() {
    let world = World::with_site("blog").await;
    let (changes, mut changed) = unbounded_channel();
    let data_changed = move |event: &ResourceEvent<ConfigMap>, enqueue: &mut dyn FnMut(ObjectKey)| {
        if let ResourceEvent::Updated { old, new } = event
            && old.data != new.data
        {
            changes.send((old.data.clone(), new.data.clone())).unwrap();
            enqueue(event.key());
        }
    };
    let (calls, mut called) = unbounded_channel();
    let controller = Controller::<Website>::new().watches_with(data_changed).reconcile(
        move |_: Arc<Website>, _: Context<Website>| {
            let sent = calls.send(());
            async move { Ok(sent.map(|()| Action::await_change())?) }
        },
    );
    let running = Running::start(world.manager().controller(controller));
    soon(called.recv()).await.unwrap();
    let (maps, options) = (world.cluster.namespaced::<ConfigMap>("default"), WriteOptions::default());
    let mut stored = maps.create(&map("blog", "a", "1"), &options).await.unwrap();
    let before = stored.data.clone();
    stored.data.insert("a".into(), "2".into());
    let stored = maps.update(&stored, &options).await.unwrap();
    assert_eq!(soon(changed.recv()).await, Some((before, stored.data)));
    soon(called.recv()).await.unwrap();
    running.stop().await.unwrap();
}
