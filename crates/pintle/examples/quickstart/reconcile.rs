//! What a user of Pintle writes: from the state of the cache to the wanted state, for one key.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::meta::ObjectApi;
use pintle::prelude::*;
use tokio::time::timeout;

use crate::children::{config_map, deployment, same_pages, same_replicas};
use crate::website::Website;

/// Makes a config map, a deployment and a status of each website. It reads from caches alone, and writes what differs.
pub(crate) struct WebsiteReconciler {
    sites: Lister<Website>,
    config_maps: Lister<ConfigMap>,
    deployments: Lister<Deployment>,
    site_api: Api<Website>,
    config_map_api: Api<ConfigMap>,
    deployment_api: Api<Deployment>,
}

impl Reconciler for WebsiteReconciler {
    async fn reconcile(&self, request: ReconcileRequest) -> Result<Action, ReconcileError> {
        let Some(site) = self.sites.get(&request.key) else {
            // It was deleted. Its children name it as their owner, so the garbage collector takes them.
            return Ok(Action::await_change());
        };
        if site.metadata().is_terminating() {
            return Ok(Action::await_change());
        }
        self.publish_pages(&site).await?;
        self.run_servers(&site).await?;
        self.report(&site).await?;
        Ok(Action::await_change())
    }
}

impl WebsiteReconciler {
    /// Reads from the cluster's shared caches, and writes through its client.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self {
            sites: cluster.informer().lister(),
            config_maps: cluster.informer().lister(),
            deployments: cluster.informer().lister(),
            site_api: cluster.api(),
            config_map_api: cluster.api(),
            deployment_api: cluster.api(),
        }
    }

    async fn publish_pages(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = config_map(site);
        let written = match self.config_maps.get(&site.key()) {
            None => create(&self.config_map_api, &wanted).await?,
            Some(live) if same_pages(&live, &wanted) => return Ok(()),
            Some(live) => {
                // An object of the cache lacks the annotation of `kubectl apply`, and an update takes it away. This one is made here and
                // applied by nobody else; with others, patch instead, or keep it (`InformerConfig::projection`).
                let mut changed = ConfigMap::clone(&live);
                changed.data = wanted.data;
                changed.metadata.owner_references = wanted.metadata.owner_references;
                Some(self.config_map_api.update(&changed, &WriteOptions::default()).await?)
            }
        };
        seen(&self.config_maps, written).await;
        Ok(())
    }

    async fn run_servers(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = deployment(site);
        let written = match self.deployments.get(&site.key()) {
            None => create(&self.deployment_api, &wanted).await?,
            Some(live) if same_replicas(&live, &wanted) => return Ok(()),
            Some(live) => {
                let mut changed = Deployment::clone(&live);
                changed.metadata.owner_references = wanted.metadata.owner_references;
                changed.spec.replicas = wanted.spec.replicas;
                Some(self.deployment_api.update(&changed, &WriteOptions::default()).await?)
            }
        };
        seen(&self.deployments, written).await;
        Ok(())
    }

    async fn report(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = Some(site.desired_status());
        if site.status == wanted {
            return Ok(());
        }
        // The update carries the resourceVersion from the cache: a change that the cache has not seen yet is never overwritten.
        // The server says Conflict, and the key is tried again.
        let changed = Website { status: wanted, ..site.clone() };
        let written = self.site_api.update_status(&changed, &WriteOptions::default()).await?;
        seen(&self.sites, Some(written)).await;
        Ok(())
    }
}

/// Creates an object. What is there already, from a try whose answer was lost, is as good.
async fn create<T: Resource>(api: &Api<T>, object: &T) -> Result<Option<T>, ApiError>
where
    Api<T>: ObjectApi<T>,
{
    match ObjectApi::create(api, object, &WriteOptions::default()).await {
        Err(error) if error.is_already_exists() => Ok(None),
        other => other.map(Some),
    }
}

/// Waits until the cache has our own write, so that the reconcile which that write causes does not act on the state before it.
/// Only for a moment: while a watch is down, acting on old state costs no more than a conflict.
async fn seen<T: Object>(cache: &Lister<T>, written: Option<T>) {
    const MOMENT: Duration = Duration::from_millis(500);
    if let Some(written) = written {
        let _late = timeout(MOMENT, cache.wait_for(written.resource_version())).await;
    }
}
