//! Tests that the operator in the README passes all checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_cluster::Cluster;
use pintle_crd::Resource;
use pintle_meta::{Conditions, ObjectMeta};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, SeedReport, Violation, seeds};
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

pub(crate) async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
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
fn site_is_published_although_writes_fail() -> Result<(), Violation> {
    Kit::new(operator).run(async |lab| {
        lab.fail("patch configmaps", 503, 3);
        lab.create(&site("blog")).await?;
        lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
        assert_eq!(lab.faults().hits(), 3);
        Ok(())
    })
}

#[test]
fn second_process_writes_nothing() {
    kit().second_run_writes_nothing().unwrap();
    kit().stays_silent(Duration::from_secs(600)).unwrap();
}

#[test]
fn website_survives_a_crash_at_each_request() {
    let start = Instant::now();
    let report = Kit::new(operator).create(site("blog")).delete::<Website>("blog").survives_crashes().unwrap();
    println!("{report}, in {:?}", start.elapsed());
    assert!(report.requests.len() > 10 && report.runs > 3 * report.requests.len(), "{report}");
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
fn seed_repeats_the_run() -> Result<(), Violation> {
    type Check = fn(&Kit, std::ops::Range<u64>) -> Result<SeedReport, Violation>;
    let checks: [Check; 3] = [Kit::survives_chaos, Kit::survives_reordering, Kit::survives_stale_views];
    for (number, check) in checks.into_iter().enumerate() {
        let first = check(&kit(), 3..4)?;
        for _ in 0..2 {
            assert_eq!(check(&kit(), 3..4)?, first, "check {number}");
        }
    }
    Ok(())
}

/// The default number of seeds. With more seeds, the test measures the memory usage after each batch of this size.
const BATCH: usize = 8;

#[test]
fn website_survives_chaos() -> Result<(), Violation> {
    let start = Instant::now();
    let all: Vec<u64> = seeds(BATCH as u64).collect();
    let mut memory = Vec::new();
    for batch in all.chunks(BATCH) {
        let chaos = kit().survives_chaos(batch[0]..batch[batch.len() - 1] + 1)?;
        println!("seeds {}..{}, {:?}: {chaos}", batch[0], batch[0] + batch.len() as u64, start.elapsed());
        assert!(batch.len() < BATCH || chaos.faults > 0 && chaos.processes > 2 * chaos.runs, "{chaos}");
        memory.push(resident_kib());
    }
    println!("resident memory after each batch, in KiB: {memory:?}");
    // Ignore the first batches, because the allocator retains some memory from the first runs.
    if let Some((first, last)) = memory.get(10).zip(memory.last()) {
        assert!(last < &(first + first / 4 + 32 * 1_024), "the memory grows: {memory:?}");
    }
    Ok(())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
