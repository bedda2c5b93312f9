//! Creates the ConfigMaps for the benchmark area `controller`.

use std::sync::Arc;

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
    let transport = Some(TransportLayer::in_place(server.in_process()));
    let client = Some(server.client_config());
    let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })?;
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
