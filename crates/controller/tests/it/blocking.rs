//! Reconciliations that block their thread.

use std::env;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pintle_controller::{Action, Controller, ControllerConfig, Manager, ManagerConfig, ReconcileRequest, Trigger};
use pintle_leaderelect::{LeaderElectionConfig, Lease};
use pintle_testing::Collection;
use tokio_util::sync::CancellationToken;

use crate::recorder::Told;
use crate::support::{elector_of, holder, key, usurp};

/// A door that threads wait at.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn wait(&self) {
        let mut is_open = self.0.0.lock().unwrap();
        while !*is_open {
            is_open = self.0.1.wait(is_open).unwrap();
        }
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A controller whose calls for a key block their thread until its door opens, and how often it was called.
fn blocking(door: &Door, config: ControllerConfig) -> (Trigger, Controller, Arc<Mutex<Vec<String>>>) {
    let (trigger, door, calls) = (Trigger::new(), door.clone(), Arc::<Mutex<Vec<String>>>::default());
    let called = calls.clone();
    let controller = Controller::named("hand").source(trigger.clone()).config(config).reconciler(
        move |request: ReconcileRequest| {
            called.lock().unwrap().push(request.key.name().to_owned());
            if request.key.name().starts_with("blocks") {
                door.wait();
            }
            async { Ok(Action::await_change()) }
        },
    );
    (trigger, controller, calls)
}

fn soon(told: &Told) -> ControllerConfig {
    ControllerConfig { blocked_after: Duration::from_millis(20), ..told.config() }
}

/// Waits for something that other threads bring about.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} in vain");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn short_lease(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.into(),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(200),
        ..Default::default()
    }
}

#[test]
fn a_call_that_blocks_its_thread_is_counted_and_makes_the_replica_unready() {
    let (door, told) = (Door::default(), Told::default());
    let (trigger, controller, _) = blocking(&door, soon(&told));
    let manager = Manager::new().controller(controller);
    let (status, stop) = (manager.status(), CancellationToken::new());
    // All threads are blocked, so no task could tell.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    until("it is counted", || told.numbers(["blocked_workers"]) == [1.0]);
    let ready = status.ready().to_string();
    assert!(ready.contains("[-]hand failed: the call for ns/blocks has blocked its thread for 0 s"), "{ready}");
    door.open();
    until("it lets go", || told.numbers(["blocked_workers"]) == [0.0]);
    assert!(status.ready().is_ok(), "{}", status.ready());
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
}

#[test]
fn blocked_threads_do_not_keep_the_lease_from_being_renewed() {
    let (door, told) = (Door::default(), Told::default());
    let (trigger, controller, calls) = blocking(&door, soon(&told));
    let leases = Collection::<Lease>::default();
    let manager =
        Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    until("it is called", || !calls.lock().unwrap().is_empty());
    let renewed = || leases.object(&key("lock")).and_then(|lease| lease.spec.renew_time);
    let mut seen = std::collections::BTreeSet::new();
    // Many more renewals than a term lasts without any.
    until("it is renewed", || {
        seen.extend(renewed());
        seen.len() > 15
    });
    assert!(status.is_leader() && holder(&leases) == "a");
    door.open();
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
    assert_eq!(holder(&leases), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_replica_whose_lost_term_cannot_end_leaves_the_lease_to_others_and_works_once_it_has_ended() {
    let (door, told) = (Door::default(), Told::default());
    let (trigger, controller, calls) = blocking(&door, soon(&told));
    let leases = Collection::<Lease>::default();
    let manager =
        Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let token = stop.clone();
    let run = tokio::spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    let is_called = calls.clone();
    let waits = move || until("it is called", || !is_called.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    usurp(&leases, "stranger");
    trigger.trigger(key("next"));
    // The stranger does not renew, so the lease is free before long.
    let (seen, held) = (status.clone(), leases.clone());
    let waits = move || {
        until("it is lost", || !seen.is_leader());
        until("it is free", || holder(&held).is_empty());
    };
    tokio::task::spawn_blocking(waits).await.unwrap();
    assert!(status.ready().to_string().contains("ns/blocks"), "{}", status.ready());
    assert_eq!(*calls.lock().unwrap(), ["blocks"]);
    door.open();
    let is_called = calls.clone();
    let waits = move || until("it works again", || is_called.lock().unwrap().iter().any(|name| name == "next"));
    tokio::task::spawn_blocking(waits).await.unwrap();
    stop.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_manager_whose_lost_term_cannot_end_fails_in_the_time_of_a_stop() {
    let (door, told) = (Door::default(), Told::default());
    let (trigger, controller, calls) = blocking(&door, soon(&told));
    let leases = Collection::<Lease>::default();
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(100), exit_if_blocked: false };
    let manager = Manager::new().config(config).controller(controller);
    let manager = manager.leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let run = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    trigger.trigger(key("blocks"));
    let waits = move || until("it is called", || !calls.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    usurp(&leases, "stranger");
    let error = run.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("\"hand\"") && error.contains("ns/blocks"), "{error}");
    door.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_run_ends_though_a_call_blocks_its_thread_and_the_next_run_fails_in_time() {
    let (door, told) = (Door::default(), Told::default());
    let limits = ControllerConfig {
        graceful_shutdown_timeout: Duration::from_millis(1),
        cache_sync_timeout: Some(Duration::from_millis(100)),
        ..soon(&told)
    };
    let (trigger, controller, calls) = blocking(&door, limits);
    let stop = CancellationToken::new();
    let (again, token) = (controller.clone(), stop.clone());
    let run = tokio::spawn(async move { again.run(&token).await });
    ["blocks", "next"].into_iter().for_each(|name| trigger.trigger(key(name)));
    let waits = move || until("it is called", || !calls.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    stop.cancel();
    let error = run.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("in flight: ns/blocks; queued: ns/next"), "{error}");
    let error = controller.run(&CancellationToken::new()).await.unwrap_err().to_string();
    assert!(error.contains("an earlier run") && error.contains("ns/blocks"), "{error}");
    door.open();
}

const CHILD: &str = "PINTLE_TEST_BLOCKED_CHILD";

/// The test runs its own program once more, as a process whose reconciler never lets go of its thread.
#[test]
fn the_process_ends_in_the_time_of_a_stop_though_a_call_blocks_its_thread() {
    if env::var_os(CHILD).is_some() {
        return block_forever();
    }
    let name = "blocking::the_process_ends_in_the_time_of_a_stop_though_a_call_blocks_its_thread";
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("pintle: the stop is over") && told.contains("controller \"hand\"") && told.contains("ns/blocks"),
        "{told}"
    );
}

fn block_forever() {
    let (trigger, controller, calls) = blocking(&Door::default(), ControllerConfig::default());
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(200), ..Default::default() };
    let manager = Manager::new().config(config).controller(controller);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let stop = CancellationToken::new();
        let token = stop.clone();
        trigger.trigger(key("blocks"));
        let run = tokio::spawn(async move { manager.run(&token).await });
        tokio::task::spawn_blocking(move || until("it is called", || !calls.lock().unwrap().is_empty())).await.unwrap();
        stop.cancel();
        assert!(run.await.unwrap().is_err());
    });
    // As at the end of `main`: it waits for the thread, for ever.
    drop(runtime);
}
