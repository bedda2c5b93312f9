//! Tests of known patterns of bugs in operators. The test kit must reject each incorrect reconciler and accept its
//! corrected version.
//!
//! The tests cover crashes between two effects, stale reads and missed events. The papers on Sieve (OSDI 2022) and
//! Kamera describe such bugs in real operators.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pintle_cluster::Cluster;
use pintle_meta::{Conditions, DeleteOptions, LabelSelector, ObjectKey, ObjectMeta, WriteOptions};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, Violation};

use crate::website::{ConfigMap, Status, Website, config_map, site};

type Zone = Arc<Mutex<BTreeSet<String>>>;

fn manager(cluster: Cluster, controller: Controller<Website>) -> Manager {
    Manager::new("patterns", cluster).install::<Website>().controller(controller)
}

#[track_caller]
fn not_converged<T: std::fmt::Debug>(result: Result<T, Violation>, expected: &str) {
    match result {
        Err(violation @ Violation::NotConverged { .. }) => {
            let text = violation.to_string();
            println!("{text}\n");
            assert!(text.contains(expected), "{text}");
        }
        other => panic!("the kit did not catch it: {other:?}"),
    }
}

/// Adds a DNS record without a finalizer. The record leaks if the site is deleted while the operator is down.
fn without_finalizer(cluster: Cluster, zone: Zone) -> Manager {
    let other = zone.clone();
    let publish = move |site: Arc<Website>, cx: Context<Website>| {
        zone.lock().unwrap().insert(site.metadata.name.clone());
        async move {
            cx.apply(config_map(&site)).await?;
            Ok(Action::await_change())
        }
    };
    let gone = move |key: ObjectKey, _: Context<Website>| {
        other.lock().unwrap().remove(key.name());
        async { Ok(()) }
    };
    manager(cluster, Controller::<Website>::new().owns::<ConfigMap>().gone(gone).reconcile(publish))
}

fn with_finalizer(cluster: Cluster, zone: Zone) -> Manager {
    let other = zone.clone();
    let publish = move |site: Arc<Website>, cx: Context<Website>| {
        zone.lock().unwrap().insert(site.metadata.name.clone());
        async move {
            cx.apply(config_map(&site)).await?;
            Ok(Action::await_change())
        }
    };
    let retire = move |site: Arc<Website>, _: Context<Website>| {
        other.lock().unwrap().remove(&site.metadata.name);
        async { Ok(Cleanup::Done) }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().cleanup("example.com/dns", retire);
    manager(cluster, controller.reconcile(publish))
}

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn effect_without_finalizer_is_caught() {
    let kit = |operator: fn(Cluster, Zone) -> Manager| {
        Kit::with_world(operator).create(site("blog")).delete::<Website>("blog")
    };
    not_converged(kit(without_finalizer).survives_crashes(), r#"the world: [] -> ["blog"]"#);
    kit(with_finalizer).survives_crashes().unwrap();
}

/// Creates a child with a generated name and then records the name in the status. After a crash between the two writes,
/// a second child is created.
async fn generated_child(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    if site.status.is_none() {
        let mut map = config_map(&site);
        map.metadata = ObjectMeta {
            generate_name: "map-".into(),
            owner_references: vec![cx.owner_reference().unwrap()],
            ..ObjectMeta::default()
        };
        let maps = cx.cluster().namespaced::<ConfigMap>("default");
        let stored = maps.create(&map, &WriteOptions::default()).await?;
        cx.apply_status(Status { url: stored.metadata.name, conditions: Conditions::default() }).await?;
    }
    Ok(Action::await_change())
}

/// The corrected form of `generated_child`. The name of the child depends only on the owner.
async fn named_child(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    let stored = cx.apply(config_map(&site)).await?;
    cx.apply_status(Status { url: stored.metadata.name.clone(), conditions: Conditions::default() }).await?;
    Ok(Action::await_change())
}

#[test]
fn generated_name_before_the_record_is_caught() {
    let owning = || Controller::<Website>::new().owns::<ConfigMap>();
    let wrong = || Kit::new(move |cluster| manager(cluster, owning().reconcile(generated_child))).create(site("blog"));
    not_converged(wrong().survives_crashes(), "exists 2 times instead of 1");
    // The deletion of the site also deletes both children.
    not_converged(wrong().delete::<Website>("blog").survives_crashes(), "exists 2 times instead of 1");
    Kit::new(move |cluster| manager(cluster, owning().reconcile(named_child)))
        .create(site("blog"))
        .survives_crashes()
        .unwrap();
}

/// Writes the status and then creates the child, unless the status is already set. After a crash between the two
/// writes, the child is never created.
async fn trusts_its_status(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    if site.status.is_none() {
        cx.apply_status(Status { url: "provisioned".into(), conditions: Conditions::default() }).await?;
        cx.apply(config_map(&site)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn decision_on_the_own_status_is_caught() {
    let owning = || Controller::<Website>::new().owns::<ConfigMap>();
    let wrong = Kit::new(move |cluster| manager(cluster, owning().reconcile(trusts_its_status))).create(site("blog"));
    not_converged(wrong.survives_crashes(), "configmaps default/blog: does not exist");
}

/// Counts the children in a cache, which may not contain the operator's latest writes yet.
async fn trusts_its_cache(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    if cx.owned::<ConfigMap>()?.is_empty() {
        let mut map = config_map(&site);
        map.metadata = ObjectMeta {
            generate_name: "map-".into(),
            owner_references: vec![cx.owner_reference().unwrap()],
            ..ObjectMeta::default()
        };
        cx.cluster().namespaced::<ConfigMap>("default").create(&map, &WriteOptions::default()).await?;
    }
    // The next reconciliation may start before the cache receives the event of this write.
    Ok(Action::requeue_after(std::time::Duration::from_secs(2)))
}

#[test]
fn decision_on_a_stale_cache_is_caught() {
    let owning = || Controller::<Website>::new().owns::<ConfigMap>();
    let wrong = Kit::new(move |cluster| manager(cluster, owning().reconcile(trusts_its_cache))).create(site("blog"));
    wrong.second_run_writes_nothing().unwrap();
    not_converged(wrong.survives_reordering(0..20), "instead of 1");
    let right = Kit::new(move |cluster| manager(cluster, owning().reconcile(named_child))).create(site("blog"));
    right.survives_reordering(0..6).unwrap();
}

/// Deletes the child by name. A new leader with an outdated cache deletes the child of a newer site with the same name.
async fn retire_by_name(site: Arc<Website>, cx: Context<Website>) -> Result<Cleanup> {
    match cx
        .cluster()
        .namespaced::<ConfigMap>("default")
        .delete(site.metadata.name.as_str(), &DeleteOptions::default())
        .await
    {
        Ok(_) => Ok(Cleanup::Done),
        Err(error) if error.is_not_found() => Ok(Cleanup::Done),
        Err(error) => Err(error.into()),
    }
}

/// The corrected form of `retire_by_name`. The uid of the cached child is a precondition of the deletion.
async fn retire_by_uid(_: Arc<Website>, cx: Context<Website>) -> Result<Cleanup> {
    for map in cx.owned::<ConfigMap>()? {
        cx.delete(&map).await?;
    }
    Ok(Cleanup::Done)
}

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn deletion_by_name_is_caught() {
    let kit = |is_wrong: bool| {
        let operator = move |cluster| {
            let controller = Controller::<Website>::new().owns::<ConfigMap>();
            let controller = if is_wrong {
                controller.cleanup("example.com/map", retire_by_name)
            } else {
                controller.cleanup("example.com/map", retire_by_uid)
            };
            manager(cluster, controller.reconcile(named_child)).leader_election()
        };
        let kit = Kit::new(operator).create(site("blog")).delete::<Website>("blog").create(site("blog"));
        kit.step("write into the map", async |user: Cluster| {
            let maps = user.namespaced::<ConfigMap>("default");
            let mut map = maps.get("blog").await?;
            let sites = user.namespaced::<Website>("default");
            let is_new = map.metadata.owner_references[0].uid == sites.get("blog").await?.metadata.uid;
            map.data.insert("precious".into(), "data".into());
            if is_new {
                maps.update(&map, &WriteOptions::default()).await?;
            }
            if is_new {
                Ok(())
            } else {
                Err(Box::<dyn std::error::Error + Send + Sync>::from("the map is that of the old site"))
            }
        })
    };
    not_converged(
        kit(true).survives_stale_views(140..160),
        "configmaps default/blog.data.precious: \"data\" -> absent",
    );
    kit(false).survives_stale_views(8..14).unwrap();
}

/// Names the child after the domain, and deletes the child when the site no longer exists. If a site is re-created with
/// a different domain, the operator may observe only an update, so the child of the first site remains.
async fn child_by_domain(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    let mut map = config_map(&site);
    map.metadata = ObjectMeta::new("default", &site.spec.domain);
    map.metadata.labels.insert("site".into(), site.metadata.name.clone());
    cx.apply_unowned(map).await?;
    Ok(Action::await_change())
}

async fn forget_by_label(key: ObjectKey, cx: Context<Website>) -> Result<()> {
    let selector: LabelSelector = format!("site={}", key.name()).parse().unwrap();
    for map in cx.list::<ConfigMap>(&selector)? {
        cx.delete(&map).await?;
    }
    Ok(())
}

/// The corrected form of `child_by_domain`. The site owns the child, and each reconciliation deletes children that are
/// no longer needed.
async fn owned_child_by_domain(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    let mut map = config_map(&site);
    map.metadata = ObjectMeta::new("default", &site.spec.domain);
    cx.apply(map).await?;
    for map in cx.owned::<ConfigMap>()?.iter().filter(|map| map.metadata.name != site.spec.domain) {
        cx.delete(map).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn child_of_a_recreated_owner_is_caught() {
    let other = || {
        let mut other = site("blog");
        other.spec.domain = "other.example.com".into();
        other
    };
    let steps = |kit: Kit| kit.create(site("blog")).delete::<Website>("blog").create(other());
    let wrong = |cluster| {
        manager(
            cluster,
            Controller::<Website>::new().reads::<ConfigMap>().gone(forget_by_label).reconcile(child_by_domain),
        )
    };
    not_converged(
        steps(Kit::new(wrong)).survives_reordering(0..100),
        "configmaps default/blog.example.com: exists, and must not exist",
    );
    let right =
        |cluster| manager(cluster, Controller::<Website>::new().owns::<ConfigMap>().reconcile(owned_child_by_domain));
    steps(Kit::new(right)).survives_reordering(0..8).unwrap();
}

mod dhcp {
    use pintle_crd::Resource;
    use pintle_meta::ObjectMeta;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// A custom resource with the plural name `leases`.
    #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "dhcp.example.com", version = "v1")]
    pub(crate) struct Lease {
        pub(crate) metadata: ObjectMeta,
        pub(crate) address: String,
    }

    #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "dhcp.example.com", version = "v1")]
    pub(crate) struct Address {
        pub(crate) metadata: ObjectMeta,
        pub(crate) address: String,
    }
}

/// Creates an operator that creates a second object after a crash.
fn creates_twice<T>(make: fn(ObjectMeta) -> T) -> impl Fn(Cluster) -> Manager + Send + Sync + 'static
where
    T: pintle_crd::CustomResource + serde::Serialize + serde::de::DeserializeOwned,
{
    move |cluster| {
        let publish = move |site: Arc<Website>, cx: Context<Website>| async move {
            if site.status.is_none() {
                let metadata = ObjectMeta { generate_name: "lease-".into(), ..ObjectMeta::new("default", "") };
                let api = cx.cluster().api::<T>();
                api.create(&make(metadata), &WriteOptions::default()).await?;
                cx.apply_status(Status { url: "x".into(), conditions: Conditions::default() }).await?;
            }
            Ok(Action::await_change())
        };
        let controller = Controller::<Website>::new().reconcile(publish);
        Manager::new("patterns", cluster).install::<Website>().install::<T>().controller(controller)
    }
}

/// The order of requests differs in each run, but the crash must occur at the same request.
#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn crashes_find_a_second_object_each_time() {
    let make: fn(ObjectMeta) -> dhcp::Address = |metadata| dhcp::Address { metadata, address: "a".into() };
    for _ in 0..3 {
        let checked = Kit::new(creates_twice(make)).create(site("blog")).survives_crashes();
        not_converged(checked, "exists 2 times instead of 1");
    }
}

#[test]
fn custom_resource_named_leases_is_compared() {
    let lease = creates_twice(|metadata| dhcp::Lease { metadata, address: "a".into() });
    not_converged(Kit::new(lease).create(site("blog")).survives_crashes(), "exists 2 times instead of 1");
}
