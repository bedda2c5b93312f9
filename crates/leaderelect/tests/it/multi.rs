//! Tests of `MultiLock`: leadership, requests, and writes that reach only one of its two locks (its halves).

use std::time::Duration;

use pintle_leaderelect::{
    AnnotationLock, ElectionStatus, LEADER_ANNOTATION, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord,
    LeaderElector, Leadership, Lease, LeaseLock, Lock, MultiLock, UNKNOWN_LEADER,
};
use pintle_meta::{ApiResource, DynamicObject, ObjectMeta, Reason, Scope};
use pintle_testing::{Call, Client, Collection, CollectionConfig, Outcome, Verb};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};
use crate::server::key;

struct Server {
    maps: Collection<DynamicObject>,
    leases: Collection<Lease>,
}

type Both = MultiLock<AnnotationLock<Client<DynamicObject>>, LeaseLock<Client<Lease>>>;

/// The content of one half: no object, an object without a record, or a record with the given holder.
type Half = Option<Option<&'static str>>;

impl Server {
    fn new(primary: Half, secondary: Half) -> Self {
        let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
        let maps = Collection::dynamic(resource, CollectionConfig::default());
        let server = Self { maps, leases: Collection::default() };
        if let Some(record) = primary {
            server.put_primary(record);
        }
        if let Some(record) = secondary {
            server.put_secondary(record);
        }
        server
    }

    fn put_primary(&self, holder: Option<&str>) {
        let mut metadata = ObjectMeta::new("kube-system", "lock");
        let record = |holder| json!({"holderIdentity": holder, "leaseDurationSeconds": 10, "leaderTransitions": 0});
        metadata.annotations.extend(holder.map(|holder| (LEADER_ANNOTATION.into(), record(holder).to_string())));
        self.maps.put(DynamicObject { metadata, ..DynamicObject::default() });
    }

    fn put_secondary(&self, holder: Option<&str>) {
        let mut lease = Lease { metadata: ObjectMeta::new("kube-system", "lock"), ..Lease::default() };
        lease.spec.holder_identity = holder.map(Into::into);
        lease.spec.lease_duration_seconds = holder.map(|_| 10);
        self.leases.put(lease);
    }

    fn lock(&self, client: &str) -> Both {
        let mut primary = AnnotationLock::config_map(self.maps.client(client), "kube-system", "lock");
        primary.watch = false;
        let secondary = LeaseLock::new(self.leases.client(client), "kube-system", "lock");
        MultiLock::new(primary, LeaseLock { watch: false, ..secondary })
    }

    fn holders(&self) -> [(String, i32); 2] {
        let map = self.maps.object(&key()).unwrap();
        let record: serde_json::Value = serde_json::from_str(&map.metadata.annotations[LEADER_ANNOTATION]).unwrap();
        let count = record["leaderTransitions"].as_i64().unwrap() as i32;
        let lease = self.leases.object(&key()).unwrap().spec.record();
        [(record["holderIdentity"].as_str().unwrap().into(), count), (lease.holder_identity, lease.leader_transitions)]
    }

    fn verbs(&self) -> [Vec<&'static str>; 2] {
        let verb = |call| match call {
            Call::Get { .. } => "get",
            Call::Create { .. } => "create",
            Call::Update { .. } => "put",
            other => panic!("an elector sends {other}"),
        };
        [self.maps.take_requests(), self.leases.take_requests()]
            .map(|requests| requests.into_iter().map(|request| verb(request.call)).collect())
    }
}

struct Contender {
    status: ElectionStatus,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

fn contend(lock: Both, reuse_identity: bool) -> Contender {
    let seconds = Duration::from_secs;
    let config = LeaderElectionConfig {
        identity: "baz".into(),
        seed: Some(7),
        clocks: TestClock::new(),
        lease_duration: seconds(10),
        renew_deadline: seconds(8),
        retry_period: seconds(2),
        reuse_identity,
        ..LeaderElectionConfig::default()
    };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let (status, stop) = (elector.status(), CancellationToken::new());
    let run = tokio::spawn({
        let stop = stop.clone();
        let callbacks = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        async move { drop(elector.run(&stop, callbacks).await) }
    });
    Contender { status, stop, run }
}

/// Checks that baz leads after its first attempt and sends the expected requests.
async fn takes(primary: Half, secondary: Half, verbs: [&[&str]; 2], transitions: i32) {
    let server = Server::new(primary, secondary);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    assert_eq!(server.verbs(), verbs, "{primary:?} {secondary:?}");
    assert!(elector.status.is_leader());
    let ours = ("baz".to_owned(), transitions);
    assert_eq!(server.holders(), [ours.clone(), ours]);
}

/// Checks that baz reads each half once, observes `leader`, and takes over after the lease duration.
async fn waits(primary: Half, secondary: Half, leader: &str) {
    let server = Server::new(primary, secondary);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    assert_eq!(server.verbs(), [["get"], ["get"]], "{primary:?} {secondary:?}");
    assert_eq!(elector.status.leader().as_deref(), Some(leader));
    pass(9.7).await;
    assert!(!elector.status.is_leader());
    pass(4.6).await;
    assert!(elector.status.is_leader(), "{primary:?} {secondary:?}");
    assert_eq!(server.holders().map(|(holder, _)| holder), ["baz", "baz"]);
}

const NOTHING: Half = None;
const EMPTY: Half = Some(None);
const BING: Half = Some(Some("bing"));
const BAZ: Half = Some(Some("baz"));
const UNKNOWN: Half = Some(Some(UNKNOWN_LEADER));

/// A server rejects a negative transition count in a Lease, so a `MultiLock` could not write its Lease.
#[tokio::test(start_paused = true)]
async fn negative_transitions_in_an_annotation_are_reset() {
    let server = Server::new(None, None);
    let mut metadata = ObjectMeta::new("kube-system", "lock");
    let record = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaderTransitions": i32::MIN});
    metadata.annotations.insert(LEADER_ANNOTATION.into(), record.to_string());
    server.maps.put(DynamicObject { metadata, ..DynamicObject::default() });
    let _elector = contend(server.lock("baz"), false);
    pass(30.0).await;
    assert_eq!(server.holders(), [(); 2].map(|()| ("baz".to_owned(), 1)));
}

#[tokio::test(start_paused = true)]
async fn candidate_takes_both_halves_of_a_free_lock() {
    takes(NOTHING, NOTHING, [&["get", "create"], &["create"]], 0).await;
    takes(EMPTY, NOTHING, [&["get", "put"], &["get", "create"]], 1).await;
    takes(EMPTY, EMPTY, [&["get", "put"], &["get", "put"]], 1).await;
}

#[tokio::test(start_paused = true)]
async fn candidate_waits_for_holder_of_both_or_primary() {
    waits(BING, BING, "bing").await;
    waits(BING, NOTHING, "bing").await;
}

#[tokio::test(start_paused = true)]
async fn disagreeing_halves_have_unknown_leader_for_a_duration() {
    waits(BING, BAZ, UNKNOWN_LEADER).await;
    waits(BAZ, BING, UNKNOWN_LEADER).await;
    waits(UNKNOWN, UNKNOWN, UNKNOWN_LEADER).await;
    waits(EMPTY, BING, UNKNOWN_LEADER).await;
    waits(BING, EMPTY, UNKNOWN_LEADER).await;
}

#[tokio::test(start_paused = true)]
async fn reused_identity_renews_both_halves_and_recreates_missing() {
    for secondary in [BAZ, NOTHING] {
        let server = Server::new(BAZ, secondary);
        let elector = contend(server.lock("baz"), true);
        pass(0.1).await;
        assert!(elector.status.is_leader());
        let healed = if secondary.is_some() { "put" } else { "create" };
        assert_eq!(server.verbs(), [["get", "put"], ["get", healed]]);
        assert_eq!(server.holders().map(|(_, transitions)| transitions), [0, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_and_releases_write_both_halves() {
    let server = Server::new(NOTHING, NOTHING);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    server.verbs();
    pass(4.0).await;
    assert_eq!(server.verbs(), [["put", "put"], ["put", "put"]]);
    elector.stop.cancel();
    elector.run.await.unwrap();
    assert_eq!(server.holders().map(|(holder, _)| holder), ["", ""]);
}

#[tokio::test(start_paused = true)]
async fn changed_half_is_never_adopted() {
    let server = Server::new(EMPTY, EMPTY);
    let one = server.lock("one");
    let read = one.get().await.unwrap().unwrap();
    // A program that uses only the Lease acquires it between baz's read and write.
    server.put_secondary(Some("bing"));
    let record = LeaderElectionRecord { holder_identity: "baz".into(), ..Default::default() };
    let error = one.update(&read.object, &record).await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_acted(), "the primary half was written: {error}");
    assert_eq!(server.holders().map(|(holder, _)| holder), ["baz", "bing"]);
    let found = one.get().await.unwrap().unwrap().state.record;
    assert_eq!(found.holder_identity, UNKNOWN_LEADER);
}

#[tokio::test(start_paused = true)]
async fn write_of_one_half_gives_no_leadership() {
    let server = Server::new(NOTHING, NOTHING);
    let lock = server.lock("baz");
    server.leases.faults().next_of(Verb::Create, [Outcome::refused(403, Reason::Forbidden)]);
    let elector = contend(lock, false);
    pass(1.0).await;
    assert!(!elector.status.is_leader());
    assert!(server.leases.object(&key()).is_none() && server.maps.object(&key()).is_some());
    // If only one half contains a record, baz waits, because any contender may be the holder.
    pass(8.9).await;
    assert!(!elector.status.is_leader());
    pass(10.0).await;
    assert!(elector.status.is_leader());
    assert_eq!(server.holders().map(|(holder, _)| holder), ["baz", "baz"]);
}

#[tokio::test(start_paused = true)]
async fn renewal_of_one_half_does_not_extend_term() {
    let server = Server::new(NOTHING, NOTHING);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    let refused = || Outcome::refused(503, Reason::ServiceUnavailable);
    server.leases.faults().when(move |request| (request.verb() == Verb::Update).then(refused));
    pass(7.8).await;
    assert!(elector.status.is_leader());
    pass(0.2).await;
    assert!(!elector.status.is_leader(), "the last complete renewal was at 0.0");
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_renewal_releases_both_halves() {
    for half in 0..2 {
        for fault in [Outcome::AnswerSlow(Duration::from_secs(1)), Outcome::AnswerLost] {
            let server = Server::new(NOTHING, NOTHING);
            let elector = contend(server.lock("baz"), false);
            pass(0.1).await;
            match half {
                0 => server.maps.faults().next_of(Verb::Update, [fault.clone()]),
                _ => server.leases.faults().next_of(Verb::Update, [fault.clone()]),
            }
            pass(2.0).await;
            elector.stop.cancel();
            elector.run.await.unwrap();
            assert_eq!(server.holders().map(|(holder, _)| holder), ["", ""], "{half}: {fault:?}");
        }
    }
}

/// If one write of a release fails, the Lease stays unchanged, because its holder is unknown.
#[tokio::test(start_paused = true)]
async fn release_of_one_half_blocks_leadership_for_a_duration() {
    let server = Server::new(NOTHING, NOTHING);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    server.leases.faults().next_of(Verb::Update, [Outcome::refused(503, Reason::ServiceUnavailable)]);
    elector.stop.cancel();
    elector.run.await.unwrap();
    assert_eq!(server.holders().map(|(holder, _)| holder), ["", "baz"]);
    let next = contend(server.lock("next"), false);
    pass(9.9).await;
    assert_eq!((next.status.is_leader(), next.status.leader().as_deref()), (false, Some(UNKNOWN_LEADER)));
    pass(4.6).await;
    assert!(next.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn multilock_token_is_that_of_the_lease() {
    let server = Server::new(NOTHING, NOTHING);
    let elector = contend(server.lock("baz"), false);
    pass(0.1).await;
    let leadership = elector.status.leadership().unwrap();
    let lease = server.leases.object(&key()).unwrap().metadata;
    let token = leadership.token().unwrap();
    assert_eq!((token.uid.as_str(), token.revision.to_string()), (lease.uid.as_str(), lease.resource_version));
}

#[tokio::test(start_paused = true)]
async fn release_is_noticed_by_watching_the_second_half() {
    let server = Server::new(NOTHING, NOTHING);
    let watched = |client| {
        let primary = AnnotationLock::config_map(server.maps.client(client), "kube-system", "lock");
        MultiLock::new(primary, LeaseLock::new(server.leases.client(client), "kube-system", "lock"))
    };
    let first = contend(watched("first"), false);
    pass(1.0).await;
    let next = contend(watched("next"), false);
    pass(31.5).await;
    first.stop.cancel();
    first.run.await.unwrap();
    pass(0.05).await;
    assert!(next.status.is_leader());
}
