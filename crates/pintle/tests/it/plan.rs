//! A plan for a cluster that is reached by our own client, over sockets.

use pintle::apiserver::PlanAction;
use pintle::prelude::*;

use crate::support::{ConfigMap, create, eventually, server, soon};

#[tokio::test]
async fn what_a_controller_does_on_a_plan_is_told_and_never_sent() {
    let server = server().await;
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}").expect("it is valid");
    let live = Cluster::connect(server.client_config()).expect("a usable configuration");
    let plan = soon(live.plan()).await.expect("a plan");
    let cluster = Cluster::connect(plan.server().client_config()).expect("a usable configuration");

    let maps = cluster.informer::<ConfigMap>();
    soon(maps.wait_for_sync()).await.expect("it syncs");
    let lister = maps.lister();
    assert!(lister.get(&ConfigMap::new("before").key()).is_some());
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: meanwhile}}").expect("it is valid");
    eventually("the informer follows the cluster", async || lister.get(&ConfigMap::new("meanwhile").key())).await;

    let api = cluster.namespaced::<ConfigMap>("default");
    assert!(api.get("absent").await.expect_err("there is none").is_not_found());
    create(&api, "new").await;
    eventually("it hears of what is planned", async || lister.get(&ConfigMap::new("new").key())).await;
    api.delete("before", &DeleteOptions::default()).await.expect("it is there");

    let changes = plan.changes().await;
    let told: Vec<_> = changes.iter().map(|change| (change.action, change.name.as_str())).collect();
    assert_eq!(told, [(PlanAction::Create, "new"), (PlanAction::Delete, "before")]);
    assert!(server.audit().writes().is_empty(), "{:?}", server.audit().writes());
    soon(cluster.shutdown()).await;
    soon(plan.shutdown()).await;
    soon(live.shutdown()).await;
    soon(server.shutdown()).await;
}

#[tokio::test]
async fn a_cluster_that_is_not_there_cannot_be_planned_for() {
    let gone = server().await;
    let live = Cluster::connect(gone.client_config()).expect("a usable configuration");
    soon(gone.shutdown()).await;
    let error = soon(live.plan()).await.expect_err("nobody is there");
    assert!(matches!(error, pintle::Error::Plan(_)), "{error}");
}
