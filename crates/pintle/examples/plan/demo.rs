//! A small embedded cluster, with a controller that copies labels.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pintle::apiserver::eventually;
use pintle::controller::Controller;
use pintle::prelude::*;
use pintle::restreq::TransportLayer;

const CLUSTER: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: team-a, labels: {team: a}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: team-a}, data: {colour: blue}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: team-a, labels: {team: a}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: left-over, namespace: team-a, annotations: {expired: 'true'}}}
";

/// Runs a controller against a server that records writes instead of executing them. Prints the recorded writes.
pub(crate) async fn run() -> anyhow::Result<()> {
    let live = Cluster::embedded().await?;
    live.server().context("an embedded server")?.load(CLUSTER)?;
    let plan = live.plan().await?;

    let client = Some(plan.server().client_config());
    let transport = Some(TransportLayer::in_place(plan.server().in_process()));
    let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })?;
    let stop = CancellationToken::new();
    let controller = labels(&cluster);
    let changes = async {
        let all_planned = eventually(Duration::from_secs(30), async || plan.changes().await.len() == 2).await;
        stop.cancel();
        all_planned
    };
    let (ended, all_planned) = tokio::join!(controller.run(&stop), changes);
    ended?;
    print!("{}", plan.changes().await);
    anyhow::ensure!(all_planned, "the controller planned other changes than expected");
    let untouched = live.namespaced::<ConfigMap>("team-a").list(&ListOptions::default()).await?.items.len();
    println!("the cluster still has its {untouched} ConfigMaps, unchanged");
    cluster.shutdown().await;
    plan.shutdown().await;
    live.shutdown().await;
    Ok(())
}

/// Returns a controller that copies the team label of a namespace to its ConfigMaps, and deletes expired ConfigMaps.
/// The controller has no special code for dry runs.
fn labels(cluster: &Cluster) -> Controller {
    let maps = cluster.informer::<ConfigMap>();
    let (lister, api) = (maps.lister(), cluster.api::<ConfigMap>());
    let namespaces = cluster.api::<Namespace>();
    Controller::of(&maps).reconciler(move |request: ReconcileRequest| {
        let (found, api, namespaces) = (lister.get(&request.key), api.clone(), namespaces.clone());
        async move {
            let Some(map) = found else { return Ok(Action::await_change()) };
            if map.metadata.annotations.iter().flatten().any(|(key, _)| key == "expired") {
                api.delete(request.key.clone(), &DeleteOptions::default()).await?;
                return Ok(Action::await_change());
            }
            let namespace = namespaces.get(request.key.namespace().unwrap_or_default()).await?;
            let team = namespace.metadata.labels.and_then(|mut labels| labels.remove("team"));
            let has = map.metadata.labels.as_ref().and_then(|labels| labels.get("team"));
            if let Some(team) = team.filter(|team| Some(team) != has) {
                let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"team": team}}}));
                api.patch(request.key.clone(), &patch, &WriteOptions::default()).await?;
            }
            Ok(Action::await_change())
        }
    })
}
