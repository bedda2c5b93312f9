//! Tests of lost leadership terms and the terms that follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_controller::{
    Action, Cleanup, Controller, ControllerConfig, Finalizer, Manager, QueueSetup, ReconcileRequest, Trigger,
};
use pintle_leaderelect::{Clocks, LeaderElectionConfig, Lease, Now, SystemClocks};
use pintle_meta::{DeleteOptions, ObjectApi, ObjectKey};
use pintle_testing::Collection;
use tokio_util::sync::CancellationToken;

use super::replica;
use crate::log::Log;
use crate::recorder::{Recorder, pass};
use crate::support::{elector, elector_of, informer, key, sites_named, take_lease_over};

#[tokio::test(start_paused = true)]
async fn standby_reconciles_all_objects_after_the_leader_is_killed() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x", "y"]));
    let a = replica("a", &leases, &sites, 0.0);
    pass(1.0).await;
    let b = replica("b", &leases, &sites, 0.0);
    pass(5.0).await;
    a.task.abort();
    pass(10.0).await;
    assert!(b.calls.take().is_empty(), "the lease of the dead leader has not expired yet");
    pass(10.0).await;
    assert_eq!(b.calls.take_sorted(), ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn lost_term_drops_calls_and_next_term_restarts_them() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica("a", &leases, &sites, 1_000.0);
    pass(1.0).await;
    take_lease_over(&leases, "stranger");
    pass(3.0).await;
    assert_eq!((a.calls.running(), a.calls.dropped().len()), (0, 1));
    pass(30.0).await;
    assert!(a.status.is_leader());
    assert_eq!((a.calls.running(), a.calls.take().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_keys_survive_a_lost_term() {
    let leases = Collection::<Lease>::default();
    let (trigger, calls) = (Trigger::new(), Recorder::taking(5.0));
    let controller = Controller::named("hand").source(trigger.clone()).reconciler(calls.clone());
    let manager = Manager::new().controller(controller).leader_election(elector(&leases.client("a"), "a"));
    let _task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    pass(1.0).await;
    ["x", "y", "z"].into_iter().for_each(|name| trigger.trigger(ObjectKey::new("ns", name)));
    pass(0.1).await;
    take_lease_over(&leases, "stranger");
    pass(3.0).await;
    assert_eq!((calls.take().len(), calls.dropped().len()), (1, 1));
    pass(60.0).await;
    assert_eq!(calls.take_sorted(), ["x", "y", "z"]);
}

/// A clock that jumps past the deadline of a leadership term before any task can wake up.
#[derive(Debug, Default)]
struct Jumps(SystemClocks, AtomicBool);

impl Clocks for Jumps {
    fn now(&self) -> Now {
        let now = self.0.now();
        let ahead = if self.1.load(Ordering::Relaxed) { Duration::from_secs(11) } else { Duration::ZERO };
        Now { monotonic: now.monotonic + ahead, ..now }
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_taken_after_the_term_ended() {
    let (log, _guard) = Log::here();
    let leases = Collection::<Lease>::default();
    let (trigger, calls, clock) = (Trigger::new(), Recorder::new(), Arc::new(Jumps::default()));
    let jumps = clock.clone();
    calls.plan("x", move |_| {
        jumps.1.store(true, Ordering::Relaxed);
        Ok(Action::await_change())
    });
    let controller = Controller::named("hand").source(trigger.clone()).reconciler(calls.clone());
    let config = LeaderElectionConfig { clocks: clock, ..LeaderElectionConfig::default() };
    let manager = Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), config));
    let _task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    ["x", "y", "z"].into_iter().for_each(|name| trigger.trigger(ObjectKey::new("ns", name)));
    pass(60.0).await;
    assert_eq!(calls.take_sorted(), ["x", "y", "z"]);
    assert_eq!(log.count("the reconciliation was dropped"), 0);
}

#[tokio::test(start_paused = true)]
async fn new_term_follows_when_term_ends_before_elector_notices() {
    let leases = Collection::<Lease>::default();
    let (trigger, calls, clock) = (Trigger::new(), Recorder::new(), Arc::new(Jumps::default()));
    let jumps = clock.clone();
    let setup: QueueSetup = Arc::new(move |_| jumps.1.store(true, Ordering::Relaxed));
    let config = ControllerConfig { queue: Some(setup), ..Default::default() };
    let controller = Controller::named("hand").source(trigger.clone()).config(config).reconciler(calls.clone());
    let config = LeaderElectionConfig { clocks: clock, ..LeaderElectionConfig::default() };
    let manager = Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), config));
    let task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    trigger.trigger(ObjectKey::new("ns", "x"));
    pass(60.0).await;
    assert!(!task.is_finished(), "the manager was not stopped");
    assert_eq!(calls.take(), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_partitioned_leader_end_before_the_successor_starts() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica("a", &leases, &sites, 1_000.0);
    pass(1.0).await;
    let b = replica("b", &leases, &sites, 1_000.0);
    pass(1.0).await;
    a.client.faults().cut_off();
    let mut both = false;
    for _ in 0..300 {
        pass(0.1).await;
        both |= a.calls.running() + b.calls.running() > 1;
    }
    assert!(!both, "two replicas reconciled at the same time");
    assert_eq!((a.calls.running(), b.calls.running()), (0, 1));
}

/// The code before each write of a finalizer blocks its thread until the term has ended.
#[tokio::test(start_paused = true)]
async fn finalizer_is_not_written_after_the_term() {
    for is_deleted in [false, true] {
        let (leases, sites, clock) = (Collection::<Lease>::default(), sites_named(&["x"]), Arc::<Jumps>::default());
        if is_deleted {
            sites.change(&key("x"), |site| site.metadata.finalizers.push("example.com/dns".into()));
            sites.delete(&key("x"), &DeleteOptions::default()).await.unwrap();
        }
        let (informer, finalizer) = (informer(&sites), Finalizer::new(sites.client("dns"), "example.com/dns"));
        let (lister, finalizer, jumps) = (informer.lister(), Arc::new(finalizer), clock.clone());
        let applied = Arc::new(AtomicBool::new(false));
        let applies = applied.clone();
        let controller = Controller::of(&informer).reconciler(move |request: ReconcileRequest| {
            let (site, finalizer, jumps) = (lister.get(&request.key), finalizer.clone(), jumps.clone());
            let applies = applies.clone();
            async move {
                if jumps.1.load(Ordering::Relaxed) {
                    // The next term may write the finalizer.
                    return Ok(Action::await_change());
                }
                let block = || jumps.1.store(true, Ordering::Relaxed);
                if !is_deleted {
                    block();
                }
                let apply = async |_| {
                    applies.store(true, Ordering::Relaxed);
                    Ok(Action::await_change())
                };
                let cleanup = async |_| {
                    block();
                    Ok(Cleanup::Done)
                };
                finalizer.reconcile(&request, site.unwrap(), apply, cleanup).await
            }
        });
        let config = LeaderElectionConfig { clocks: clock.clone(), ..LeaderElectionConfig::default() };
        let manager = Manager::new().controller(controller).leader_election(elector_of(&leases.client("a"), config));
        let task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
        pass(1.0).await;
        task.abort();
        assert!(clock.1.load(Ordering::Relaxed), "the reconciler was called");
        let patches = sites.requests().iter().filter(|request| request.to_string().contains("PATCH")).count();
        assert_eq!((patches, applied.load(Ordering::Relaxed)), (0, false), "is_deleted: {is_deleted}");
    }
}
