//! Tests of `Cluster::plan` with a connection to the cluster through a socket.

use pintle::apiserver::PlanAction;
use pintle::prelude::*;

use crate::support::{ConfigMap, create, eventually, server, soon};

#[tokio::test]
async fn plan_lists_writes_and_sends_none() {
    let server = server().await;
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}").expect("a valid manifest");
    let live = Cluster::connect(server.client_config()).expect("a usable configuration");
    let plan = soon(live.plan()).await.expect("a plan");
    let cluster = Cluster::connect(plan.server().client_config()).expect("a usable configuration");

    let maps = cluster.informer::<ConfigMap>();
    soon(maps.wait_for_sync()).await.expect("the informer syncs");
    let lister = maps.lister();
    assert!(lister.get(&ConfigMap::new("before").key()).is_some());
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: meanwhile}}").expect("a valid manifest");
    eventually("the informer follows the cluster", async || lister.get(&ConfigMap::new("meanwhile").key())).await;

    let api = cluster.namespaced::<ConfigMap>("default");
    assert!(api.get("absent").await.expect_err("no such object").is_not_found());
    create(&api, "new").await;
    eventually("the informer sees the planned object", async || lister.get(&ConfigMap::new("new").key())).await;
    api.delete("before", &DeleteOptions::default()).await.expect("the object exists");

    let changes = plan.changes().await;
    let planned: Vec<_> = changes.iter().map(|change| (change.action, change.name.as_str())).collect();
    assert_eq!(planned, [(PlanAction::Create, "new"), (PlanAction::Delete, "before")]);
    assert!(server.audit().writes().is_empty(), "{:?}", server.audit().writes());
    soon(cluster.shutdown()).await;
    soon(plan.shutdown()).await;
    soon(live.shutdown()).await;
    soon(server.shutdown()).await;
}

#[tokio::test]
async fn plan_for_an_unreachable_cluster_fails() {
    let gone = server().await;
    let live = Cluster::connect(gone.client_config()).expect("a usable configuration");
    soon(gone.shutdown()).await;
    let error = soon(live.plan()).await.expect_err("the server has stopped");
    assert!(matches!(error, pintle::Error::Plan(_)), "{error}");
}
