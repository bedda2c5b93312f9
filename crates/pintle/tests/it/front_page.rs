//! Tests of the operator in the README.
#![allow(clippy::print_stdout, reason = "the report is for people")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use pintle::testkit::{Kit, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
struct Website {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    #[schemars(length(max = 253))]
    domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    url: String,
    conditions: Conditions,
}

impl Website {
    fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.conditions.is_true("Ready"))
    }
}

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    let url = format!("https://{}", site.spec.domain);
    let mut map = ConfigMap::default();
    map.metadata.name = Some(site.name().into());
    map.data = Some([("url".into(), url.clone())].into());
    cx.apply(map).await?;
    cx.apply_status(Status { url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

async fn retire(_: Arc<Website>, _: Context<Website>) -> pintle::Result<Cleanup> {
    Ok(Cleanup::Done)
}

fn operator(cluster: Cluster) -> Manager {
    Manager::new("website-controller", cluster)
        .leader_election()
        .install::<Website>()
        .controller(Controller::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish))
}

fn site(name: &str) -> Website {
    let spec = Spec { domain: format!("{name}.example.com") };
    Website { metadata: ObjectMeta::new("default", name), spec, status: None }
}

#[test]
fn site_is_published_although_writes_fail() -> Result<(), Violation> {
    Kit::new(operator).run(async |lab| {
        lab.fail("patch configmaps", 503, 3);
        lab.create(&site("blog")).await?;
        lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
        Ok(())
    })
}

#[test]
fn site_survives_a_crash_at_every_request() -> Result<(), Violation> {
    println!("{}", Kit::new(operator).create(site("blog")).survives_crashes()?);
    Ok(())
}

#[test]
fn readme_shows_these_tests() {
    let (page, file) = (include_str!("../../../../README.md"), include_str!("front_page.rs"));
    let (_, shown) = page.split_once("```rs\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let mut file = file.lines().map(str::trim);
    for line in shown.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
        assert!(file.any(|own| own == line), "the README shows another line: {line}");
    }
}
