//! A controller at work, end to end. `README.md` in this folder says what is what; this file is the way from nothing to a
//! running controller, and `reconcile.rs` what it does.
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

/// One replica, from nothing to its end: caches, a controller above them, and a manager that runs it while it leads.
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
    // Quick enough for a demonstration; client-go's 15 s, 10 s and 2 s are the defaults.
    let (lease_duration, renew_deadline) = (Duration::from_secs(3), Duration::from_secs(2));
    let retry_period = Duration::from_millis(500);
    let election =
        LeaderElectionConfig { identity, lease_duration, renew_deadline, retry_period, ..Default::default() };
    let elector = cluster.elector("default/website-controller", election)?;
    Ok((cluster, Manager::new().controller(controller).leader_election(elector)))
}
