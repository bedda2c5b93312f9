//! The operator of the README, and the checks that it passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::Resource;
use pintle_meta::{Conditions, ObjectMeta};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, Violation, seeds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1", column("URL", ".status.url"))]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Spec {
    pub(crate) domain: String,
    #[serde(default)]
    #[schemars(range(max = 20))]
    pub(crate) replicas: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) url: String,
    pub(crate) conditions: Conditions,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}
pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

impl Website {
    pub(crate) fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.conditions.is_true("Ready"))
    }
}

async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply(config_map(&site)).await?;
    cx.apply_status(Status { url: url(&site), conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

pub(crate) fn config_map(site: &Website) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::new("", &site.metadata.name), data: [("url".into(), url(site))].into() }
}

fn url(site: &Website) -> String {
    format!("https://{}", site.spec.domain)
}

async fn retire(_: Arc<Website>, _: Context<Website>) -> Result<Cleanup> {
    Ok(Cleanup::Done)
}

pub(crate) fn operator(cluster: Cluster) -> Manager {
    let controller = Controller::<Website>::new().owns::<ConfigMap>().cleanup("example.com/dns", retire);
    Manager::new("website-controller", cluster)
        .leader_election()
        .install::<Website>()
        .controller(controller.reconcile(publish))
}

pub(crate) fn site(name: &str) -> Website {
    let spec = Spec { domain: format!("{name}.example.com"), replicas: 1 };
    Website { metadata: ObjectMeta::new("default", name), spec, status: None }
}

fn kit() -> Kit {
    Kit::new(operator).create(site("blog")).create(site("shop")).delete::<Website>("blog")
}

#[test]
fn second_process_writes_nothing() {
    kit().second_run_writes_nothing().unwrap();
    kit().stays_silent(Duration::from_secs(3_600)).unwrap();
}

#[test]
fn website_survives_a_crash_at_each_request() {
    let report = kit().survives_crashes().unwrap();
    println!("{report}");
    for request in &report.requests {
        println!("{request}");
    }
    assert!(report.requests.len() > 10);
}

#[test]
fn website_survives_stale_views_and_reordering() -> Result<(), Violation> {
    let stale = kit().survives_stale_views(seeds(4))?;
    assert!(stale.faults > 0 && stale.processes > 2 * stale.runs, "{stale}");
    let reordered = kit().survives_reordering(seeds(4))?;
    assert_eq!(reordered.cuts, 0, "{reordered}");
    println!("{stale}\n{reordered}");
    Ok(())
}

#[test]
fn website_survives_chaos() -> Result<(), Violation> {
    let chaos = kit().survives_chaos(seeds(8))?;
    println!("{chaos}");
    assert!(chaos.faults > 0 && chaos.cuts > 0 && chaos.processes > 2 * chaos.runs, "{chaos}");
    Ok(())
}
