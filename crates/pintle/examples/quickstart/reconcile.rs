//! What a user of Pintle writes: from the state of the cache to the wanted state, for one key.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::controller::{Action, ReconcileError, Reconciler, Request};
use pintle::informer::Lister;
use pintle::meta::{ApiError, Object, ObjectApi, PostOptions, Resource};
use pintle::restreq::Api;

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
        match self.config_maps.get(&site.key()) {
            None => create(&self.config_map_api, &wanted).await,
            Some(live) if same_pages(&live, &wanted) => Ok(()),
            Some(live) => {
                let mut changed = ConfigMap::clone(&live);
                changed.data = wanted.data;
                changed.metadata.owner_references = wanted.metadata.owner_references;
                update(&self.config_map_api, &changed).await
            }
        }
    }

    async fn run_servers(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = deployment(site);
        match self.deployments.get(&site.key()) {
            None => create(&self.deployment_api, &wanted).await,
            Some(live) if same_replicas(&live, &wanted) => Ok(()),
            Some(live) => {
                let mut changed = Deployment::clone(&live);
                changed.metadata.owner_references = wanted.metadata.owner_references;
                changed.spec.replicas = wanted.spec.replicas;
                update(&self.deployment_api, &changed).await
            }
        }
    }

    async fn report(&self, site: &Website) -> Result<(), ApiError> {
        let wanted = Some(site.desired_status());
        if site.status == wanted {
            return Ok(());
        }
        let changed = Website { status: wanted, ..site.clone() };
        self.site_api.update_status(&changed, &PostOptions::default()).await.map(drop)
    }
}

/// The cache may be behind our own last write: what is there already is as good as created.
async fn create<T: Resource>(api: &Api<T>, object: &T) -> Result<(), ApiError>
where
    Api<T>: ObjectApi<T>,
{
    match ObjectApi::create(api, object, &PostOptions::default()).await {
        Err(error) if error.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}

/// With the resourceVersion from the cache, so that a change which the cache has not seen yet is never overwritten: the server
/// says Conflict, and the key is tried again.
async fn update<T: Resource>(api: &Api<T>, object: &T) -> Result<(), ApiError>
where
    Api<T>: ObjectApi<T>,
{
    ObjectApi::update(api, object, &PostOptions::default()).await.map(drop)
}
