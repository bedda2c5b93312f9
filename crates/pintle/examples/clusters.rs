//! One operator for several clusters. If a cluster is unreachable, only its own controllers wait.
//!
//! For each ConfigMap, the operator maintains a Secret in the same cluster. The operator runs in its own cluster and
//! also handles an edge cluster. A third cluster is unreachable.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use pintle::apiserver::eventually;
use pintle::operator::ControllerBuilder;
use pintle::prelude::*;

async fn publish(map: Arc<ConfigMap>, cx: Context<ConfigMap>) -> pintle::Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name = Some(map.name().into());
    secret.string_data = map.data.clone();
    cx.apply(secret).await?; // Sent to the ConfigMap's cluster.
    Ok(Action::await_change())
}

fn controller(cluster: &str) -> ControllerBuilder<ConfigMap> {
    // Controllers of the same manager need different names.
    Controller::new().name(format!("publish-{cluster}")).owns::<Secret>()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (hub, edge) = (Cluster::embedded().await?, Cluster::embedded().await?);
    // No server listens on this port.
    let lost = Cluster::connect(ClientConfig::new("http://127.0.0.1:1"))?;
    for cluster in [&hub, &edge] {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("settings".into());
        map.data = Some([("colour".into(), "blue".into())].into());
        cluster.namespaced("default").create(&map, &WriteOptions::default()).await?;
    }

    let manager = Manager::new("publisher", hub.clone()).leader_election();
    let manager = manager.controller(controller("hub").reconcile(publish));
    let others = [("edge", &edge), ("lost", &lost)];
    let manager = others
        .into_iter()
        .fold(manager, |manager, (name, cluster)| manager.controller_in(cluster, controller(name).reconcile(publish)));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let used = async {
        let is_published =
            async |cluster: &Cluster| cluster.namespaced::<Secret>("default").get("settings").await.is_ok();
        let both = async || is_published(&hub).await && is_published(&edge).await;
        let published = eventually(Duration::from_secs(60), both).await;
        // `Manager::serve` returns the same text for the readiness probe.
        let ready = status.ready().to_string();
        stop.cancel();
        (published, ready)
    };
    let (ended, (published, ready)) = tokio::join!(manager.run(&stop), used);
    ended?;
    print!("{ready}");
    ensure!(published && ready.contains("[+]publish-edge ok") && ready.contains("[-]publish-lost failed"));
    for cluster in [lost, edge, hub] {
        cluster.shutdown().await;
    }
    Ok(())
}
