//! Creates the ConfigMaps for the `controller` benchmark.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pintle::apiserver::ApiServer;
use pintle::prelude::*;
use pintle_restreq::TransportLayer;
use serde_json::json;

const NAMESPACES: usize = 50;

/// Creates `n` ConfigMaps of about a kilobyte in 50 namespaces, named `bench-0`, `bench-1` and so on.
///
/// # Errors
///
/// Returns the error of the first failed request.
pub async fn fill(server: &ApiServer, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster(server)?;
    for index in 0..NAMESPACES.min(n) {
        let space: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace(index) } }))?;
        cluster.api().create(&space, &WriteOptions::default()).await?;
    }
    let maps = Arc::new(cluster.api::<ConfigMap>());
    let creations = stream::iter(0..n).map(|index| {
        let maps = maps.clone();
        async move {
            maps.create(&map(index)?, &WriteOptions::default()).await?;
            Ok::<(), Box<dyn std::error::Error>>(())
        }
    });
    creations.buffer_unordered(16).try_collect::<()>().await?;
    cluster.shutdown().await;
    Ok(())
}

/// Updates `rate` of the `n` ConfigMaps per second until the server stops. The updates are sent in a
/// batch every 10 ms.
///
/// # Errors
///
/// Returns the error of the first failed request.
pub async fn change(server: &ApiServer, n: usize, rate: usize) -> Result<(), Box<dyn std::error::Error>> {
    let maps = cluster(server)?.api::<ConfigMap>();
    let mut random = fastrand::Rng::with_seed(3);
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for tick in 0.. {
        ticks.tick().await;
        for _ in rate * tick / 100..rate * (tick + 1) / 100 {
            let index = random.usize(..n);
            let key = ObjectKey::new(&namespace(index), &format!("bench-{index}"));
            let patch = Patch::Merge(json!({ "data": { "index": format!("{index} {tick}") } }));
            maps.patch(key, &patch, &WriteOptions::default()).await?;
        }
    }
    Ok(())
}

fn cluster(server: &ApiServer) -> Result<Cluster, pintle::Error> {
    let transport = Some(TransportLayer::in_place(server.in_process()));
    let client = Some(server.client_config());
    Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })
}

fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}

fn map(index: usize) -> serde_json::Result<ConfigMap> {
    let component = ["api", "queue", "cache"][index % 3];
    let listener = format!("[listener]\nport = {}\nbacklog = 64\n", 9000 + index % 1000);
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("bench-{index}"),
            "namespace": namespace(index),
            "labels": {
                "app.kubernetes.io/name": format!("app-{}", index % 200),
                "app.kubernetes.io/part-of": "bench",
                "app.kubernetes.io/component": component,
                "zone": format!("zone-{}", index % 5),
            },
        },
        "data": {
            "settings.ini": listener.repeat(8),
            "notes": "A controller has to look at each object once. ".repeat(4),
            "index": index.to_string(),
        },
    }))
}
