//! Tests of electors against the embedded server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::informer::SharedInformer;
use pintle::leaderelect::{LeaderElector, Lease, LeaseGroupConfig, LeaseLock};
use pintle::prelude::*;
use pintle::sharding::{Shard, Sharded, ShardsConfig};
use tokio::task::JoinHandle;

use crate::support::{ConfigMap, client, create, eventually, server, soon};

/// Contends for the Lease until `stop` is cancelled. While this candidate is the leader, increments `leading` and
/// checks that there is no other leader.
fn contend(name: &str, leases: Api<Lease>, leading: &Arc<AtomicU32>, stop: &CancellationToken) -> JoinHandle<()> {
    let config = LeaderElectionConfig {
        identity: name.into(),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1200),
        retry_period: Duration::from_millis(200),
        ..LeaderElectionConfig::default()
    };
    let mut elector = LeaderElector::new(LeaseLock::new(leases, "default", "lock"), config).unwrap();
    let (leading, stop) = (leading.clone(), stop.clone());
    tokio::spawn(async move {
        let callbacks = LeaderCallbacks::new(move |leadership: Leadership| {
            let leading = leading.clone();
            async move {
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
                leadership.cancelled().await;
                leading.fetch_sub(1, Ordering::SeqCst);
            }
        });
        elector.run(&stop, callbacks).await;
    })
}

#[tokio::test]
async fn stopped_leader_hands_over_with_one_leader_at_most() {
    let server = server().await;
    let leases: Api<Lease> = Api::all(client(server.client_config()));
    let leading = Arc::new(AtomicU32::new(0));
    let stops = [CancellationToken::new(), CancellationToken::new()];
    let first = contend("first", leases.clone(), &leading, &stops[0]);
    let holder = async || {
        let lease = leases.get(pintle::meta::ObjectKey::new("default", "lock")).await.ok()?;
        lease.spec.holder_identity.filter(|holder| !holder.is_empty())
    };
    assert_eq!(eventually("a replica leads", holder).await, "first");

    let second = contend("second", leases.clone(), &leading, &stops[1]);
    stops[0].cancel();
    first.await.unwrap();
    eventually("the other replica leads", async || holder().await.filter(|holder| holder == "second")).await;
    stops[1].cancel();
    second.await.unwrap();
    assert_eq!(leading.load(Ordering::SeqCst), 0);
    server.shutdown().await;
}

/// The backoff environment variables apply to ordinary requests but not to leader election. The test runs in a separate
/// process, because environment variables are global.
#[test]
fn backoff_environment_variable_does_not_delay_an_election() {
    const NAME: &str = "election::backoff_environment_variable_does_not_delay_an_election";
    const VARIABLES: [&str; 2] = ["KUBE_CLIENT_BACKOFF_BASE", "KUBE_CLIENT_BACKOFF_DURATION"];
    if VARIABLES.iter().any(|variable| std::env::var_os(variable).is_none()) {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = program.args([NAME, "--exact"]).envs(VARIABLES.map(|variable| (variable, "600"))).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::embedded().await.unwrap();
        let resource = Some("leases".to_owned());
        let fault = Fault::Answer(Answer::new(500));
        cluster.server().unwrap().faults().add(Rule { resource, times: Some(3), ..Rule::new(fault) });
        let config = LeaderElectionConfig {
            lease_duration: Duration::from_secs(2),
            renew_deadline: Duration::from_millis(1200),
            retry_period: Duration::from_millis(200),
            ..LeaderElectionConfig::default()
        };
        let (mut elector, stop) = (cluster.elector("default/lock", config).unwrap(), CancellationToken::new());
        let ended = soon(elector.run(&stop, LeaderCallbacks::new(async |_: Leadership| ()))).await;
        assert_eq!(ended.expect("a term").reason, EndReason::Completed);
        assert_eq!(cluster.server().unwrap().faults().hits(), 3);
        cluster.shutdown().await;
    });
}

#[tokio::test]
async fn each_lock_kind_works_on_a_server() {
    let cluster = Cluster::embedded().await.unwrap();
    let leases: Api<Lease> = cluster.namespaced("default");
    let mut in_leases = Vec::new();
    for name in ["leases", "configmaps", "endpoints", "configmapsleases", "endpointsleases"] {
        let config = LeaderElectionConfig { identity: name.into(), ..LeaderElectionConfig::default() };
        let lock =
            cluster.lock(name.parse().unwrap(), format!("default/{name}").as_str(), config.renew_deadline).unwrap();
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let (status, stop) = (elector.status(), CancellationToken::new());
        let work = LeaderCallbacks::new(async |leadership: Leadership| {
            assert!(leadership.check().is_ok());
        });
        let ended = soon(elector.run(&stop, work)).await.expect("a term");
        assert_eq!(ended.reason, EndReason::Completed, "{name}");
        assert_eq!(status.leader().as_deref(), Some(""), "{name}: released");
        in_leases.extend(leases.get(name).await.is_ok().then_some(name));
    }
    assert_eq!(in_leases, ["leases", "configmapsleases", "endpointsleases"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn electors_hold_many_leases_and_hand_them_over() {
    let cluster = Cluster::embedded().await.unwrap();
    let labels = [("app".to_owned(), "test".to_owned())].into();
    let config = LeaseGroupConfig { labels, ..LeaseGroupConfig::default() };
    let started = Arc::new(AtomicU32::new(0));
    let replica = |stop: &CancellationToken| {
        let election = LeaderElectionConfig::default();
        let electors = cluster.electors("default", LeaseGroupConfig { election, ..config.clone() }).unwrap();
        let mut runs = tokio::task::JoinSet::new();
        for index in 0..20 {
            let mut elector = electors.elector(&format!("shard-{index}"));
            let (started, stop) = (started.clone(), stop.clone());
            runs.spawn(async move {
                let work = LeaderCallbacks::new(|leadership: Leadership| {
                    started.fetch_add(1, Ordering::SeqCst);
                    async move { leadership.cancelled().await }
                });
                elector.run(&stop, work).await.map(|end| end.reason)
            });
        }
        runs
    };
    let reached = async |count: u32| (started.load(Ordering::SeqCst) == count).then_some(());
    let stops = [CancellationToken::new(), CancellationToken::new()];
    let first = replica(&stops[0]);
    eventually("the first replica holds all leases", async || reached(20).await).await;
    let second = replica(&stops[1]);
    stops[0].cancel();
    assert!(first.join_all().await.into_iter().all(|reason| reason == Some(EndReason::Cancelled)));
    eventually("the second replica holds all leases", async || reached(40).await).await;
    stops[1].cancel();
    second.join_all().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn shards_give_each_object_to_one_replica() {
    let cluster = Cluster::embedded().await.unwrap();
    let maps: Api<ConfigMap> = cluster.namespaced("default");
    for index in 0..30 {
        create(&maps, &format!("map-{index}")).await;
    }
    let seen: Arc<Mutex<BTreeMap<String, Vec<String>>>> = Arc::default();
    let replica = |identity: &str, stop: &CancellationToken| {
        let election = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
        let electors = LeaseGroupConfig { election, ..LeaseGroupConfig::default() };
        let mut shards = cluster.shards("default", "share", ShardsConfig { shards: 8, electors }).unwrap();
        let (maps, stop, seen, identity) = (maps.clone(), stop.clone(), seen.clone(), identity.to_owned());
        tokio::spawn(async move {
            let work = async |shard: Shard, leadership: Leadership| {
                let source = Sharded { source: maps.clone(), shard };
                let informer: SharedInformer<ConfigMap> = SharedInformer::new(source, InformerConfig::default());
                informer.start();
                let _ = leadership.run(informer.wait_for_sync()).await;
                let found = informer.lister().list();
                let key = |name: &str| format!("{name}/{}", shard.index());
                let names = found.iter().map(|map| map.name().to_owned()).collect();
                seen.lock().unwrap().insert(key(&identity), names);
                leadership.cancelled().await;
                seen.lock().unwrap().remove(&key(&identity));
            };
            shards.run(&stop, work).await
        })
    };
    let stop = CancellationToken::new();
    let replicas = [replica("a", &stop), replica("b", &stop)];
    eventually("one replica sees each object, and both see some", async || {
        let seen = seen.lock().unwrap();
        let shards: BTreeSet<_> = seen.keys().filter_map(|key| key.split_once('/')).map(|(_, shard)| shard).collect();
        let both = ["a/", "b/"].iter().all(|who| seen.keys().any(|key| key.starts_with(who)));
        let mut names: Vec<_> = seen.values().flatten().collect();
        names.sort();
        names.dedup();
        // Count only the ConfigMaps of this test.
        let all = names.iter().filter(|name| name.starts_with("map-")).count();
        let once = seen.values().map(Vec::len).sum::<usize>() == names.len();
        (seen.len() == 8 && shards.len() == 8 && both && all == 30 && once).then_some(())
    })
    .await;
    stop.cancel();
    for replica in replicas {
        assert!(soon(replica).await.unwrap().is_none());
    }
    cluster.shutdown().await;
}
