//! The operator of the demo, with a custom resource, a reconciler and a manager. Users of Pintle write similar
//! operators.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::children::{config_map, deployment};

/// A website.
#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", short("site"))]
#[resource(column("Domain", ".spec.domain"), column("Replicas", ".spec.replicas"), column("Phase", ".status.phase"))]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Spec {
    #[schemars(length(min = 1, max = 253))]
    pub(crate) domain: String,
    #[serde(default = "one")]
    #[schemars(range(max = 20))]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) theme: Theme,
    /// The text of each page by page name. The page names become keys in a ConfigMap.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 100, "x-kubernetes-validations" = [{"rule": "self.all(name, name.matches('^[-._a-zA-Z0-9]+$'))"}]))]
    pub(crate) pages: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Theme {
    Dark,
    Light,
    #[default]
    Plain,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) url: String,
    pub(crate) conditions: Conditions,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Phase {
    Published,
    /// The spec requests zero replicas.
    Suspended,
}

fn one() -> i32 {
    1
}

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
