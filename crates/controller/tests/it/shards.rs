//! Tests of sharded controllers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_controller::{
    Action, Controller, ControllerConfig, Manager, ManagerConfig, ManagerError, ManagerStatus, ReconcileRequest,
    Trigger,
};
use pintle_leaderelect::{Clocks, LeaderElectionConfig, Lease, Now, SystemClocks};
use pintle_meta::ObjectKey;
use pintle_sharding::Shard;
use pintle_testing::Collection;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::blocking::{Door, short_lease, until};
use crate::recorder::{Recorder, pass};
use crate::support::{SHARDS, forbid, key, shards};

fn identity(name: &str) -> LeaderElectionConfig {
    LeaderElectionConfig { identity: name.into(), seed: Some(7), ..LeaderElectionConfig::default() }
}

fn lease_of(key: &ObjectKey) -> ObjectKey {
    let shard = Shard::all(SHARDS).find(|shard| shard.has_key(key)).unwrap();
    ObjectKey::new("ns", &format!("sites-{}-of-{SHARDS}", shard.index()))
}

fn holder_of(leases: &Collection<Lease>, lease: &ObjectKey) -> String {
    leases.object(lease).map_or("(none)".into(), |lease| lease.spec.record().holder_identity)
}

fn take_over(leases: &Collection<Lease>, lease: &ObjectKey) {
    leases.change(lease, |lease| lease.spec.holder_identity = Some("stranger".into()));
}

struct Replica {
    status: ManagerStatus,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

fn start(manager: Manager) -> Replica {
    let (status, stop) = (manager.status(), CancellationToken::new());
    let token = stop.clone();
    Replica { status, stop, task: tokio::spawn(async move { manager.run(&token).await }) }
}

fn recording(
    leases: &Collection<Lease>,
    election: LeaderElectionConfig,
    trigger: &Trigger,
    calls: &Recorder,
) -> Manager {
    let (trigger, calls) = (trigger.clone(), calls.clone());
    Manager::new().sharded(shards(leases, election), move |shard| {
        Controller::named(format!("sites-{}", shard.index()))
            .source(trigger.clone())
            .only(move |key| shard.has_key(key))
            .reconciler(calls.clone())
    })
}

/// Returns a manager and a list of all reconciled keys. Reconciliations of the key "blocks" block their thread until
/// the door opens.
fn blocking(
    leases: &Collection<Lease>,
    election: LeaderElectionConfig,
    trigger: &Trigger,
    door: &Door,
) -> (Manager, Arc<Mutex<Vec<String>>>) {
    let (trigger, door, calls) = (trigger.clone(), door.clone(), Arc::<Mutex<Vec<String>>>::default());
    let called = calls.clone();
    let manager = Manager::new().sharded(shards(leases, election), move |shard| {
        let config = ControllerConfig { blocked_after: Duration::from_millis(20), ..ControllerConfig::default() };
        let (door, calls) = (door.clone(), calls.clone());
        Controller::named(format!("sites-{}", shard.index()))
            .source(trigger.clone())
            .only(move |key| shard.has_key(key))
            .config(config)
            .reconciler(move |request: ReconcileRequest| {
                calls.lock().unwrap().push(request.key.name().to_owned());
                if request.key.name() == "blocks" {
                    door.wait();
                }
                async { Ok(Action::await_change()) }
            })
    });
    (manager, called)
}

async fn on_a_thread(wait: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(wait).await.unwrap();
}

#[test]
fn shard_leases_are_renewed_while_threads_are_blocked() {
    let (leases, trigger, door) = (Collection::<Lease>::default(), Trigger::new(), Door::default());
    let _open = door.opens_at_end();
    let (manager, calls) = blocking(&leases, short_lease("a"), &trigger, &door);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stop = CancellationToken::new();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    until("the reconciler is called", || !calls.lock().unwrap().is_empty());
    let lease = lease_of(&key("blocks"));
    let mut seen = std::collections::BTreeSet::new();
    until("the lease is renewed", || {
        seen.extend(leases.object(&lease).and_then(|lease| lease.spec.renew_time));
        seen.len() > 15
    });
    assert_eq!(holder_of(&leases, &lease), "a");
    door.open();
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
    assert_eq!(holder_of(&leases, &lease), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn manager_fails_when_lost_shard_blocks() {
    let (leases, trigger, door) = (Collection::<Lease>::default(), Trigger::new(), Door::default());
    let _open = door.opens_at_end();
    let (manager, calls) = blocking(&leases, short_lease("a"), &trigger, &door);
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(100), exit_if_blocked: false };
    let replica = start(manager.config(config));
    trigger.trigger(key("blocks"));
    on_a_thread(move || until("the reconciler is called", || !calls.lock().unwrap().is_empty())).await;
    take_over(&leases, &lease_of(&key("blocks")));
    let task = tokio::time::timeout(Duration::from_secs(30), replica.task);
    let error = task.await.expect("the manager ends long before a sync timeout").unwrap().unwrap_err().to_string();
    assert!(error.contains("ns/blocks has blocked its thread"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn other_replica_takes_the_shard_of_a_blocked_call() {
    let (leases, trigger, door) = (Collection::<Lease>::default(), Trigger::new(), Door::default());
    let _open = door.opens_at_end();
    let (manager, calls) = blocking(&leases, short_lease("a"), &trigger, &door);
    let first = start(manager);
    trigger.trigger(key("blocks"));
    let called = calls.clone();
    on_a_thread(move || until("the reconciler is called", || !called.lock().unwrap().is_empty())).await;
    let lease = lease_of(&key("blocks"));
    let (other_calls, other_trigger) = (Recorder::new(), Trigger::new());
    let second = start(recording(&leases, short_lease("b"), &other_trigger, &other_calls));
    other_trigger.trigger(key("blocks"));
    take_over(&leases, &lease);
    let (held, seen) = (leases.clone(), lease.clone());
    on_a_thread(move || until("the other replica leads", || holder_of(&held, &seen) == "b")).await;
    on_a_thread(move || until("the other replica reconciles", || other_calls.take() == ["blocks"])).await;
    assert!(first.status.ready().to_string().contains("ns/blocks has blocked"), "{}", first.status.ready());
    assert_eq!(*calls.lock().unwrap(), ["blocks"]);
    door.open();
    first.stop.cancel();
    second.stop.cancel();
    first.task.await.unwrap().unwrap();
    second.task.await.unwrap().unwrap();
}

/// The only replica acquires a lost shard again while a reconciliation of this shard still blocks its thread. The
/// replica must give up the new term and continue with its other shards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replica_gives_a_shard_up_and_continues() {
    let (leases, trigger, door) = (Collection::<Lease>::default(), Trigger::new(), Door::default());
    let _open = door.opens_at_end();
    let (manager, calls) = blocking(&leases, short_lease("a"), &trigger, &door);
    let replica = start(manager);
    trigger.trigger(key("blocks"));
    let called = calls.clone();
    on_a_thread(move || until("the reconciler is called", || !called.lock().unwrap().is_empty())).await;
    let lease = lease_of(&key("blocks"));
    take_over(&leases, &lease);
    let (held, seen) = (leases.clone(), lease.clone());
    on_a_thread(move || {
        until("the replica leads again", || holder_of(&held, &seen) == "a");
        until("the replica gives the shard up", || holder_of(&held, &seen).is_empty());
    })
    .await;
    let other = (0..).map(|number| key(&format!("site-{number}"))).find(|key| lease_of(key) != lease).unwrap();
    trigger.trigger(other.clone());
    let called = calls.clone();
    let name = other.name().to_owned();
    on_a_thread(move || until("the replica continues", || called.lock().unwrap().contains(&name))).await;
    assert!(!replica.task.is_finished());
    door.open();
    trigger.trigger(key("blocks"));
    let called = calls.clone();
    let again = move || called.lock().unwrap().iter().filter(|name| *name == "blocks").count() > 1;
    on_a_thread(move || until("the shard is worked on again", again)).await;
    replica.stop.cancel();
    replica.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_shard_drops_calls_and_next_term_restarts_them() {
    let (leases, trigger, calls) = (Collection::<Lease>::default(), Trigger::new(), Recorder::taking(1_000.0));
    let a = start(recording(&leases, identity("a"), &trigger, &calls));
    pass(60.0).await;
    trigger.trigger(key("x"));
    pass(1.0).await;
    assert_eq!(calls.running(), 1);
    take_over(&leases, &lease_of(&key("x")));
    pass(3.0).await;
    assert_eq!((calls.running(), calls.dropped().len()), (0, 1));
    pass(60.0).await;
    assert_eq!((calls.running(), calls.take().len()), (1, 2));
    a.stop.cancel();
    assert!(a.task.await.unwrap().is_err(), "the call does not end in time");
}

#[tokio::test(start_paused = true)]
async fn triggered_key_waits_until_its_shard_moves_here() {
    let (leases, trigger) = (Collection::<Lease>::default(), Trigger::new());
    let (here, there) = (Recorder::new(), Recorder::new());
    let a = start(recording(&leases, identity("a"), &trigger, &here));
    let b = start(recording(&leases, identity("b"), &Trigger::new(), &there));
    pass(120.0).await;
    let names: Vec<_> = (0..40).map(|number| format!("site-{number:02}")).collect();
    names.iter().for_each(|name| trigger.trigger(key(name)));
    pass(60.0).await;
    let (own, foreign): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| holder_of(&leases, &lease_of(&key(name))) == "a");
    assert!(!own.is_empty() && !foreign.is_empty(), "{own:?} {foreign:?}");
    assert_eq!((here.take_sorted(), there.take()), (own, vec![]));
    b.stop.cancel();
    b.task.await.unwrap().unwrap();
    pass(60.0).await;
    assert_eq!(here.take_sorted(), foreign, "no key is lost, and none is reconciled twice");
    a.stop.cancel();
    a.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn unusable_shard_leases_make_the_replica_unready() {
    let (leases, calls) = (Collection::<Lease>::default(), Recorder::new());
    forbid(leases.faults());
    let a = start(recording(&leases, identity("a"), &Trigger::new(), &calls));
    pass(5.0).await;
    assert!(a.status.ready().is_ok(), "{}", a.status.ready());
    pass(30.0).await;
    let ready = a.status.ready().to_string();
    assert!(ready.contains("[-]shards/sites failed: ") && ready.contains("you may not list this"), "{ready}");
    leases.faults().heal();
    pass(60.0).await;
    assert!(a.status.ready().to_string().contains("[+]shards/sites ok"), "{}", a.status.ready());
    forbid(leases.faults());
    pass(60.0).await;
    let ready = a.status.ready().to_string();
    let expected = "[-]shards/sites failed: leader election by ns/sites-";
    assert!(
        ready.contains(expected) && ready.contains("you may not list this (Forbidden, 403); and 8 more leases"),
        "{ready}"
    );
    assert!(a.status.health().is_ok(), "{}", a.status.health());
    leases.faults().heal();
    pass(60.0).await;
    assert!(a.status.ready().is_ok(), "{}", a.status.ready());
    a.stop.cancel();
    a.task.await.unwrap().unwrap();
}

/// A clock that jumps before any task of the election can wake up.
#[derive(Debug, Default)]
struct Jumps(SystemClocks, AtomicBool);

impl Clocks for Jumps {
    fn now(&self) -> Now {
        let now = self.0.now();
        let ahead = if self.1.load(Ordering::Relaxed) { Duration::from_secs(60) } else { Duration::ZERO };
        Now { monotonic: now.monotonic + ahead, ..now }
    }
}

#[tokio::test(start_paused = true)]
async fn overdue_shard_election_fails_the_liveness_check() {
    let (leases, clock) = (Collection::<Lease>::default(), Arc::new(Jumps::default()));
    let election = LeaderElectionConfig { clocks: clock.clone(), ..identity("a") };
    let a = start(recording(&leases, election, &Trigger::new(), &Recorder::new()));
    pass(60.0).await;
    assert_eq!(a.status.health().to_string(), "[+]shards/sites ok\ncheck passed\n");
    clock.1.store(true, Ordering::Relaxed);
    let health = a.status.health().to_string();
    assert!(health.contains("[-]shards/sites failed: ") && health.contains("still leading"), "{health}");
    a.stop.cancel();
    a.task.await.unwrap().unwrap();
}
