//! Uses shards to distribute objects among replicas. Each object belongs to one shard, and each shard has one leader.
//!
//! Two replicas divide six shards. When one replica stops, the other replica immediately takes over its shards.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::eventually;
use pintle::leaderelect::LeaseGroupConfig;
use pintle::prelude::*;
use pintle::sharding::{Shard, Sharded, ShardsConfig};

const OBJECTS: usize = 20;

/// The name of each object, with the replica that handles the object.
type Handled = Arc<Mutex<BTreeMap<String, &'static str>>>;

async fn replica(
    cluster: Cluster,
    identity: &'static str,
    stop: CancellationToken,
    handled: Handled,
) -> Result<(), pintle::Error> {
    let election = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
    let electors = LeaseGroupConfig { election, ..LeaseGroupConfig::default() };
    let mut shards = cluster.shards("kube-system", "website-controller", ShardsConfig { shards: 6, electors })?;
    let work = async |shard: Shard, leadership: Leadership| {
        // The informer contains only the objects of the shard. A controller could use the informer as a source.
        let source = Sharded { source: cluster.namespaced::<ConfigMap>("default"), shard };
        let maps = SharedInformer::new(source, InformerConfig::default());
        let mut events = maps.subscribe();
        maps.start();
        println!("{identity} leads shard {}", shard.index());
        // `run` drops the future at the end of the leadership term, so two replicas never handle the same object at the
        // same time.
        let outcome = leadership.run(async {
            while let Some(event) = events.next().await {
                let mut handled = handled.lock().unwrap_or_else(PoisonError::into_inner);
                handled.insert(event.key().name().to_owned(), identity);
            }
        });
        tokio::select! {
            _ = outcome => {}
            () = leadership.cancelled() => {}
        }
    };
    shards.run(&stop, work).await;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    for number in 0..OBJECTS {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("site-{number}"));
        cluster.namespaced("default").create(&map, &WriteOptions::default()).await?;
    }
    let handled = Handled::default();
    let count = |replica: &str| {
        let handled = handled.lock().unwrap_or_else(PoisonError::into_inner);
        handled.iter().filter(|(name, by)| name.starts_with("site-") && **by == replica).count()
    };
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let first = tokio::spawn(replica(cluster.clone(), "replica-1", stop_first.clone(), handled.clone()));
    let second = tokio::spawn(replica(cluster.clone(), "replica-2", stop_second.clone(), handled.clone()));

    let within = Duration::from_secs(60);
    let is_divided =
        async || count("replica-1") > 0 && count("replica-2") > 0 && count("replica-1") + count("replica-2") == OBJECTS;
    ensure!(eventually(within, is_divided).await, "{handled:?}");
    println!("replica-1 handles {} objects, replica-2 {}", count("replica-1"), count("replica-2"));

    stop_first.cancel();
    first.await?.context("replica-1")?;
    ensure!(eventually(within, async || count("replica-2") == OBJECTS).await, "{handled:?}");
    println!("replica-2 handles all objects");
    stop_second.cancel();
    second.await?.context("replica-2")?;
    cluster.shutdown().await;
    Ok(())
}
