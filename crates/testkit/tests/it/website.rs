//! The operator of the README, and the checks that it passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::Resource;
use pintle_meta::{Conditions, ObjectMeta};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, Violation};
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
    Manager::new("website-controller", cluster).leader_election().install::<Website>().controller(controller.reconcile(publish))
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
    kit().survives_stale_views(0..4)?;
    kit().survives_reordering(0..4)
}

#[test]
fn website_survives_chaos() -> Result<(), Violation> {
    kit().survives_chaos(0..8)
}

#[test]
fn timing() {
    let time = |what: &str, kit: Kit, f: fn(Kit)| { let s = std::time::Instant::now(); f(kit); println!("{what} {:?}", s.elapsed()); };
    fn without(cluster: Cluster) -> Manager {
        Manager::new("website-controller", cluster).install::<Website>().controller(Controller::<Website>::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish))
    }
    time("lab", Kit::new(operator), |kit| kit.run(async |_| Ok(())).unwrap());
    time("steady", kit(), |kit| kit.run(async |lab| lab.steady().await).unwrap());
    time("second", kit(), |kit| kit.second_run_writes_nothing().unwrap());
    time("silent 1h", kit(), |kit| kit.stays_silent(Duration::from_secs(3600)).unwrap());
    time("silent 1h no election", Kit::new(without).create(site("blog")).create(site("shop")).delete::<Website>("blog"), |kit| kit.stays_silent(Duration::from_secs(3600)).unwrap());
}
