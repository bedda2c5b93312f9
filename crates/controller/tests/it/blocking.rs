//! Tests with reconciliations that block their thread.

use std::env;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pintle_controller::{Action, Controller, ControllerConfig, Manager, ManagerConfig, ReconcileRequest, Trigger};
use pintle_leaderelect::{LeaderCallbacks, LeaderElectionConfig, Leadership, Lease};
use pintle_testing::{Collection, Verb};
use tokio_util::sync::CancellationToken;

use crate::recorder::TestMetrics;
use crate::support::{elector_of, holder, key, shards, take_lease_over};

#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    pub(crate) fn wait(&self) {
        let mut is_open = self.0.0.lock().unwrap();
        while !*is_open {
            is_open = self.0.1.wait(is_open).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn opens_at_end(&self) -> OpensAtEnd {
        OpensAtEnd(self.clone())
    }
}

/// Opens the door for blocked reconciliations at the end of a test, even if the test fails. Dropping the runtime would
/// hang while the door is closed.
pub(crate) struct OpensAtEnd(Door);

impl Drop for OpensAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Returns a controller whose reconciliations block their thread until the door opens, and a list of the reconciled
/// keys.
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

fn soon(metrics: &TestMetrics) -> ControllerConfig {
    ControllerConfig { blocked_after: Duration::from_millis(20), ..metrics.config() }
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "timed out: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

pub(crate) fn short_lease(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.into(),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(200),
        ..Default::default()
    }
}

#[test]
fn blocking_call_is_counted_and_makes_replica_unready() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let (trigger, controller, _) = blocking(&door, soon(&metrics));
    let manager = Manager::new().controller(controller);
    let (status, stop) = (manager.status(), CancellationToken::new());
    // The call blocks the runtime's only worker thread, so only a thread outside of the runtime can detect it.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    until("the blocked call is counted", || metrics.numbers(["blocked_workers"]) == [1.0]);
    let ready = status.ready().to_string();
    assert!(ready.contains("[-]hand failed: the call for ns/blocks has blocked its thread for 0 s"), "{ready}");
    door.open();
    until("the call is unblocked", || metrics.numbers(["blocked_workers"]) == [0.0]);
    assert!(status.ready().is_ok(), "{}", status.ready());
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
}

#[test]
fn lease_is_renewed_while_threads_are_blocked() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let (trigger, controller, calls) = blocking(&door, soon(&metrics));
    let leases = Collection::<Lease>::default();
    let manager =
        Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    until("the reconciler is called", || !calls.lock().unwrap().is_empty());
    let renewed = || leases.object(&key("lock")).and_then(|lease| lease.spec.renew_time);
    let mut seen = std::collections::BTreeSet::new();
    // 15 renewals take longer than a lease duration, which shows that the lease is renewed while the thread is blocked.
    until("the lease is renewed", || {
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
async fn replica_with_blocked_call_contends_only_after_it_ended() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let (trigger, controller, calls) = blocking(&door, soon(&metrics));
    let leases = Collection::<Lease>::default();
    let manager =
        Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let token = stop.clone();
    let run = tokio::spawn(async move { manager.run(&token).await });
    trigger.trigger(key("blocks"));
    let is_called = calls.clone();
    let waits = move || until("the reconciler is called", || !is_called.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    take_lease_over(&leases, "stranger");
    trigger.trigger(key("next"));
    let seen = status.clone();
    let waits = move || until("leadership is lost", || !seen.is_leader());
    tokio::task::spawn_blocking(waits).await.unwrap();
    // The new holder never renews the lease. After the lease has expired, another replica acquires and releases it.
    leases.take_requests();
    let mut other = elector_of(&leases.client("b"), short_lease("b"));
    let work = LeaderCallbacks::new(async |_: Leadership| {});
    assert!(other.run(&CancellationToken::new(), work).await.is_some());
    let writes = leases.take_requests().into_iter().filter(|request| request.verb() == Verb::Update);
    assert!(writes.map(|write| write.client).all(|client| client == "b"));
    assert!(status.ready().to_string().contains("ns/blocks"), "{}", status.ready());
    assert_eq!(*calls.lock().unwrap(), ["blocks"]);
    door.open();
    let is_called = calls.clone();
    let waits =
        move || until("the next key is reconciled", || is_called.lock().unwrap().iter().any(|name| name == "next"));
    tokio::task::spawn_blocking(waits).await.unwrap();
    stop.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn manager_fails_when_blocked_call_outlives_the_stop_timeout() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let (trigger, controller, calls) = blocking(&door, soon(&metrics));
    let leases = Collection::<Lease>::default();
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(100), exit_if_blocked: false };
    let manager = Manager::new().config(config).controller(controller);
    let manager = manager.leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let run = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    trigger.trigger(key("blocks"));
    let waits = move || until("the reconciler is called", || !calls.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    take_lease_over(&leases, "stranger");
    let error = run.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("\"hand\"") && error.contains("ns/blocks"), "{error}");
}

/// The manager also has shards, and their elections end only after a stop request.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn failed_leader_election_ends_a_manager_with_shards() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let (trigger, controller, calls) = blocking(&door, soon(&metrics));
    let leases = Collection::<Lease>::default();
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(100), exit_if_blocked: false };
    let manager = Manager::new().config(config).controller(controller);
    let manager = manager.leader_election(elector_of(&leases.client("a"), short_lease("a")));
    let manager = manager.sharded(shards(&leases, short_lease("a")), |shard| {
        Controller::named(format!("sites-{}", shard.index()))
            .reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) })
    });
    let run = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    trigger.trigger(key("blocks"));
    let waits = move || until("the reconciler is called", || !calls.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    take_lease_over(&leases, "stranger");
    let run = tokio::time::timeout(Duration::from_secs(30), run);
    let error = run.await.expect("the manager ends").unwrap().unwrap_err().to_string();
    assert!(error.contains("\"hand\"") && error.contains("ns/blocks"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn run_ends_despite_blocked_call_and_next_run_fails() {
    let (door, metrics) = (Door::default(), TestMetrics::default());
    let _open = door.opens_at_end();
    let limits = ControllerConfig {
        graceful_shutdown_timeout: Duration::from_millis(1),
        cache_sync_timeout: Some(Duration::from_millis(100)),
        ..soon(&metrics)
    };
    let (trigger, controller, calls) = blocking(&door, limits);
    let stop = CancellationToken::new();
    let (again, token) = (controller.clone(), stop.clone());
    let run = tokio::spawn(async move { again.run(&token).await });
    ["blocks", "next"].into_iter().for_each(|name| trigger.trigger(key(name)));
    let waits = move || until("the reconciler is called", || !calls.lock().unwrap().is_empty());
    tokio::task::spawn_blocking(waits).await.unwrap();
    stop.cancel();
    let error = run.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("in flight: ns/blocks; queued: ns/next"), "{error}");
    let error = controller.run(&CancellationToken::new()).await.unwrap_err().to_string();
    assert!(error.contains("an earlier run") && error.contains("ns/blocks"), "{error}");
}

/// A timer resumes the reconciliation, which then blocks the thread that waits for the runtime's timers.
#[test]
fn timers_fire_while_a_call_blocks_one_thread() {
    let (door, metrics, trigger) = (Door::default(), TestMetrics::default(), Trigger::new());
    let (fires, fired) = std::sync::mpsc::channel();
    let blocked = door.clone();
    let controller = Controller::named("hand").source(trigger.clone()).config(soon(&metrics)).reconciler(
        move |_: ReconcileRequest| {
            let (door, fires) = (blocked.clone(), fires.clone());
            async move {
                let timer = tokio::time::sleep(Duration::from_millis(100));
                let later = tokio::time::sleep(Duration::from_millis(200));
                tokio::spawn(async move {
                    later.await;
                    fires.send(()).unwrap();
                });
                timer.await;
                door.wait();
                Ok(Action::await_change())
            }
        },
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // If the test fails, open the door before dropping the runtime, because the drop waits for the blocked thread.
    let _open = door.opens_at_end();
    let stop = CancellationToken::new();
    let token = stop.clone();
    let run = runtime.spawn(async move { controller.run(&token).await });
    trigger.trigger(key("blocks"));
    fired.recv_timeout(Duration::from_secs(30)).expect("the timer fires");
    until("the blocked call is counted", || metrics.numbers(["blocked_workers"]) == [1.0]);
    door.open();
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
}

const CHILD: &str = "PINTLE_TEST_BLOCKED_CHILD";

/// Runs a test of this binary in a new process, where a reconciliation blocks its thread forever. Returns the stderr
/// output of the process.
fn run_blocked_process(name: &str) -> String {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

#[test]
fn process_exits_after_stop_timeout_when_a_call_blocks() {
    if env::var_os(CHILD).is_some() {
        let (trigger, controller, calls) = blocking(&Door::default(), ControllerConfig::default());
        return stop_with_a_blocked_call(&trigger, controller, calls);
    }
    let text = run_blocked_process("blocking::process_exits_after_stop_timeout_when_a_call_blocks");
    assert!(
        text.contains("pintle: the stop timed out")
            && text.contains("controller \"hand\"")
            && text.contains("ns/blocks"),
        "{text}"
    );
}

/// The watchdog's log messages block on the stderr lock.
#[test]
fn process_exits_when_a_blocked_call_has_locked_stderr() {
    if env::var_os(CHILD).is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let (trigger, calls) = (Trigger::new(), Arc::<Mutex<Vec<String>>>::default());
        let called = calls.clone();
        let config = ControllerConfig { blocked_after: Duration::from_millis(20), ..ControllerConfig::default() };
        let controller =
            Controller::named("hand").source(trigger.clone()).config(config).reconciler(move |_: ReconcileRequest| {
                let _lock = std::io::stderr().lock();
                called.lock().unwrap().push("blocks".into());
                Door::default().wait();
                async { Ok(Action::await_change()) }
            });
        return stop_with_a_blocked_call(&trigger, controller, calls);
    }
    run_blocked_process("blocking::process_exits_when_a_blocked_call_has_locked_stderr");
}

fn stop_with_a_blocked_call(trigger: &Trigger, controller: Controller, calls: Arc<Mutex<Vec<String>>>) {
    let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_millis(200), ..Default::default() };
    let manager = Manager::new().config(config).controller(controller);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let stop = CancellationToken::new();
        let token = stop.clone();
        trigger.trigger(key("blocks"));
        let run = tokio::spawn(async move { manager.run(&token).await });
        tokio::task::spawn_blocking(move || until("the reconciler is called", || !calls.lock().unwrap().is_empty()))
            .await
            .unwrap();
        stop.cancel();
        assert!(run.await.unwrap().is_err());
    });
    // Drop the runtime, as at the end of `main`. If the watchdog did not exit the process, this drop would wait forever
    // for the blocked thread.
    drop(runtime);
}
