//! Tests which replica reconciles, and in which order a manager starts and stops its components.

mod stop;
mod terms;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_controller::{Controller, Manager, ManagerError, ManagerStatus, leader_events};
use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource};
use pintle_informer::{InformerConfig, InformerFactory};
use pintle_leaderelect::{LeaderElectionConfig, Lease};
use pintle_meta::Resource;
use pintle_testing::{Break, Call, Client, Collection};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::recorder::{Recorder, TestMetrics, pass};
use crate::support::{Site, elector, elector_of, forbid, holder, informer, sites_named};

struct Replica {
    calls: Recorder,
    client: Client<Lease>,
    status: ManagerStatus,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

/// Returns a replica with a controller for `sites`. Each reconciliation takes `takes` seconds.
fn replica(identity: &str, leases: &Collection<Lease>, sites: &Collection<Site>, takes: f64) -> Replica {
    replica_with(identity, leases, sites, takes, |manager| manager)
}

fn replica_with(
    identity: &str,
    leases: &Collection<Lease>,
    sites: &Collection<Site>,
    takes: f64,
    change: impl FnOnce(Manager) -> Manager,
) -> Replica {
    let client = leases.client(identity);
    let calls = Recorder::taking(takes);
    let controller = Controller::of(&informer(sites)).reconciler(calls.clone());
    let manager = Manager::new().controller(controller).leader_election(elector(&client, identity));
    let manager = change(manager);
    let (status, stop) = (manager.status(), CancellationToken::new());
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    Replica { calls, client, status, stop, task }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_reconciles_and_the_standby_is_warm() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x", "y"]));
    let a = replica("a", &leases, &sites, 0.0);
    pass(1.0).await;
    let b = replica("b", &leases, &sites, 0.0);
    pass(60.0).await;
    assert_eq!((a.calls.take_sorted(), b.calls.take()), (vec!["x".into(), "y".into()], vec![]));
    assert!(a.status.is_leader() && !b.status.is_leader());
    assert!(b.status.ready().is_ok() && b.status.health().is_ok(), "{} {}", b.status.ready(), b.status.health());
    assert_eq!(b.status.election().unwrap().leader().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn failing_watches_make_replica_unready_after_two_minutes() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica("a", &leases, &sites, 0.0);
    pass(1.0).await;
    assert!(a.status.ready().is_ok());
    forbid(sites.faults());
    sites.break_watches(Break::expired());
    sites.compact();
    pass(110.0).await;
    assert!(a.status.ready().is_ok(), "{}", a.status.ready());
    pass(15.0).await;
    let text = a.status.ready().to_string();
    assert!(
        text.contains("[-]site failed: Site: not up to date for 12") && text.contains("you may not list"),
        "{text}"
    );
    sites.faults().heal();
    pass(60.0).await;
    assert!(a.status.ready().is_ok(), "{}", a.status.ready());
}

#[tokio::test(start_paused = true)]
async fn duplicate_controller_names_fail_before_anything_starts() {
    let sites = sites_named(&["x"]);
    let calls = Recorder::new();
    let make = || Controller::of(&informer(&sites)).reconciler(calls.clone());
    let manager = Manager::new().controller(make()).controller(make());
    let error = manager.run(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, ManagerError::DuplicateName { name } if name == "site"), "{error}");
    assert!(error.to_string().ends_with("give one of them another name with `.name(…)`"), "{error}");
    assert!(sites.requests().is_empty() && calls.take().is_empty());
}

fn recorded(sink: &Collection<Event>) -> Vec<Event> {
    let created = sink.requests().into_iter().map(|request| match request.call {
        Call::Create { object, .. } => serde_json::from_value(object).unwrap(),
        other => panic!("{other}"),
    });
    created.collect()
}

fn service(log: &Arc<Mutex<Vec<&'static str>>>) -> impl FnOnce(Manager) -> Manager {
    let log = log.clone();
    move |manager| {
        manager.service("web", move |stop| async move {
            log.lock().unwrap().push("service starts");
            stop.cancelled().await;
            log.lock().unwrap().push("service stops");
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn services_run_on_every_replica_and_outlive_controllers() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log = Arc::default();
    let a = replica_with("a", &leases, &sites, 10.0, service(&log));
    let b = replica_with("b", &leases, &sites, 10.0, service(&log));
    pass(1.0).await;
    assert_eq!(*log.lock().unwrap(), ["service starts", "service starts"]);
    a.stop.cancel();
    b.stop.cancel();
    pass(0.1).await;
    assert_eq!(log.lock().unwrap().len(), 3, "the leader's service waits for its controller");
    pass(10.0).await;
    assert_eq!(log.lock().unwrap().len(), 4);
    assert_eq!(holder(&leases), "");
    a.task.await.unwrap().unwrap();
    b.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_election_controllers_run_on_every_replica() {
    let sites = sites_named(&["x"]);
    let calls = Recorder::new();
    let factory = InformerFactory::new();
    let informer = factory.informer(sites.clone(), InformerConfig::default());
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer).config(metrics.config()).reconciler(calls.clone());
    let manager = Manager::new().informers(factory).controller(controller);
    let (status, stop) = (manager.status(), CancellationToken::new());
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    pass(1.0).await;
    assert!(status.is_leader() && status.election().is_none());
    assert_eq!(calls.take(), ["x"]);
    assert_eq!(metrics.results(), [1.0, 0.0, 0.0]);
    stop.cancel();
    task.await.unwrap().unwrap();
    assert!(matches!(informer.state(), pintle_informer::InformerState::Stopped { .. }), "informers end last");
}

#[tokio::test(start_paused = true)]
async fn readiness_names_unsynced_sources_with_reasons() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    forbid(sites.faults());
    let a = replica("a", &leases, &sites, 0.0);
    pass(1.0).await;
    let ready = a.status.ready();
    assert!(!ready.is_ok());
    let text = ready.to_string();
    assert!(text.starts_with("[-]site failed: Site: ") && text.contains("you may not list this"), "{text}");
    assert!(text.ends_with("check failed\n"), "{text}");
    assert_eq!(a.status.health().to_string(), "[+]leaderElection ok\ncheck passed\n");
    assert_eq!(Site::api_resource().kind, "Site");
}

#[tokio::test(start_paused = true)]
async fn leadership_is_reported_as_events_and_metrics() {
    let (leases, sink) = (Collection::<Lease>::default(), Collection::<Event>::default());
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(EventSource { component: "site".into(), host: String::new() });
    let metrics = TestMetrics::default();
    let informer = informer(&sites_named(&["x"]));
    let manager = Manager::new().controller(Controller::of(&informer).reconciler(Recorder::new()));
    let manager = manager.leader_election(elector_of(
        &leases.client("a"),
        LeaderElectionConfig {
            identity: "a".into(),
            metrics: metrics.provider(),
            events: Some(leader_events(recorder)),
            ..LeaderElectionConfig::default()
        },
    ));
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    pass(1.0).await;
    assert_eq!(metrics.0.value("leader_election_master_status", &[("name", "lock")]), Some(1.0));
    stop.cancel();
    task.await.unwrap().unwrap();
    broadcaster.shutdown(Duration::from_secs(1)).await;
    let events = recorded(&sink);
    let messages: Vec<_> = events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["a became leader", "a stopped leading"]);
    let about = &events[0].involved_object;
    assert_eq!((&*about.kind, &*about.api_version), ("Lease", "coordination.k8s.io/v1"));
    assert_eq!((&*about.name, &*about.uid, &*events[0].reason), ("lock", "uid-leases-1", "LeaderElection"));
}

#[tokio::test(start_paused = true)]
async fn empty_manager_runs_until_its_stop() {
    for election in [false, true] {
        let leases = Collection::<Lease>::default();
        let mut manager = Manager::new();
        if election {
            manager = manager.leader_election(elector(&leases.client("a"), "a"));
        }
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { manager.run(&token).await });
        pass(100.0).await;
        assert!(!task.is_finished());
        assert_eq!(holder(&leases), if election { "a" } else { "(none)" });
        stop.cancel();
        stop.cancel();
        task.await.unwrap().unwrap();
        assert_eq!(holder(&leases), if election { "" } else { "(none)" });
    }
}
