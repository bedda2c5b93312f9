//! The reconciler, which compares cached objects with a website's desired state. Pintle users write code like this.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::controller::Reconciler;
use pintle::meta::ObjectApi;
use pintle::prelude::*;
use tokio::time::timeout;

use crate::children::{config_map, deployment, same_pages, same_replicas};
use crate::website::Website;

/// A reconciler that maintains each website's ConfigMap, Deployment and status. The reconciler reads only from caches,
/// and writes only objects that differ from the desired state.
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
            // The site was deleted. The garbage collector deletes its children, because they have an owner reference to
            // the site.
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
    /// Creates a reconciler that reads from the cluster's shared caches and writes with its client.
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
                // Cached objects lack the `kubectl apply` annotation, so an update with a cached object removes the
                // annotation on the server. Losing the annotation is acceptable here, because only this controller
                // writes the ConfigMap. If other clients apply the object, send a patch instead, or keep the annotation
                // in the cache with `InformerConfig::projection`.
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
        // The update contains the cached resourceVersion, so it never overwrites a newer change. If the object has
        // changed, the server returns a Conflict, and the controller retries the key.
        let changed = Website { status: wanted, ..site.clone() };
        let written = self.site_api.update_status(&changed, &WriteOptions::default()).await?;
        seen(&self.sites, Some(written)).await;
        Ok(())
    }
}

/// Creates an object. Returns `None` if the object already exists, because an earlier attempt may have lost the
/// response.
async fn create<T: Resource>(api: &Api<T>, object: &T) -> Result<Option<T>, ApiError>
where
    Api<T>: ObjectApi<T>,
{
    match ObjectApi::create(api, object, &WriteOptions::default()).await {
        Err(error) if error.is_already_exists() => Ok(None),
        other => other.map(Some),
    }
}

/// Waits until the cache contains the written object, because the write triggers another reconcile, which should not
/// see the old state. The wait is short. If the watch is down, the next reconcile sees the old state, which only causes
/// a conflict.
async fn seen<T: Object>(cache: &Lister<T>, written: Option<T>) {
    const MOMENT: Duration = Duration::from_millis(500);
    if let Some(written) = written {
        let _late = timeout(MOMENT, cache.wait_for(written.resource_version())).await;
    }
}
