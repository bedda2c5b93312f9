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
use pintle::metrics::Provider;
use pintle::prelude::*;

use crate::reconcile::WebsiteReconciler;
use crate::website::Website;

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

/// What one replica runs: caches, a controller above them, and a manager that runs it while it leads.
fn manager(cluster: &Cluster, replica: &str, metrics: Arc<dyn Provider>) -> Result<Manager, pintle::Error> {
    let sites = cluster.informer::<Website>();
    let controller = Controller::of(Kind::of(&sites).when(GenerationChanged))
        .owns(&cluster.informer::<ConfigMap>())
        .owns(&cluster.informer::<Deployment>())
        .config(ControllerConfig {
            max_concurrent_reconciles: 8,
            metrics: Some(metrics),
            ..ControllerConfig::default()
        })
        .reconciler(WebsiteReconciler::new(cluster));
    // Quick enough for a demonstration; client-go's 15 s, 10 s and 2 s are the defaults.
    let (lease, renew, retry) = (Duration::from_secs(3), Duration::from_secs(2), Duration::from_millis(500));
    let election = LeaderElectionConfig {
        identity: replica.into(),
        lease_duration: lease,
        renew_deadline: renew,
        retry_period: retry,
        ..LeaderElectionConfig::default()
    };
    let elector = cluster.elector(ObjectKey::new("default", "website-controller"), election)?;
    Ok(Manager::new().controller(controller).leader_election(elector))
}
