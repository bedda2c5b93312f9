//! Tests how long a run waits after the future of the previous run was dropped.

use std::sync::Mutex;
use std::time::Duration;

use pintle_leaderelect::{LeaderElectionConfig, Leadership, Lease, LeaseGroupConfig, Permit};
use pintle_sharding::{Shard, Shards, ShardsConfig};
use pintle_testing::{Collection, Verb};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};
use crate::ledger::Ledger;
use crate::replicas::{SHARDS, Setup, usual};

/// Runs two shards, drops this run after 2.5 s, and starts a second run. Returns the shard and the start time of each
/// call of the work in both runs. The work on the first shard holds a permit. The work drops the permit `given_back`
/// seconds after the end of the first run, or never if `given_back` is `None`.
async fn starts(reuse_identity: bool, given_back: Option<f64>) -> Vec<(u32, f64)> {
    let server = Collection::<Lease>::default();
    let election = LeaderElectionConfig {
        identity: "a".into(),
        clocks: TestClock::new(),
        reuse_identity,
        seed: Some(7),
        ..LeaderElectionConfig::default()
    };
    let electors = LeaseGroupConfig { election, ..LeaseGroupConfig::default() };
    let config = ShardsConfig { shards: 2, electors };
    let mut shards = Shards::start(server.client("a"), "kube-system", "site", config).unwrap();
    let (begun, permit) = (Instant::now(), Mutex::new(None::<Permit>));
    let starts = Mutex::new(Vec::new());
    let stop = CancellationToken::new();
    let work = async |shard: Shard, leadership: Leadership| {
        starts.lock().unwrap().push((shard.index(), begun.elapsed().as_secs_f64()));
        if shard.index() == 0 && permit.lock().unwrap().is_none() {
            *permit.lock().unwrap() = leadership.permit().ok();
        }
        leadership.cancelled().await;
    };
    assert!(timeout(Duration::from_millis(2_500), shards.run(&stop, &work)).await.is_err());
    let first = permit.lock().unwrap().take().unwrap();
    assert!(first.remaining().is_zero(), "the permit is not extended");
    let back = async {
        if let Some(after) = given_back {
            pass(after).await;
            drop(first);
        }
        std::future::pending().await
    };
    let run = async {
        tokio::select! {
            _ = shards.run(&stop, &work) => panic!("the run ended"),
            () = back => {}
        }
    };
    assert!(timeout(Duration::from_secs(20), run).await.is_err());
    starts.into_inner().unwrap()
}

/// A permit keeps its deadline after the future of its run was dropped.
#[tokio::test(start_paused = true)]
async fn shard_work_resumes_after_permits_of_dropped_run() {
    let after_drop = async |reuse_identity, given_back| {
        let starts = starts(reuse_identity, given_back).await;
        assert!(starts.len() == 4 && starts[..2].iter().all(|(_, at)| *at < 1.0), "{starts:?}");
        let of = |shard| starts[2..].iter().find(|start| start.0 == shard).unwrap().1;
        (of(0), of(1))
    };
    let (held, other) = after_drop(true, Some(1.5)).await;
    assert!((2.5..3.0).contains(&other) && (4.0..4.5).contains(&held), "{held} {other}");
    // The term lasts until ten seconds after its last effective renewal.
    let (held, other) = after_drop(true, None).await;
    assert!((2.5..3.0).contains(&other) && (10.0..13.0).contains(&held), "{held} {other}");
    // The leases of the dropped run count as held by another contender, and expire after fifteen seconds.
    let (held, other) = after_drop(false, Some(1.5)).await;
    assert!(other >= 15.5 && held >= 15.5, "{held} {other}");
}

#[tokio::test(start_paused = true)]
async fn run_after_dropped_run_moves_only_its_share() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let reusing = || Setup { reuse_identity: true, ..usual() };
    let [a, _b] = ["a", "b"].map(|identity| reusing().start(&server, &ledger, identity));
    pass(20.0).await;
    let (owners, starts) = (ledger.owners(), ledger.starts_so_far());
    let share = owners.values().filter(|owner| *owner == "a").count();
    server.take_requests();
    a.again.notify_one();
    pass(1.0).await;
    assert_eq!((ledger.owners(), ledger.starts_so_far()), (owners, starts + share));
    ledger.check(0);
    // The new run lists the leases to find rivals. The new run recognizes the leases of its own replica by their
    // records.
    let requests = server.take_requests();
    assert!(requests.iter().any(|request| request.verb() == Verb::List));
    assert_eq!(ledger.owners().len(), SHARDS as usize);
}
