//! A complete demo of a controller. `README.md` in this folder describes the files. This file builds the controller and
//! the manager, and `reconcile.rs` contains the reconciler.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod children;
mod flags;
mod manifests;
mod observer;
mod progress;
mod reconcile;
mod replica;
mod script;
mod serve;
mod stage;
mod summary;
mod website;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use pintle::controller::{Controller, Manager};
use pintle::prelude::*;

use crate::{reconcile::WebsiteReconciler, website::Website};

#[tokio::main]
async fn main() -> ExitCode {
    flags::log();
    match script::run(flags::Flags::read()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Creates one replica: caches, a controller that uses them, and a manager that runs the controller while the replica
/// leads.
fn replica(
    config: ClientConfig,
    identity: String,
    metrics: Arc<dyn Provider>,
) -> Result<(Cluster, Manager), pintle::Error> {
    let cluster = Cluster::connect(ClusterConfig {
        client: Some(config),
        metrics: Some(metrics.clone()),
        ..ClusterConfig::default()
    })?;
    let sites = cluster.informer::<Website>();
    let controller = Controller::of(Kind::of(&sites).when(GenerationChanged))
        .owns(&cluster.informer::<ConfigMap>())
        .owns(&cluster.informer::<Deployment>())
        .config(ControllerConfig { max_concurrent_reconciles: 8, metrics: Some(metrics), ..Default::default() })
        .reconciler(WebsiteReconciler::new(&cluster));
    // The durations are short, so that failover is fast. The defaults are 15 s, 10 s and 2 s, as in client-go.
    let (lease_duration, renew_deadline) = (Duration::from_secs(3), Duration::from_secs(2));
    let retry_period = Duration::from_millis(500);
    let election =
        LeaderElectionConfig { identity, lease_duration, renew_deadline, retry_period, ..Default::default() };
    let elector = cluster.elector("default/website-controller", election)?;
    Ok((cluster, Manager::new().controller(controller).leader_election(elector)))
}
