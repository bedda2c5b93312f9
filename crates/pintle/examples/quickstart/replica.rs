//! One replica of the controller: caches, a controller above them, and a manager that runs it while it leads.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::controller::predicate::GenerationChanged;
use pintle::controller::{Controller, ControllerConfig, Distribution, Kind, Manager, ManagerStatus};
use pintle::informer::{InformerConfig, SharedInformer};
use pintle::leaderelect::{LeaderElectionConfig, LeaderElector, Lease, LeaseLock};
use pintle::meta::ClientConfig;
use pintle::restreq::{Api, RestClient};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::reconcile::WebsiteReconciler;
use crate::website::Website;

const WORKERS: usize = 8;

/// A replica at work. Dropping it kills it.
pub(crate) struct Replica {
    pub(crate) name: String,
    status: ManagerStatus,
    stop: CancellationToken,
    /// None once it has been waited for.
    task: Option<JoinHandle<()>>,
}

impl Replica {
    /// Starts a replica that shares nothing with others but the cluster.
    pub(crate) fn start(name: &str, config: &ClientConfig) -> Result<Self> {
        let manager = manager(name, config)?;
        let (status, stop) = (manager.status(), CancellationToken::new());
        let token = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = manager.run(&token).await {
                tracing::error!(%error, "a replica ended");
            }
        });
        Ok(Self { name: name.into(), status, stop, task: Some(task) })
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.status.is_leader()
    }

    /// As if its node lost power: nothing is finished, and the lease is not released.
    pub(crate) async fn kill(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _aborted = task.await;
        }
    }

    /// Stops in order: work is finished, then the lease is released.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ended = task.await;
        }
    }

    /// Reconciles so far, retries among them, and how long keys waited for a worker.
    pub(crate) fn work(&self) -> (u64, u64, Distribution) {
        let parts =
            self.status.metrics().into_iter().map(|part| (part.reconciles(), part.retries, part.queue_duration));
        parts.fold((0, 0, Distribution::default()), |all, part| (all.0 + part.0, all.1 + part.1, all.2.merge(&part.2)))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn manager(name: &str, config: &ClientConfig) -> Result<Manager> {
    let client = RestClient::new(config.clone())?;
    let sites: SharedInformer<Website> = SharedInformer::new(Api::all(client.clone()), InformerConfig::default());
    let config_maps: SharedInformer<ConfigMap> =
        SharedInformer::new(Api::all(client.clone()), InformerConfig::default());
    let deployments: SharedInformer<Deployment> =
        SharedInformer::new(Api::all(client.clone()), InformerConfig::default());
    let reconciler = WebsiteReconciler {
        sites: sites.lister(),
        config_maps: config_maps.lister(),
        deployments: deployments.lister(),
        site_api: Api::all(client.clone()),
        config_map_api: Api::all(client.clone()),
        deployment_api: Api::all(client.clone()),
    };
    let controller = Controller::of(Kind::of(&sites).when(GenerationChanged))
        .owns(&config_maps)
        .owns(&deployments)
        .config(ControllerConfig { max_concurrent_reconciles: WORKERS, ..Default::default() })
        .reconciler(reconciler);
    // Renewals have connections of their own: no amount of work can delay them.
    let leases: Api<Lease> = Api::all(RestClient::new(config.clone())?);
    let lock = LeaseLock::new(leases, "default", "website-controller");
    Ok(Manager::new().controller(controller).leader_election(LeaderElector::new(lock, election(name))?))
}

/// Quick enough for a demonstration; client-go's 15 s, 10 s and 2 s are the defaults.
fn election(name: &str) -> LeaderElectionConfig {
    LeaderElectionConfig::new(name).with_durations(
        Duration::from_secs(3),
        Duration::from_secs(2),
        Duration::from_millis(500),
    )
}
