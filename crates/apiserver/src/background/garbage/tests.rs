//! Tests of the garbage collector without other controllers.

use futures_util::FutureExt;
use pintle_json::json;
use pintle_kinds::writer::Writer;
use pintle_serving::offload::Offload;
use pintle_storage::{Charge, Expect, Lagged};

use super::release::COLLECTOR;
use super::*;
use crate::background::{apply, options};
use crate::registry::{AdmissionRequest, Plugin};

fn collector(registry: &Registry) -> Collector {
    let mut collector = Collector::new(watch::channel(u64::MAX).1);
    collector.resync(registry);
    collector
}

fn target(registry: &Registry, name: &str) -> RequestTarget {
    let kinds = registry.kinds();
    RequestTarget::new(kinds.group_kind("rbac.authorization.k8s.io", "ClusterRole").unwrap().clone(), "", name)
}

fn stored(registry: &Registry, name: &str) -> Option<Arc<Stored>> {
    let target = target(registry, name);
    registry.db.get(&target.resource_key(), &target.key())
}

fn create(registry: &Arc<Registry>, name: &str, owner: Option<&str>) {
    let reference = |owner: &str| {
        let uid = stored(registry, owner).unwrap().uid().into_owned();
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": owner, "uid": uid,
            "blockOwnerDeletion": true})
    };
    let references: Vec<Json> = owner.into_iter().map(reference).collect();
    let object = json!({"metadata": {"name": name, "ownerReferences": references}});
    let options = options();
    let by = Writer::new(&options, COLLECTOR, registry.clock.now_text());
    registry.create(&target(registry, name), object, &by).unwrap();
}

#[tokio::test]
async fn waiting_owner_checks_all_dependents_only_once() {
    let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
    let mut collector = collector(&registry);
    create(&registry, "a", None);
    let names = ["b", "c", "d"];
    names.iter().for_each(|name| create(&registry, name, Some("a")));
    collector.resync(&registry);
    let options = DeleteOptions { propagation: Some(PropagationPolicy::Foreground), ..DeleteOptions::default() };
    registry.delete(&target(&registry, "a"), &options, &Requester::default()).unwrap();
    let owner = stored(&registry, "a").unwrap();
    let mut enqueued = |blocking: Option<&str>| {
        collector.queue.clear();
        collector.queued.clear();
        collector.await_dependents(&registry, &target(&registry, "a"), &owner, &Requester::default()).unwrap();
        assert_eq!(stored(&registry, "a").is_some(), blocking.is_some());
        assert_eq!(collector.blocked.values().next().map(|at| &*at.1), blocking);
        collector.queue.len()
    };
    assert_eq!(enqueued(Some("b")), names.len());
    for (gone, next) in names.iter().zip([Some("c"), Some("d"), None]) {
        registry.delete(&target(&registry, gone), &DeleteOptions::default(), &Requester::default()).unwrap();
        assert_eq!(enqueued(next), 0);
    }
}

/// While the collector processes an owner, a client removes the owner's finalizer, and recreates and deletes the owner.
#[tokio::test]
async fn recreated_owner_keeps_finalizer_and_dependents() {
    for (policy, finalizer) in
        [(PropagationPolicy::Orphan, ORPHAN_FINALIZER), (PropagationPolicy::Foreground, FOREGROUND_FINALIZER)]
    {
        let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
        let (mut collector, by) = (collector(&registry), Requester::default());
        let options = DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() };
        let delete = || registry.delete(&target(&registry, "a"), &options, &Requester::default()).unwrap();
        create(&registry, "a", None);
        delete();
        let old = stored(&registry, "a").unwrap();
        drop_finalizer(&registry, &target(&registry, "a"), &old.uid(), finalizer, &by).unwrap();
        assert!(stored(&registry, "a").is_none());
        create(&registry, "a", None);
        create(&registry, "b", Some("a"));
        delete();
        match finalizer {
            ORPHAN_FINALIZER => {
                collector.orphan_dependents(&registry, &target(&registry, "a"), &old, &by).await.unwrap()
            }
            _ => collector.await_dependents(&registry, &target(&registry, "a"), &old, &by).unwrap(),
        }
        assert!(stored(&registry, "a").is_some_and(|new| has_finalizer(&new, finalizer)), "{finalizer}");
        unblock(&registry, &target(&registry, "b"), &old.uid(), &by).unwrap();
        let dependent = stored(&registry, "b").unwrap();
        assert_eq!(dependent.owner_references()[0]["blockOwnerDeletion"], true);
    }
}

#[tokio::test]
async fn collector_yields_while_it_orphans_dependents() {
    let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
    let mut collector = collector(&registry);
    create(&registry, "a", None);
    let names: Vec<String> = (0..20).map(|at| format!("dependent-{at}")).collect();
    names.iter().for_each(|name| create(&registry, name, Some("a")));
    collector.resync(&registry);
    let owner = stored(&registry, "a").unwrap();
    let bound = || {
        let owned = |name: &&String| !stored(&registry, name).unwrap().owner_references().is_empty();
        names.iter().filter(owned).count()
    };
    let (target, by) = (target(&registry, "a"), Requester::default());
    let others = async { assert_eq!(bound(), names.len() - 1) };
    let (freed, ()) = tokio::join!(collector.orphan_dependents(&registry, &target, &owner, &by), others);
    freed.unwrap();
    assert_eq!(bound(), 0);
}

#[tokio::test]
async fn objects_newer_than_observed_changes_are_processed_later() {
    let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
    let mut changes = registry.db.follow_all(None);
    let mut collector = collector(&registry);
    create(&registry, "a", None);
    create(&registry, "b", Some("a"));
    let observed = registry.db.revision();
    create(&registry, "c", Some("b"));
    let options = DeleteOptions { propagation: Some(PropagationPolicy::Foreground), ..DeleteOptions::default() };
    registry.delete(&target(&registry, "a"), &options, &Requester::default()).unwrap();

    for _ in 0..2 {
        collector.observe(&changes.next().await.unwrap());
    }
    let again = collector.work(&registry, observed).await;
    assert!(again.is_some() && collector.is_busy());
    assert!(!stored(&registry, "b").unwrap().is_deleting(), "the dependents of b are not known yet");

    let mut c_is_gone = false;
    while stored(&registry, "a").is_some() {
        let observed = registry.db.revision();
        while let Some(Ok(change)) = changes.try_next() {
            collector.observe(&change);
            c_is_gone |= &*change.key == "c" && change.kind == ChangeKind::Deleted;
            let b_is_gone = &*change.key == "b" && change.kind == ChangeKind::Deleted;
            assert!(!b_is_gone || c_is_gone, "b waits for c");
        }
        collector.work(&registry, observed).await;
    }
    assert!(stored(&registry, "b").is_none() && stored(&registry, "c").is_none());
}

#[test]
fn collector_stops_waiting_when_the_definitions_controller_ends() {
    let (served, served_revision) = watch::channel(0);
    let mut collector = Collector::new(served_revision);
    collector.definitions_revision = 1;
    let mut event = Box::pin(collector.wait_for_event());
    assert!(event.as_mut().now_or_never().is_none());
    drop(served);
    assert!(event.now_or_never().is_some());
    assert!(!collector.is_busy());
}

#[tokio::test]
async fn resync_of_a_lagging_collector_is_offloaded() {
    let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
    let (mut collector, permits) = (collector(&registry), registry.offload_permits.clone());
    let resync = async move {
        apply(&mut collector, &registry, Err(Lagged)).await;
        // The resync ran on this thread, because no `.await` follows it.
        std::thread::current().id()
    };
    assert_ne!(Offload::new(&permits, resync).await, std::thread::current().id());
}

#[tokio::test]
async fn lagging_collector_remembers_deleted_owners() {
    for is_restored in [false, true] {
        let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
        let mut changes = registry.db.follow_all(None);
        let mut collector = collector(&registry);
        let put = |resource: &str, key: &str, object: &Json| {
            registry.db.put(&resource.into(), key, Expect::Absent, object.clone()).unwrap().revision()
        };
        let definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "widgets"}, "versions": [{"name": "v1", "served": true}]},
            "status": {"acceptedNames": {"kind": "Widget"}},
        });
        put(DEFINITIONS, "widgets.example.com", &definition);
        let widgets = "custom/widgets.example.com";
        let owner = json!({"metadata": {"name": "owner", "namespace": "default", "uid": "1"}});
        let revision = put(widgets, "default/owner", &owner);
        let reference = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": "1"});
        let metadata = json!({"name": "a", "namespace": "default", "uid": "2", "ownerReferences": [reference]});
        put("configmaps", "default/a", &json!({"metadata": metadata}));
        registry.db.remove(&widgets.into(), "default/owner", revision).unwrap();
        while let Some(Ok(change)) = changes.try_next() {
            collector.observe(&change);
        }
        if is_restored {
            put(widgets, "default/owner", &owner);
        }
        collector.resync(&registry);
        collector.work(&registry, registry.db.revision()).await;
        assert_eq!(registry.db.get("configmaps", "default/a").is_some(), is_restored);
    }
}

/// While the collector deletes `b`, another client gives it the owner `keeper`.
#[derive(Debug)]
struct Adopter;

impl Plugin for Adopter {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let b = stored(registry, "b").filter(|_| request.target.name == "b" && request.new.is_none());
        if let Some(b) = b.filter(|b| b.owner_references()[0].text("/name") != "keeper") {
            let mut adopted = b.decode();
            let owner = &mut adopted["metadata"]["ownerReferences"][0];
            (owner["name"], owner["uid"]) =
                ("keeper".into(), stored(registry, "keeper").unwrap().uid().into_owned().into());
            let (resource, key) = (request.target.resource_key(), request.target.key());
            registry.db.put(&resource, &key, Expect::At(b.revision()), adopted).unwrap();
        }
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn object_with_a_new_owner_is_kept() {
    let mut registry = Registry::new(crate::config::ApiServerConfig::default(), None);
    registry.admission_chain.push(Arc::new(Adopter));
    let registry = Arc::new(registry);
    [("keeper", None), ("a", None), ("b", Some("a"))].iter().for_each(|(name, owner)| create(&registry, name, *owner));
    registry.delete(&target(&registry, "a"), &DeleteOptions::default(), &Requester::default()).unwrap();
    collector(&registry).work(&registry, registry.db.revision()).await;
    assert!(stored(&registry, "b").is_some());
}

/// An admission plugin that blocks until the deadline of the request has passed.
#[derive(Debug)]
struct Slow;

impl Plugin for Slow {
    fn validate(&self, _: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        while request.by.deadline.is_some() && !request.by.is_timed_out() {
            std::hint::spin_loop();
        }
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn deletion_writes_nothing_after_its_deadline() {
    let mut registry = Registry::new(crate::config::ApiServerConfig::default(), None);
    registry.admission_chain.push(Arc::new(Slow));
    let registry = Arc::new(registry);
    create(&registry, "a", None);
    let mut by = Requester::default();
    by.deadline = Some(Instant::now() + std::time::Duration::from_millis(20));
    let late = registry.delete(&target(&registry, "a"), &DeleteOptions::default(), &by);
    assert_eq!(late.err().map(|failure| failure.code()), Some(504));
    assert!(stored(&registry, "a").is_some());
}

#[test]
fn report_about_other_namespaces_is_bounded() {
    let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
    let put = |resource: &str, key: &str, object: &Json| {
        registry.db.put(&resource.into(), key, Expect::Absent, object.clone()).unwrap();
    };
    let name = |at: usize| format!("s{at}");
    for namespace in ["own", "other"] {
        put("namespaces", namespace, &json!({"metadata": {"name": namespace}}));
    }
    let references: Json = (0..150)
        .map(|at| {
            put("secrets", &format!("other/{}", name(at)), &json!({"metadata": {"name": name(at), "uid": name(at)}}));
            json!({"apiVersion": "v1", "kind": "Secret", "name": name(at), "uid": name(at)})
        })
        .collect();
    put("configmaps", "own/a", &json!({"metadata": {"name": "a", "uid": "x", "ownerReferences": references}}));
    let kinds = registry.kinds();
    let target = RequestTarget::new(kinds.group_kind("", "ConfigMap").unwrap().clone(), "own", "a");
    report::report_cross_namespace_owners(&registry, &kinds, &target, &registry.db.get("configmaps", "own/a").unwrap());
    assert_eq!(registry.db.objects_of("events", &pintle_storage::Range::namespace(Some("own"))).count(), 100);
}
