//! Serves the debug page for an operator that has several problems. The operator runs on an embedded API server:
//!
//! ```sh
//! cargo run -p pintle-operator --example debug_page -- 8080
//! ```
//!
//! After it has started, open <http://127.0.0.1:8080/debug>. Press Ctrl-C to stop the program. If no port is given,
//! the program ends after one second.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::env::args;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_controller::ControllerConfig;
use pintle_leaderelect::Leadership;
use pintle_meta::{ObjectKey, ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, Manager, Result};
use pintle_sharding::{Shard, ShardsConfig};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

#[derive(Clone, Deserialize, Serialize)]
struct ConfigMap {
    metadata: ObjectMeta,
}
pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

/// A kind whose CustomResourceDefinition is not installed.
#[derive(Deserialize, Serialize)]
struct Certificate {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Certificate, "example.com/v1", "Certificate", "certificates", Namespaced);

/// Causes the problem that the name of the ConfigMap describes.
async fn reconcile(map: Arc<ConfigMap>, _: Context<ConfigMap>) -> Result<Action> {
    let name = &map.metadata.name;
    let number = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(1);
    match name.split('-').next() {
        Some("slow") => sleep(Duration::from_millis(150 * number)).await,
        Some("broken") => return Err(format!("cannot publish {name}: the DNS server does not answer").into()),
        Some("hostile") => return Err("<img src=x onerror=alert(1)> </script><script>alert(2)</script>".into()),
        Some("blocking") => std::thread::sleep(Duration::from_millis(900)),
        _ => {}
    }
    Ok(Action::requeue_after(Duration::from_secs(2 + number)))
}

async fn wait(_: Arc<Certificate>, _: Context<Certificate>) -> Result<Action> {
    Ok(Action::await_change())
}

async fn create_objects(cluster: &Cluster) -> Result<()> {
    for (name, count) in [("site", 40), ("slow", 9), ("broken", 6), ("hostile", 1), ("blocking", 1)] {
        for number in 1..=count {
            let map = ConfigMap { metadata: ObjectMeta::new("default", format!("{name}-{number}")) };
            cluster.api().create(&map, &WriteOptions::default()).await?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let port = args().nth(1).map(|port| port.parse::<u16>()).transpose()?;
    let cluster = Cluster::embedded().await?;
    create_objects(&cluster).await?;
    let mut shards = cluster.shards("default", "websites", ShardsConfig::default())?;
    let config = ControllerConfig {
        max_concurrent_reconciles: 4,
        blocked_after: Duration::from_millis(300),
        ..ControllerConfig::default()
    };
    let manager = Manager::new("website-controller", cluster)
        .leader_election()
        .serve(([127, 0, 0, 1], port.unwrap_or(0)))
        .debug_shards(shards.status())
        .readiness("dns", || Err("the DNS server does not answer".into()))
        .service("shards", async move |stop| {
            shards.run(&stop, async |_: Shard, leadership: Leadership| leadership.cancelled().await).await;
            Ok(())
        })
        .leader_service("report", async |_| Err("the disk of the report is full".into()))
        .controller(Controller::<ConfigMap>::new().name("website").config(config).reconcile(reconcile))
        .controller(
            Controller::<Certificate>::new()
                .watches(|map: &ConfigMap| [ObjectKey::new("default", &map.metadata.name)])
                .reconcile(wait),
        );
    if let Some(port) = port {
        println!("open http://127.0.0.1:{port}/debug");
        return manager.run_until_signal().await;
    }
    timeout(Duration::from_secs(1), manager.run_until_signal()).await.unwrap_or(Ok(()))
}
