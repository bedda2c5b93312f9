//! Tests that an `AnnotationLock` behaves like a `LeaseLock`.

use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::{
    AnnotationLock, ElectionStatus, LEADER_ANNOTATION, LeaderCallbacks, LeaderElectionConfig, LeaderElector,
    Leadership, Lock,
};
use pintle_meta::{ApiResource, DynamicObject, ObjectMeta, Scope};
use pintle_metrics::InMemoryProvider;
use pintle_testing::{Call, Collection, CollectionConfig, Outcome};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};
use crate::server::key;

/// A server that accepts objects of any kind, because locks do not check an object's kind.
type Server = Collection<DynamicObject>;

fn server() -> Server {
    let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
    Collection::dynamic(resource, CollectionConfig::default())
}

/// Creates a server with one object that contains unrelated data and, if given, the annotation.
fn holding(annotation: Option<&str>) -> Server {
    let mut metadata = ObjectMeta::new("kube-system", "lock");
    metadata.annotations.insert("foreign".into(), "note".into());
    metadata.annotations.extend(annotation.map(|text| (LEADER_ANNOTATION.into(), text.into())));
    let mut object = DynamicObject { metadata, ..DynamicObject::default() };
    object.data.insert("data".into(), serde_json::json!({"key": "value"}));
    let server = server();
    server.put(object);
    server
}

fn object(server: &Server) -> DynamicObject {
    server.object(&key()).unwrap()
}

fn annotation(server: &Server) -> String {
    object(server).metadata.annotations[LEADER_ANNOTATION].clone()
}

fn annotate(server: &Server, text: &str) {
    server.change(&key(), |object| drop(object.metadata.annotations.insert(LEADER_ANNOTATION.into(), text.into())));
}

fn verbs(server: &Server) -> Vec<&'static str> {
    let requests = server.take_requests().into_iter();
    let verb = |call| match call {
        Call::Get { .. } => "get",
        Call::Create { .. } => "create",
        Call::Update { .. } => "update",
        other => panic!("an elector sends {other}"),
    };
    requests.map(|request| verb(request.call)).collect()
}

struct Contender {
    status: ElectionStatus,
    memory: InMemoryProvider,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

fn contend(lock: AnnotationLock<Server>) -> Contender {
    let seconds = Duration::from_secs;
    let memory = InMemoryProvider::new();
    let config = LeaderElectionConfig {
        identity: "baz".into(),
        seed: Some(7),
        metrics: Some(Arc::new(memory.clone())),
        clocks: TestClock::new(),
        lease_duration: seconds(10),
        renew_deadline: seconds(8),
        retry_period: seconds(2),
        ..LeaderElectionConfig::default()
    };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let (status, stop) = (elector.status(), CancellationToken::new());
    let run = tokio::spawn({
        let stop = stop.clone();
        let callbacks = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        async move { drop(elector.run(&stop, callbacks).await) }
    });
    Contender { status, memory, stop, run }
}

fn locks(server: &Server) -> [AnnotationLock<Server>; 2] {
    let (namespace, name) = ("kube-system", "lock");
    [
        AnnotationLock::config_map(server.clone(), namespace, name),
        AnnotationLock::endpoints(server.clone(), namespace, name),
    ]
    .map(|mut lock| {
        lock.watch = false;
        lock
    })
}

const BING: &str = r#"{"holderIdentity":"bing","leaseDurationSeconds":3,"leaderTransitions":4}"#;

/// Runs a contender for each kind of annotation lock. `given` is the annotation of the existing object, or `None` if
/// the object does not exist. After `wait` seconds, checks the requests and the number of transitions.
async fn check(given: Option<Option<&str>>, wait: f64, expected: &[&str], transitions: i32) {
    for kind in 0..2 {
        let server = given.map_or_else(server, holding);
        let [config_map, endpoints] = locks(&server);
        let elector = contend(if kind == 0 { config_map } else { endpoints });
        pass(wait).await;
        assert_eq!(verbs(&server), expected, "{given:?}");
        let leads = !matches!(expected, ["get"]);
        assert_eq!(elector.status.is_leader(), leads, "{given:?}");
        assert!(
            annotation(&server).contains(&format!("\"leaderTransitions\":{transitions}}}")),
            "{}",
            annotation(&server)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn annotation_lock_behaves_like_a_lease() {
    check(None, 0.1, &["get", "create"], 0).await;
    check(Some(None), 0.1, &["get", "update"], 1).await;
    check(Some(Some(r#"{"holderIdentity":"","leaderTransitions":4}"#)), 0.1, &["get", "update"], 5).await;
    check(Some(Some(BING)), 2.9, &["get"], 4).await;
    check(Some(Some(BING)), 3.5, &["get", "get", "update"], 5).await;
    check(None, 7.0, &["get", "create", "update", "update", "update"], 0).await;
}

#[tokio::test(start_paused = true)]
async fn record_matches_client_go_and_other_data_is_kept() {
    let server = holding(None);
    let [lock, _] = locks(&server);
    let elector = contend(lock);
    pass(2.5).await;
    let expected = r#"{"holderIdentity":"baz","leaseDurationSeconds":10,"acquireTime":"2027-01-15T08:00:00Z","renewTime":"2027-01-15T08:00:02Z","leaderTransitions":1}"#;
    assert_eq!(annotation(&server), expected);
    elector.stop.cancel();
    elector.run.await.unwrap();
    let released = r#"{"holderIdentity":"","leaseDurationSeconds":1,"acquireTime":"2027-01-15T08:00:02Z","renewTime":"2027-01-15T08:00:02Z","leaderTransitions":1}"#;
    assert_eq!(annotation(&server), released);
    let object = object(&server);
    assert_eq!(object.metadata.annotations["foreign"], "note");
    assert_eq!(object.data["data"]["key"], "value");
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_renewal_releases_both_kinds() {
    for kind in 0..2 {
        for fault in [Outcome::AnswerSlow(Duration::from_secs(1)), Outcome::AnswerLost, Outcome::Lost] {
            let server = server();
            let elector = contend(locks(&server).into_iter().nth(kind).unwrap());
            pass(0.1).await;
            // This fault affects the renewal at second 2.0.
            server.faults().next([fault.clone()]);
            pass(2.0).await;
            elector.stop.cancel();
            elector.run.await.unwrap();
            assert!(annotation(&server).starts_with(r#"{"holderIdentity":"","#), "{fault:?}: {}", annotation(&server));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn term_survives_many_renewals_and_lost_races() {
    let server = server();
    let [_, lock] = locks(&server);
    let elector = contend(lock);
    for _ in 0..30 {
        pass(1.7).await;
        server.change(&key(), |_| {});
    }
    assert!(elector.status.is_leader());
    assert_eq!(elector.memory.value("leader_election_terms_total", &[]), Some(1.0));
}

#[tokio::test]
async fn records_of_other_programs_are_readable() {
    for (text, holder, renewed) in [
        (r#"{"holderIdentity":"a","renewTime":"2016-01-02T03:04:05.123456789Z"}"#, "a", Some(1_451_703_845)),
        (r#"{"holderIdentity":"a","renewTime":"2016-01-02T04:04:05+01:00"}"#, "a", Some(1_451_703_845)),
        (r#"{"holderIdentity":"a","renewTime":null,"holderKey":"istio"}"#, "a", None),
        (r#"{"holderIdentity":null,"leaseDurationSeconds":null,"leaderTransitions":null}"#, "", None),
        ("{}", "", None),
    ] {
        let [lock, _] = locks(&holding(Some(text)));
        let record = lock.get().await.unwrap().unwrap().state.record;
        assert_eq!(record.holder_identity, holder, "{text}");
        assert_eq!(record.renew_time.map(|time| time.0.as_second()), renewed, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_record_blocks_leadership_until_repaired() {
    let server = holding(Some("not JSON"));
    let [lock, other] = locks(&server);
    let error = other.get().await.unwrap_err().to_string();
    assert!(error.contains("Endpoints kube-system/lock") && error.contains(LEADER_ANNOTATION), "{error}");
    let elector = contend(lock);
    pass(60.0).await;
    assert!(!elector.status.is_leader() && !verbs(&server).contains(&"update"));
    annotate(&server, "{}");
    pass(5.0).await;
    assert!(elector.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn release_is_noticed_by_watch_for_both_kinds() {
    for endpoints in [false, true] {
        let server = server();
        let watched = || {
            if endpoints {
                AnnotationLock::endpoints(server.clone(), "kube-system", "lock")
            } else {
                AnnotationLock::config_map(server.clone(), "kube-system", "lock")
            }
        };
        let first = contend(watched());
        pass(1.0).await;
        let next = contend(watched());
        pass(60.0).await;
        server.take_requests();
        pass(20.0).await;
        let requests = server.take_requests();
        assert!(
            requests.iter().all(|request| matches!(request.call, Call::Update { .. })),
            "only the leader sends requests: {requests:?}"
        );
        first.stop.cancel();
        first.run.await.unwrap();
        pass(0.05).await;
        assert!(next.status.is_leader(), "endpoints: {endpoints}");
        assert_eq!(verbs(&server).last(), Some(&"update"));
    }
}
