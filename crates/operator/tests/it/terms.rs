//! Tests of lost leadership terms and lost shards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Fault, Rule};
use pintle_controller::ManagerStatus;
use pintle_leaderelect::{LeaderElectionConfig, LeadershipLost, Lease, LeaseGroupConfig};
use pintle_meta::{DeleteOptions, ObjectMeta, Patch, WriteOptions};
use pintle_operator::{Action, Cleanup, Context, Controller};
use pintle_sharding::ShardsConfig;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{ConfigMap, Running, Website, World, eventually, map, publish, soon};

fn short() -> LeaderElectionConfig {
    LeaderElectionConfig {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(100),
        ..LeaderElectionConfig::default()
    }
}

impl World {
    /// Makes another holder, which never renews the Lease, acquire the Lease.
    async fn take_over(&self, lease: &str) {
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "stranger"}}));
        let leases = self.cluster.namespaced::<Lease>("default");
        leases.patch(lease, &patch, &WriteOptions::default()).await.unwrap();
    }
}

async fn leads(status: &ManagerStatus, expected: bool) {
    eventually("the leadership changes", async || (status.is_leader() == expected).then_some(())).await;
}

/// While another replica leads, another client with the same field manager applies an additional entry.
#[tokio::test]
async fn applies_are_forgotten_when_the_term_ends() {
    let world = World::with_site("blog").await;
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let manager = world.manager().leader_election_with(short()).controller(controller);
    let status = manager.status();
    let running = Running::start(manager);
    let first = eventually("the child exists", async || world.child("blog").await.ok()).await;
    world.take_over("website-controller").await;
    leads(&status, false).await;
    let owner_references = first.metadata.owner_references.clone();
    let metadata = ObjectMeta { owner_references, ..ObjectMeta::new("default", "blog") };
    let mut data = first.data.clone();
    data.insert("newer".into(), "entry".into());
    let other = ConfigMap { metadata, data };
    let maps = world.cluster.namespaced::<ConfigMap>("default");
    let applied = maps.apply(&other, &WriteOptions::apply("website-controller")).await.unwrap();
    assert_eq!(applied.data.len(), 2);
    leads(&status, true).await;
    eventually("the entry is removed", async || world.child("blog").await.ok().filter(|map| map.data == first.data))
        .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn lost_shard_refuses_writes_and_is_worked_on_again() {
    let world = World::with_site("blog").await;
    let (called, mut calls) = unbounded_channel();
    let config = ShardsConfig { shards: 1, electors: LeaseGroupConfig { election: short(), ..Default::default() } };
    let manager = world.manager().sharded_with(config, move || {
        let called = called.clone();
        Controller::<Website>::new().owns::<ConfigMap>().reconcile(move |_: Arc<Website>, cx: Context<Website>| {
            // Ignore the error: sending fails if the test has already ended.
            _ = called.send(cx);
            async { Ok(Action::await_change()) }
        })
    });
    let running = Running::start(manager);
    let cx = soon(calls.recv()).await.unwrap();
    cx.apply(map("early", "a", "b")).await.unwrap();
    // Keep this request in flight until the end of the term.
    let faults = world.cluster.server().unwrap().faults();
    faults.add(Rule {
        verb: Some(RequestVerb::Patch),
        resource: Some("configmaps".into()),
        ..Rule::new(Fault::Delay(Duration::from_secs(3600)))
    });
    let in_flight = cx.clone();
    let write = tokio::spawn(async move { in_flight.apply(map("during", "a", "b")).await.map(drop) });
    eventually("the server has the request", async || (faults.hits() > 0).then_some(())).await;
    world.take_over("website-controller-website-0-of-1").await;
    soon(cx.leadership().unwrap().lost()).await;
    let error = soon(write).await.unwrap().unwrap_err();
    assert!(error.cause().downcast_ref::<LeadershipLost>().is_some(), "{error}");
    assert!(world.child("during").await.unwrap_err().is_not_found());
    let error = cx.apply(map("late", "a", "b")).await.unwrap_err();
    assert!(error.cause().downcast_ref::<LeadershipLost>().is_some(), "{error}");
    assert!(world.child("late").await.unwrap_err().is_not_found());
    let next = eventually("the shard is led again", async || {
        let next = calls.recv().await.unwrap();
        (next.leadership().unwrap().term() != cx.leadership().unwrap().term()).then_some(next)
    })
    .await;
    next.apply(map("late", "a", "b")).await.unwrap();
    running.stop().await.unwrap();
}

/// A cleanup blocks its thread until its shard is lost, and then succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn blocked_cleanup_of_a_lost_shard_keeps_the_finalizer() {
    let world = World::with_site("blog").await;
    let (called, mut calls) = unbounded_channel();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let config = ShardsConfig { shards: 1, electors: LeaseGroupConfig { election: short(), ..Default::default() } };
    let manager = world.manager().sharded_with(config, move || {
        let (called, blocked) = (called.clone(), blocked.clone());
        let cleanup = move |_: Arc<Website>, cx: Context<Website>| {
            called.send(cx.clone()).unwrap();
            // Returns when the test drops the sender.
            blocked.lock().unwrap().recv().unwrap_err();
            async { Ok(Cleanup::Done) }
        };
        let reconcile = async |_: Arc<Website>, _: Context<Website>| Ok(Action::await_change());
        Controller::<Website>::new().cleanup("example.com/dns", cleanup).reconcile(reconcile)
    });
    let running = Running::start(manager);
    let finalizers = async || world.site("blog").await.metadata.finalizers;
    eventually("the finalizer is stored", async || (!finalizers().await.is_empty()).then_some(())).await;
    world.cluster.namespaced::<Website>("default").delete("blog", &DeleteOptions::default()).await.unwrap();
    let cx = soon(calls.recv()).await.unwrap();
    // The Lease of the other replica does not expire during the test.
    let held = json!({"spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 3_600}});
    let leases = world.cluster.namespaced::<Lease>("default");
    let lease = "website-controller-website-0-of-1";
    leases.patch(lease, &Patch::Merge(held), &WriteOptions::default()).await.unwrap();
    soon(cx.leadership().unwrap().lost()).await;
    drop(unblock);
    running.stop().await.unwrap();
    assert_eq!(finalizers().await, ["example.com/dns"]);
}
