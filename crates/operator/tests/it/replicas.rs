//! Tests of multiple clusters, shards, timers and the manager's status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_controller::WorkState;
use pintle_leaderelect::{LeaderElectionConfig, LeaseGroupConfig};
use pintle_meta::{ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, Manager, Result};
use pintle_sharding::ShardsConfig;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use crate::http::{get, listen};
use crate::support::{ConfigMap, Running, Website, World, eventually, map, publish, soon};

#[tokio::test]
async fn controllers_of_two_clusters_write_to_their_own_cluster() {
    let (home, edge) = (World::with_site("blog").await, World::start().await);
    let controller = || Controller::<Website>::new().owns::<ConfigMap>();
    let manager = home.manager().controller(controller().reconcile(publish));
    let manager = manager.install_in::<Website>(&edge.cluster);
    let manager = manager.controller_in(&edge.cluster, controller().name("website-edge").reconcile(publish));
    let status = manager.status();
    let running = Running::start(manager);
    let create = async || edge.try_create("shop").await.ok();
    eventually("the kind is installed in the other cluster", create).await;
    eventually("the child in the first cluster", async || home.child("blog").await.ok()).await;
    eventually("the child in the other cluster", async || edge.child("shop").await.ok()).await;
    assert!(home.child("shop").await.unwrap_err().is_not_found());
    assert!(edge.child("blog").await.unwrap_err().is_not_found());
    let names: Vec<_> = status.controllers().iter().map(|controller| controller.name().to_owned()).collect();
    assert_eq!(names, ["website", "website-edge"]);
    running.stop().await.unwrap();
}

/// The last replica that reconciled each object, and the number of reconciliations.
type Calls = Arc<Mutex<BTreeMap<String, (&'static str, usize)>>>;

fn replica(world: &World, identity: &'static str, calls: &Calls) -> Manager {
    let election = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
    let config = ShardsConfig { shards: 8, electors: LeaseGroupConfig { election, ..LeaseGroupConfig::default() } };
    let calls = calls.clone();
    world.manager().sharded_with(config, move || {
        let calls = calls.clone();
        Controller::<Website>::new().owns::<ConfigMap>().reconcile(move |site: Arc<Website>, cx: Context<Website>| {
            let calls = calls.clone();
            async move {
                assert!(cx.leadership().is_some(), "a shard has a term");
                cx.apply(map(&site.metadata.name, "by", identity)).await?;
                let mut calls = calls.lock().unwrap();
                let count = calls.get(&site.metadata.name).map_or(0, |(_, count)| *count);
                calls.insert(site.metadata.name.clone(), (identity, count + 1));
                Ok(Action::await_change())
            }
        })
    })
}

#[tokio::test]
async fn replicas_divide_objects_and_take_over() {
    let world = World::with_site("site-0").await;
    for number in 1..24 {
        world.create(&format!("site-{number}")).await;
    }
    let calls = Calls::default();
    let (first, second) = (replica(&world, "first", &calls), replica(&world, "second", &calls));
    let status = first.status();
    let (first, second) = (Running::start(first), Running::start(second));
    let count = |replica: &str| calls.lock().unwrap().values().filter(|(by, _)| *by == replica).count();
    eventually("both replicas work", async || {
        let (first, second) = (count("first"), count("second"));
        (first > 0 && second > 0 && first + second == 24).then_some(())
    })
    .await;
    let names: Vec<_> = status.controllers().iter().map(|controller| controller.name().to_owned()).collect();
    assert_eq!(names[0], "website-shard-0");
    assert_eq!(names.len(), 8);
    // At most one shard's controller may know a key.
    let knows = |name: &str| {
        let controllers = status.controllers();
        let key = format!("default/{name}");
        controllers.iter().filter(|one| one.explain(&key).is_some_and(|why| why.history.is_some())).count()
    };
    assert!((0..24).all(|number| knows(&format!("site-{number}")) <= 1));
    first.stop().await.unwrap();
    for number in 0..24 {
        world.annotate(&format!("site-{number}"), "again").await;
    }
    eventually("the other replica handles all objects", async || (count("second") == 24).then_some(())).await;
    for number in 0..24 {
        let name = format!("site-{number}");
        eventually("the child is written by the other replica", async || {
            world.child(&name).await.ok().filter(|child| child.data["by"] == "second")
        })
        .await;
    }
    second.stop().await.unwrap();
}

#[tokio::test]
async fn probes_and_debug_page_show_unusable_leases_of_shards() {
    let world = World::with_site("blog").await;
    let forbidden = Rule { resource: Some("leases".into()), times: None, ..Rule::new(Fault::Answer(Answer::new(403))) };
    let faults = world.cluster.server().unwrap().faults();
    let rule = faults.add(forbidden);
    let (listener, address) = listen().await;
    let election = LeaderElectionConfig {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(500),
        retry_period: Duration::from_millis(100),
        ..LeaderElectionConfig::default()
    };
    let config = ShardsConfig { shards: 2, electors: LeaseGroupConfig { election, ..LeaseGroupConfig::default() } };
    let manager = world
        .manager()
        .serve_on(listener)
        .sharded_with(config, || Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish));
    let running = Running::start(manager);
    let problem = "[-]shards/website-controller-website failed: leader election by default/website-controller-website-";
    eventually("not ready", async || get(address, "/readyz").await.filter(|ready| ready.1.contains(problem))).await;
    let debug: Value = serde_json::from_str(&get(address, "/debug.json").await.unwrap().1).unwrap();
    let checks = debug["ready"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "shards/website-controller-website").unwrap();
    assert!(check["problem"].as_str().is_some_and(|problem| problem.contains("403")), "{check}");
    assert!(debug["live"].as_array().unwrap().iter().any(|live| live["name"] == check["name"]), "{}", debug["live"]);
    let error = debug["shards"][0]["member"]["last_error"].as_str().unwrap();
    assert!(error.contains("403"), "{error}");
    faults.remove(rule);
    eventually("ready", async || get(address, "/readyz").await.filter(|ready| ready.0 == 200)).await;
    eventually("the child exists", async || world.child("blog").await.ok()).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn status_explains_keys_and_counts_the_queue() {
    let world = World::with_site("blog").await;
    let reconcile = async |_: Arc<Website>, _: Context<Website>| Err::<Action, _>("no zone for blog".into());
    let manager = world.manager().controller(Controller::<Website>::new().reconcile(reconcile));
    let status = manager.status();
    assert!(status.controller("website").is_none(), "the manager does not run yet");
    let running = Running::start(manager);
    let explained = eventually("the key fails", async || {
        let explained = status.controller("website")?.explain("default/blog")?;
        matches!(explained.state, WorkState::RetryIn(_)).then(|| explained.to_string())
    })
    .await;
    assert!(explained.contains("no zone for blog"), "{explained}");
    let website = status.controller("website").unwrap();
    let counts = website.queue_counts().unwrap();
    assert_eq!(counts.queued + counts.delayed + counts.in_flight, 1, "{counts:?}");
    assert_eq!(website.most_failing(5)[0].key, "default/blog");
    running.stop().await.unwrap();
    assert_eq!(website.queue_counts(), None);
}

#[tokio::test]
async fn objects_and_services_are_called_after_each_period() {
    let world = World::with_site("blog").await;
    let (site_calls, mut sites) = unbounded_channel();
    let (report_calls, mut reports) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, _: Context<Website>| {
        _ = site_calls.send(site.metadata.name.clone());
        async { Ok(Action::await_change()) }
    };
    let period = Duration::from_millis(5);
    let manager = world.manager().controller(Controller::<Website>::new().every(period).reconcile(reconcile));
    let manager = manager.every("report", period, move || {
        let sent = report_calls.send(());
        async move { Result::Ok(sent?) }
    });
    let running = Running::start(manager);
    for _ in 0..3 {
        assert_eq!(soon(sites.recv()).await.unwrap(), "blog", "the object has not changed");
        soon(reports.recv()).await.unwrap();
    }
    running.stop().await.unwrap();
}

impl World {
    async fn try_create(&self, name: &str) -> Result<Website, pintle_meta::ApiError> {
        let spec = crate::support::Spec { domain: format!("{name}.example.com") };
        let site = Website { metadata: ObjectMeta::new("default", name), spec, status: None };
        self.cluster.api().create(&site, &WriteOptions::default()).await
    }
}

#[tokio::test]
async fn wrong_settings_of_shards_are_errors() {
    let world = World::start().await;
    for (shards, name, expected) in
        [(0, "sites", "has 0 shards"), (2, "My_sites", "the controller \"My_sites\" cannot start")]
    {
        let manager =
            world.manager().sharded(shards, move || Controller::<Website>::new().name(name).reconcile(publish));
        let error = soon(manager.run(&tokio_util::sync::CancellationToken::new())).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
