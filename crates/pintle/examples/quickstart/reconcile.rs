//! What a user of Pintle writes: from the state of the cache to the wanted state, for one key.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::controller::{Action, ReconcileError, Reconciler, Request};
use pintle::informer::Lister;
use pintle::meta::{ApiError, Object, ObjectApi, PostOptions, Resource};
use pintle::restreq::Api;
use tokio::time::timeout;

use crate::children::{config_map, deployment, same_pages, same_replicas};
use crate::website::Website;

/// Makes a config map, a deployment and a status of each website. It reads from caches alone, and writes what differs.
pub(crate) struct WebsiteReconciler {
    pub(crate) sites: Lister<Website>,
    pub(crate) config_maps: Lister<ConfigMap>,
    pub(crate) deployments: Lister<Deployment>,
    pub(crate) site_api: Api<Website>,
    pub(crate) config_map_api: Api<ConfigMap>,
    pub(crate) deployment_api: Api<Deployment>,
}

impl Reconciler for WebsiteReconciler {
    async fn reconcile(&self, request: Request) -> Result<Action, ReconcileError> {
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
    async fn publish_pages(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = config_map(site);
        let written = match self.config_maps.get(&site.key()) {
            None => create(&self.config_map_api, &wanted).await?,
            Some(live) if same_pages(&live, &wanted) => return Ok(()),
            Some(live) => {
                let mut changed = ConfigMap::clone(&live);
                changed.data = wanted.data;
                changed.metadata.owner_references = wanted.metadata.owner_references;
                Some(self.config_map_api.update(&changed, &PostOptions::default()).await?)
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
                Some(self.deployment_api.update(&changed, &PostOptions::default()).await?)
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
        let written = self.site_api.update_status(&changed, &PostOptions::default()).await?;
        seen(&self.sites, Some(written)).await;
        Ok(())
    }
}

/// Creates an object. What is there already, from a try whose answer was lost, is as good.
async fn create<T: Resource>(api: &Api<T>, object: &T) -> Result<Option<T>, ApiError>
where
    Api<T>: ObjectApi<T>,
{
    match ObjectApi::create(api, object, &PostOptions::default()).await {
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
