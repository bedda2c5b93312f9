//! Tests how shards are assigned to replicas and move between them, and how long a shard has no worker.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use pintle_leaderelect::{
    Clocks, Deadline, EndReason, InvalidConfig, LeaderElectionConfig, Leadership, Lease, LeaseGroupConfig,
};
use pintle_meta::{
    ListOptions, ListPart, ListWatch, Object, ObjectMeta, PartialObject, Reason, WatchEvent, WatchOptions,
};
use pintle_sharding::{SHARDS_LABEL, Shard, Sharded, Shards, ShardsConfig};
use pintle_testing::{Break, Call, Client, Collection, Outcome, Verb};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::asleep::Asleep;
use crate::clock::NodeClock;
use crate::contender::{TestClock, pass};
use crate::ledger::Ledger;

pub(crate) const SHARDS: u32 = 24;

pub(crate) struct Replica {
    pub(crate) client: Client<Lease>,
    /// Set to a client of another server to send all further requests to that server.
    pub(crate) restored: Arc<OnceLock<Client<Lease>>>,
    pub(crate) machine: Option<Arc<NodeClock>>,
    pub(crate) stop: CancellationToken,
    /// Notified to drop the replica's current run and start a new run.
    pub(crate) again: Arc<Notify>,
    pub(crate) run: JoinHandle<Option<(Shard, EndReason)>>,
}

pub(crate) struct Setup {
    pub(crate) shards: u32,
    pub(crate) clocks: Arc<dyn Clocks>,
    /// The replica's machine, if it can be suspended, whose clocks replace `clocks`.
    pub(crate) machine: Option<Arc<NodeClock>>,
    /// The time for which the work continues after the elector has asked it to finish.
    pub(crate) drain: Duration,
    /// The shard whose work returns by itself after a second.
    pub(crate) ends: Option<u32>,
    pub(crate) release_on_cancel: bool,
    pub(crate) reuse_identity: bool,
    /// The value of a label on this replica's leases.
    pub(crate) version: &'static str,
}

pub(crate) fn usual() -> Setup {
    Setup {
        shards: SHARDS,
        clocks: TestClock::new(),
        machine: None,
        drain: Duration::ZERO,
        ends: None,
        release_on_cancel: true,
        reuse_identity: false,
        version: "1",
    }
}

impl Setup {
    pub(crate) fn start(self, server: &Collection<Lease>, ledger: &Ledger, identity: &str) -> Replica {
        let Self { shards, clocks, machine, drain, ends, release_on_cancel, reuse_identity, version } = self;
        let client = server.client(identity);
        let election = LeaderElectionConfig {
            identity: identity.into(),
            clocks: clocks.clone(),
            release_on_cancel,
            reuse_identity,
            seed: Some(7),
            ..LeaderElectionConfig::default()
        };
        let labels = [("app.kubernetes.io/version".to_owned(), version.to_owned())].into();
        let electors = LeaseGroupConfig { labels, election, ..LeaseGroupConfig::default() };
        let config = ShardsConfig { shards, electors };
        let restored = Arc::default();
        let api = Asleep { client: client.clone(), machine: machine.clone(), restored: Arc::clone(&restored) };
        let mut shards = Shards::start(api, "kube-system", "site", config).unwrap();
        let (ledger, identity, stop) = (ledger.clone(), identity.to_owned(), CancellationToken::new());
        let (stopped, kept, again) = (stop.clone(), machine.clone(), Arc::new(Notify::new()));
        let dropped = again.clone();
        let run = tokio::spawn(async move {
            let work = async |shard: Shard, leadership: Leadership| {
                let entry = ledger.starts(shard, &identity, &leadership, machine.clone());
                let mut steps = 0;
                while ends != Some(shard.index()) || steps < 5 {
                    entry.works();
                    steps += 1;
                    tokio::select! {
                        biased;
                        () = leadership.cancelled() => {
                            clocks.sleep_until(Deadline::after(clocks.now(), drain)).await;
                            entry.works();
                            return;
                        }
                        () = clocks.sleep_until(Deadline::after(clocks.now(), Duration::from_millis(500))) => {}
                    }
                }
            };
            loop {
                tokio::select! {
                    biased;
                    () = dropped.notified() => {}
                    ended = shards.run(&stopped, &work) => break ended.map(|(shard, end)| (shard, end.reason)),
                }
            }
        });
        Replica { client, restored, machine: kept, stop, again, run }
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_divide_all_shards_stably() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let replicas = ["a", "b", "c"].map(|identity| usual().start(&server, &ledger, identity));
    pass(5.0).await;
    let owners = ledger.owners();
    assert_eq!(owners.len(), SHARDS as usize);
    for identity in ["a", "b", "c"] {
        let share = owners.values().filter(|owner| *owner == identity).count();
        assert!((3..=13).contains(&share), "{identity} has {share}");
    }
    let starts = ledger.starts_so_far();
    server.take_requests();
    pass(100.0).await;
    assert_eq!((ledger.starts_so_far(), ledger.owners()), (starts, owners));
    // The replicas write each lease once per retry period, and must send no other requests.
    let requests = server.take_requests();
    assert!(requests.iter().all(|request| request.verb() == Verb::Update));
    let even = (SHARDS as usize + 3) * 50;
    assert!((even - 50..=even + 50).contains(&requests.len()), "{} requests", requests.len());
    assert!(server.objects().iter().all(|lease| lease.metadata.labels[SHARDS_LABEL] == "site"));
    drop(replicas);
}

#[tokio::test(start_paused = true)]
async fn joining_replica_moves_only_its_own_share() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let drain = Duration::from_secs(3);
    let _replicas = ["a", "b", "c"].map(|identity| Setup { drain, ..usual() }.start(&server, &ledger, identity));
    pass(20.0).await;
    let (before, starts) = (ledger.owners(), ledger.starts_so_far());
    ledger.forget_gaps();
    let _d = usual().start(&server, &ledger, "d");
    pass(20.0).await;
    let after = ledger.owners();
    let moved: Vec<_> = before.iter().filter(|(shard, owner)| after[*shard] != **owner).collect();
    assert!((2..=12).contains(&moved.len()), "{moved:?}");
    assert!(moved.iter().all(|(shard, _)| after[*shard] == "d"));
    assert_eq!(ledger.starts_so_far() - starts, moved.len(), "each moved shard moved only once");
    assert!(ledger.longest_gap() <= Duration::from_millis(100), "{:?}", ledger.longest_gap());
}

#[tokio::test(start_paused = true)]
async fn shard_is_handed_over_without_release_on_cancel() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let keeping = || Setup { release_on_cancel: false, ..usual() };
    let _a = keeping().start(&server, &ledger, "a");
    pass(20.0).await;
    ledger.forget_gaps();
    let _b = keeping().start(&server, &ledger, "b");
    pass(20.0).await;
    let moved = ledger.owners().values().filter(|owner| *owner == "b").count();
    assert!((6..=18).contains(&moved), "{moved}");
    assert!(ledger.longest_gap() <= Duration::from_millis(100), "{:?}", ledger.longest_gap());
}

/// The shard's preferred replica is a member of the fleet, but cannot write the shard's lease.
#[tokio::test(start_paused = true)]
async fn shard_is_yielded_once_if_successor_cannot_take_it() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let _b = usual().start(&server, &ledger, "b");
    pass(20.0).await;
    let starts = ledger.starts_so_far();
    let a = usual().start(&server, &ledger, "a");
    a.client.faults().when(|request| {
        let member = request.key().is_none_or(|key| key.name().contains("member"));
        let writes = matches!(request.verb(), Verb::Create | Verb::Update);
        (!member && writes).then(|| Outcome::refused(403, Reason::Forbidden))
    });
    pass(10.0).await;
    let yielded = ledger.starts_so_far() - starts;
    assert!((6..=18).contains(&yielded), "{yielded}");
    assert_eq!(ledger.owners().values().filter(|owner| *owner == "b").count(), SHARDS as usize);
    pass(100.0).await;
    assert_eq!(ledger.starts_so_far() - starts, yielded, "the shard is not yielded again");
}

#[tokio::test(start_paused = true)]
async fn shards_of_dead_replica_are_taken_after_expiry() {
    for watched in 0..5 {
        let (server, ledger) = (Collection::default(), Ledger::default());
        let [_a, _b, c] = ["a", "b", "c"].map(|identity| usual().start(&server, &ledger, identity));
        pass(20.0 + 0.37 * f64::from(watched)).await;
        let (before, starts) = (ledger.owners(), ledger.starts_so_far());
        ledger.forget_gaps();
        c.run.abort();
        pass(20.0).await;
        let after = ledger.owners();
        assert_eq!(after.len(), SHARDS as usize);
        let moved: Vec<_> = before.iter().filter(|(shard, owner)| after[*shard] != **owner).collect();
        assert!(moved.iter().all(|(_, owner)| *owner == "c") && ledger.starts_so_far() - starts == moved.len());
        assert!(ledger.longest_gap() <= Duration::from_millis(15_500), "{:?}", ledger.longest_gap());
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_replica_drains_and_hands_over() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let drain = Duration::from_secs(3);
    let [_a, b] = ["a", "b"].map(|identity| Setup { drain, ..usual() }.start(&server, &ledger, identity));
    pass(20.0).await;
    ledger.forget_gaps();
    b.stop.cancel();
    assert_eq!(b.run.await.unwrap(), None);
    pass(0.2).await;
    assert!(ledger.owners().values().all(|owner| owner == "a"));
    assert_eq!(ledger.owners().len(), SHARDS as usize);
    assert!(ledger.longest_gap() <= Duration::from_millis(100), "{:?}", ledger.longest_gap());
}

#[tokio::test(start_paused = true)]
async fn next_replica_takes_an_unclaimed_shard() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let a = usual().start(&server, &ledger, "a");
    // Replica "a" stays a member of the fleet, but cannot acquire a shard.
    a.client.faults().when(|request| {
        let member = request.key().is_none_or(|key| key.name().contains("member"));
        (!member && request.verb() == Verb::Create).then(|| Outcome::refused(403, Reason::Forbidden))
    });
    let _b = usual().start(&server, &ledger, "b");
    pass(6.0).await;
    assert_eq!(ledger.owners().len(), SHARDS as usize);
    assert!(ledger.owners().values().all(|owner| owner == "b"));
    let starts = ledger.starts_so_far();
    pass(60.0).await;
    assert_eq!(ledger.starts_so_far(), starts, "the shards are kept");
}

#[tokio::test(start_paused = true)]
async fn finished_work_ends_the_share_of_its_replica() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let a = Setup { ends: Some(7), ..usual() }.start(&server, &ledger, "a");
    let (shard, reason) = a.run.await.unwrap().unwrap();
    assert_eq!((shard.index(), reason), (7, EndReason::Completed));
    assert!(ledger.owners().is_empty());
    assert!(server.objects().iter().all(|lease| lease.spec.record().is_vacant()));
}

#[tokio::test(start_paused = true)]
async fn first_replica_takes_all_shards_without_watch() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    server.faults().when(|request| (request.verb() == Verb::Watch).then(|| Outcome::refused(403, Reason::Forbidden)));
    let a = usual().start(&server, &ledger, "a");
    pass(16.0).await;
    let _b = usual().start(&server, &ledger, "b");
    pass(60.0).await;
    assert!(ledger.owners().values().all(|owner| owner == "a"));
    a.run.abort();
    pass(25.0).await;
    assert_eq!(ledger.owners().values().filter(|owner| *owner == "b").count(), SHARDS as usize);
}

#[tokio::test(start_paused = true)]
async fn replica_with_silent_watch_yields_to_a_new_replica() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let _a = usual().start(&server, &ledger, "a");
    pass(16.0).await;
    server.break_watches(Break::Silent);
    let _b = usual().start(&server, &ledger, "b");
    // The watch of "a" is reopened after two lease durations.
    pass(40.0).await;
    let of_b = ledger.owners().values().filter(|owner| *owner == "b").count();
    assert!((6..=18).contains(&of_b), "b has {of_b}");
}

#[tokio::test(start_paused = true)]
async fn leases_of_departed_replicas_are_deleted() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let [_a, b, c] = ["a", "b", "c"].map(|identity| usual().start(&server, &ledger, identity));
    pass(5.0).await;
    b.run.abort();
    c.stop.cancel();
    let members = || {
        let members = server.objects().into_iter().filter(|lease| lease.metadata.name.contains("member"));
        members.map(|lease| lease.spec.record().holder_identity).collect::<Vec<_>>()
    };
    pass(200.0).await;
    assert_eq!(members().len(), 3);
    pass(300.0).await;
    assert_eq!(members(), ["a"]);
}

/// One replica does not see the deletion, because its watch is down at this time.
#[tokio::test(start_paused = true)]
async fn lease_with_missed_deletion_is_forgotten() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let start = |identity| Setup { shards: 2, ..usual() }.start(&server, &ledger, identity);
    let [a, b, c] = ["a", "b", "c"].map(start);
    pass(5.0).await;
    c.run.abort();
    // The lease of "c" expires before second 20. The next cleanup after 20 lease durations is at second 360.
    pass(350.0).await;
    let other = if ledger.owners()[&0] == "a" { b } else { a };
    let no_watch = || Outcome::refused(403, Reason::Forbidden);
    other.client.faults().when(move |request| (request.verb() == Verb::Watch).then(no_watch));
    server.break_watches(Break::End);
    pass(8.0).await;
    assert_eq!(server.objects().len(), 2 + 2, "the first replica has deleted the lease");
    other.client.faults().heal();
    server.take_requests();
    pass(1_000.0).await;
    let deletions = server.take_requests().into_iter().filter(|request| request.verb() == Verb::Delete);
    let deletions: Vec<_> = deletions.map(|request| (request.client.clone(), request.to_string())).collect();
    assert_eq!(deletions.len(), 1, "{deletions:?}");
}

async fn names(source: &impl ListWatch) -> Vec<String> {
    let mut page = source.list(&ListOptions::default()).await.unwrap();
    let mut names = Vec::new();
    while let Some(part) = page.next().await {
        if let ListPart::Item(object) = part.unwrap() {
            names.push(object.decode::<PartialObject>().unwrap().metadata.name);
        }
    }
    names
}

#[tokio::test(start_paused = true)]
async fn shard_source_lists_only_its_own_objects() {
    let server = Collection::<Lease>::default();
    let put = |index: usize| {
        let mut lease = Lease { metadata: ObjectMeta::new("ns", format!("l-{index}")), ..Lease::default() };
        lease.metadata.uid = format!("uid-{index}");
        server.put(lease)
    };
    let leases: Vec<_> = (0..40).map(put).collect();
    let sources: Vec<_> = Shard::all(3).map(|shard| Sharded { source: server.clone(), shard }).collect();
    let mut all = Vec::new();
    for source in &sources {
        let of_shard = names(source).await;
        let expected = leases.iter().filter(|lease| source.shard.has(*lease)).map(|lease| lease.metadata.name.clone());
        assert_eq!(of_shard.iter().cloned().collect::<BTreeSet<_>>(), expected.collect());
        all.extend(of_shard);
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 40);
    assert_eq!(all.len(), 40);
    for (request, source) in server.take_requests().iter().zip(&sources) {
        let Call::List { options } = &request.call else { panic!("{request}") };
        assert_eq!(options.shard_selector, source.shard.to_string());
    }
    // The watch reports only bookmarks and changes to objects of the shard.
    let options =
        WatchOptions { allow_bookmarks: true, resource_version: server.revision().to_string(), ..Default::default() };
    let mut events = sources[0].watch(&options).await.unwrap();
    assert!(leases.iter().all(|lease| server.remove(&lease.key())));
    server.bookmark();
    let mut deleted = 0;
    loop {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Deleted(lease) => {
                assert!(sources[0].shard.has(&lease.decode::<PartialObject>().unwrap()));
                deleted += 1;
            }
            other => break assert!(matches!(other, WatchEvent::Bookmark(_)), "{other:?}"),
        }
    }
    assert_eq!(deleted, leases.iter().filter(|lease| sources[0].shard.has(*lease)).count());
}

#[tokio::test(start_paused = true)]
async fn shards_cannot_be_coordinated() {
    let mut config = ShardsConfig::default();
    config.electors.election.coordinated = true;
    let leases = Collection::<Lease>::default().client("baz");
    let refused = Shards::start(leases, "kube-system", "site", config).err();
    assert_eq!(refused, Some(InvalidConfig::CoordinatedShards));
}
