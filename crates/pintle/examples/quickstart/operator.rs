//! The operator of the demo, with a reconciler and a manager. Users of Pintle write similar operators.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use pintle::prelude::*;

use crate::children::{config_map, deployment};
use crate::website::{Phase, Status, Website};

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    // `apply` sets the namespace and the owner, and sends no request if nothing would change.
    cx.apply(config_map(&site)).await?;
    cx.apply(deployment(&site)).await?;
    let phase = if site.spec.replicas == 0 { Phase::Suspended } else { Phase::Published };
    let url = format!("https://{}/", site.spec.domain);
    cx.apply_status(Status { phase, url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

/// Creates one replica of the operator. The replicas share nothing except the cluster.
pub(crate) fn replica(identity: &str, config: ClientConfig) -> Result<Manager, pintle::operator::OperatorError> {
    // The durations are short, to make the failover in the demo fast. As in client-go, the defaults are 15 s, 10 s and
    // 2 s.
    let election = LeaderElectionConfig {
        identity: identity.into(),
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
        ..LeaderElectionConfig::default()
    };
    let controller = Controller::new().owns::<ConfigMap>().owns::<Deployment>().concurrency(8).reconcile(publish);
    let manager = Manager::connect("website-controller", config)?;
    Ok(manager.leader_election_with(election).install::<Website>().controller(controller))
}
