//! Compares the objects on the server with the specs of the websites. The observer has its own caches.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use tokio::time::{Instant, sleep};

use crate::children::config_map;
use crate::progress::Progress;
use crate::website::{Status, Website};

pub(crate) struct Observer {
    pub(crate) sites: SharedInformer<Website>,
    pub(crate) config_maps: SharedInformer<ConfigMap>,
    pub(crate) deployments: SharedInformer<Deployment>,
}

impl Observer {
    /// Starts an observer with a separate connection, so that it shares no caches with the replicas.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        let cluster = Cluster::connect(cluster.config().clone())?;
        let observer =
            Self { sites: cluster.informer(), config_maps: cluster.informer(), deployments: cluster.informer() };
        observer.sites.wait_for_sync().await?;
        observer.config_maps.wait_for_sync().await?;
        observer.deployments.wait_for_sync().await?;
        Ok(observer)
    }

    pub(crate) fn converged(&self) -> usize {
        self.sites.lister().list().iter().filter(|site| self.is_converged(site)).count()
    }

    fn is_converged(&self, site: &Website) -> bool {
        let is_ready = |status: &Status| {
            let ready = status.conditions.find("Ready");
            let is_current = |ready: &Condition| ready.observed_generation == Some(site.metadata.generation);
            status.conditions.is_true("Ready") && ready.is_some_and(is_current)
        };
        let (map, deployment) =
            (self.config_maps.lister().get(&site.key()), self.deployments.lister().get(&site.key()));
        site.status.as_ref().is_some_and(is_ready)
            && map.is_some_and(|map| map.data == config_map(site).data)
            && deployment.is_some_and(|deployment| deployment.spec.replicas == Some(site.spec.replicas))
    }

    pub(crate) async fn wait(
        &self,
        count: usize,
        of: usize,
        progress: &Progress,
        also: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(50);
        let started = Instant::now();
        loop {
            // Call `also` first, so that the count includes every change that `also` has observed.
            let holds = also(self);
            let converged = self.converged();
            progress.count(converged, of);
            if converged >= count && holds {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                bail!("only {converged} of {count} websites converged within {PATIENCE:?}");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}
