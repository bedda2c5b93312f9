//! Tests of the check that only the leader of a shard writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cluster::Cluster;
use pintle_meta::{ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, Violation};

use crate::website::{ConfigMap, Website, config_map, site};

async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply(config_map(&site)).await?;
    Ok(Action::await_change())
}

fn sharded(cluster: Cluster) -> Manager {
    Manager::new("sharded", cluster)
        .install::<Website>()
        .sharded(2, || Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish))
}

/// Creates an operator whose replicas each create a ConfigMap, even without being the leader of a shard.
fn writes_before_it_leads(cluster: Cluster) -> Manager {
    let maps = cluster.namespaced::<ConfigMap>("default");
    sharded(cluster).service("rogue", move |_| async move {
        let map = ConfigMap { metadata: ObjectMeta::new("default", "rogue"), data: BTreeMap::new() };
        match maps.create(&map, &WriteOptions::default()).await {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(()),
        }
    })
}

#[test]
fn sharded_operator_passes_the_checks() {
    let kit = || Kit::new(sharded).create(site("blog")).create(site("shop")).delete::<Website>("blog");
    kit().second_run_writes_nothing().unwrap();
    kit().survives_chaos(0..4).unwrap();
    kit().survives_reordering(0..2).unwrap();
}

#[test]
fn write_without_leading_a_shard_is_caught() {
    let kit = Kit::new(writes_before_it_leads).create(site("blog"));
    match kit.survives_reordering(0..4) {
        Err(Violation::TwoLeaders { writes, .. }) => {
            assert!(writes[0].contains(" sent create configmaps "), "{writes:?}");
        }
        other => panic!("not caught: {other:?}"),
    }
}

/// Changes the ConfigMaps of all sites in each reconciliation. Therefore, the leader of a shard also writes the
/// ConfigMaps of sites in other shards.
async fn writes_for_both_sites(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply(config_map(&site)).await?;
    let maps = cx.cluster().namespaced::<ConfigMap>("default");
    for name in ["blog", "shop", "wiki", "mail"] {
        let patch = pintle_meta::Patch::Merge(serde_json::json!({"metadata": {"annotations": {"seen": "yes"}}}));
        match maps.patch(name, &patch, &WriteOptions::default()).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Action::await_change())
}

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn write_for_the_shard_of_another_replica_is_caught() {
    let wrong = |cluster| {
        Manager::new("sharded", cluster)
            .install::<Website>()
            .sharded(2, || Controller::<Website>::new().owns::<ConfigMap>().reconcile(writes_for_both_sites))
    };
    let kit = ["blog", "shop", "wiki", "mail"].iter().fold(Kit::new(wrong), |kit, name| kit.create(site(name)));
    // For some seeds, one replica leads both shards, so the bug has no effect.
    match kit.survives_reordering(0..30) {
        Err(Violation::TwoLeaders { writes, .. }) => {
            assert!(writes[0].contains(" led the shard of default/"), "{writes:?}");
        }
        other => panic!("not caught: {other:?}"),
    }
}
