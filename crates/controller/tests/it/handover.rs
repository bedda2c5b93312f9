//! Tests of deletions that happen while no replica leads or between two runs of a controller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pintle_controller::predicate::GenerationChanged;
use pintle_controller::{Action, Controller, EnqueueMapped, Kind, Manager, ReconcileRequest, Reconciler, Trigger};
use pintle_leaderelect::Lease;
use pintle_meta::ObjectKey;
use pintle_testing::Collection;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::recorder::{Recorder, pass, run};
use crate::support::{Child, Site, delete_unseen, elector, informer, key, sites_named, take_lease_over, touch};

fn replica(leases: &Collection<Lease>, identity: &str, controller: Controller) -> JoinHandle<()> {
    let manager = Manager::new().controller(controller).leader_election(elector(&leases.client(identity), identity));
    tokio::spawn(async move { drop(manager.run(&CancellationToken::new()).await) })
}

fn of_sites(sites: &Collection<Site>, reconciler: impl Reconciler) -> Controller {
    Controller::of(&informer(sites)).reconciler(reconciler)
}

#[tokio::test(start_paused = true)]
async fn standby_reconciles_deletions_from_before_its_term() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x", "y", "z"]));
    let (a, b) = (Recorder::new(), Recorder::new());
    let leader = replica(&leases, "a", of_sites(&sites, a.clone()));
    pass(1.0).await;
    let _standby = replica(&leases, "b", of_sites(&sites, b.clone()));
    pass(5.0).await;
    leader.abort();
    pass(0.1).await;
    assert!(sites.remove(&key("x")));
    // `short-lived` is created and deleted while the standby watches. `z` is deleted while the watch is broken, so only
    // a re-list reveals the deletion.
    sites.put(Site::named("short-lived"));
    pass(0.1).await;
    assert!(sites.remove(&key("short-lived")));
    delete_unseen(&sites, "z");
    pass(60.0).await;
    assert_eq!(b.take_sorted(), ["short-lived", "x", "y", "z"]);
}

#[tokio::test(start_paused = true)]
async fn next_term_reconciles_deletions_between_terms() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x", "y"]));
    let calls = Recorder::new();
    let _replica = replica(&leases, "a", of_sites(&sites, calls.clone()));
    pass(1.0).await;
    calls.take();
    for name in ["x", "again"] {
        take_lease_over(&leases, "stranger");
        pass(3.0).await;
        assert!(calls.take().is_empty());
        assert!(sites.remove(&key(name)));
        sites.put(Site::named("again"));
        pass(60.0).await;
        let mut expected = vec!["again", name, "y"];
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(calls.take_sorted(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn next_run_reconciles_deletions_between_runs() {
    let sites = sites_named(&["x", "y"]);
    let calls = Recorder::new();
    let controller = of_sites(&sites, calls.clone());
    run(&controller).await.stop().await.unwrap();
    calls.take();
    assert!(sites.remove(&key("x")));
    pass(1.0).await;
    let running = run(&controller).await;
    assert_eq!(calls.take_sorted(), ["x", "y"]);
    running.stop().await.unwrap();
    let _running = run(&controller).await;
    assert_eq!(calls.take_sorted(), ["y"], "the deletion was delivered once");
}

#[tokio::test(start_paused = true)]
async fn deletions_between_runs_pass_through_sources_handlers_and_predicates() {
    let sites = sites_named(&[]);
    let owner = sites.put(Site::named("site"));
    let (children, others) = (Collection::<Child>::default(), Collection::<Child>::default());
    children.put(Child::of(&owner, "child"));
    let mut labelled = Child::named("other");
    labelled.metadata.labels.insert("for".into(), "old".into());
    others.put(labelled);
    let calls = Recorder::new();
    let by_label =
        EnqueueMapped::new(|child: &Child| child.metadata.labels.get("for").map(|name| ObjectKey::new("ns", name)));
    let controller = Controller::named("no-kind")
        .watches(
            Kind::of(&informer(&children)).when(GenerationChanged),
            EnqueueMapped::new(|child: &Child| {
                let owners = child.metadata.owner_references.iter();
                owners.map(|owner| ObjectKey::new("ns", &owner.name)).collect::<Vec<_>>()
            }),
        )
        .watches(&informer(&others), by_label)
        .reconciler(calls.clone());
    run(&controller).await.stop().await.unwrap();
    assert_eq!(calls.take_sorted(), ["old", "site"]);
    assert!(children.remove(&key("child")));
    // After this update, the handler returns a different key. The key from before the update must also be reconciled.
    others.change(&key("other"), |other| drop(other.metadata.labels.insert("for".into(), "new".into())));
    pass(1.0).await;
    let running = run(&controller).await;
    assert_eq!(calls.take_sorted(), ["new", "old", "site"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deletion_during_a_later_first_list_is_reconciled() {
    let names: Vec<_> = (0..500).map(|index| format!("site-{index:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let sites = sites_named(&names);
    let calls = Recorder::new();
    let controller = of_sites(&sites, calls.clone());
    run(&controller).await.stop().await.unwrap();
    assert_eq!(calls.take().len(), 500);
    let (stop, again) = (CancellationToken::new(), controller.clone());
    let (token, deleted) = (stop.clone(), sites.clone());
    let task = tokio::spawn(async move { again.run(&token).await });
    tokio::task::yield_now().await;
    assert!(deleted.remove(&key("site-499")));
    pass(1.0).await;
    let mut called = calls.take_sorted();
    called.dedup();
    assert_eq!(called, names);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_on_a_standby_are_reconciled_once() {
    let sites = sites_named(&["x"]);
    let calls = Recorder::new();
    let controller = of_sites(&sites, calls.clone());
    controller.warm_up();
    pass(1.0).await;
    touch(&sites, "x");
    sites.put(Site::named("y"));
    pass(1.0).await;
    let _running = run(&controller).await;
    pass(Duration::from_secs(60).as_secs_f64()).await;
    assert_eq!(calls.take_sorted(), ["x", "y"]);
}

/// The source reads an event between two runs. The event's handler is still running when the next run takes the kept
/// keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn deletion_handled_while_a_run_begins_is_reconciled() {
    let owner = sites_named(&[]).put(Site::named("site"));
    let children = Collection::<Child>::default();
    children.put(Child::of(&owner, "child"));
    let (entered, mut has_entered) = unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(Some(released));
    let handler = EnqueueMapped::new(move |child: &Child| {
        if let Some(released) = released.lock().unwrap().take() {
            entered.send(()).unwrap();
            released.recv().unwrap();
        }
        child.metadata.owner_references.iter().map(|owner| key(&owner.name)).collect::<Vec<_>>()
    });
    let (called, mut calls) = unbounded_channel();
    let (informer, trigger) = (informer(&children), Trigger::new());
    let controller = Controller::named("c").watches(&informer, handler).source(trigger.clone()).reconciler(
        move |request: ReconcileRequest| {
            called.send(request.key.name().to_owned()).unwrap();
            async { Ok(Action::await_change()) }
        },
    );
    controller.warm_up();
    informer.wait_for_sync().await.unwrap();
    let limit = Duration::from_secs(30);
    // Wait until the informer has processed the addition, because a later deletion might otherwise cancel it.
    timeout(limit, async {
        while !informer.subscriptions().iter().all(|subscription| subscription.has_synced) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(children.remove(&key("child")));
    timeout(limit, has_entered.recv()).await.unwrap().unwrap();
    let running = run(&controller).await;
    trigger.trigger(key("any"));
    assert_eq!(timeout(limit, calls.recv()).await.unwrap().unwrap(), "any", "the workers have started");
    release.send(()).unwrap();
    assert_eq!(timeout(limit, calls.recv()).await.unwrap().unwrap(), "site");
    running.stop().await.unwrap();
}

/// A standby's memory must not grow with every key that the program adds.
#[tokio::test(start_paused = true)]
async fn standby_keeps_the_newest_added_keys() {
    const KEPT: u32 = 100_000;
    let trigger = Trigger::<u32>::new();
    let calls = std::sync::Arc::new(Mutex::new(Vec::new()));
    let called = calls.clone();
    let controller =
        Controller::named("by-hand").source(trigger.clone()).reconciler(move |request: ReconcileRequest<u32>| {
            called.lock().unwrap().push(request.key);
            async { Ok(Action::await_change()) }
        });
    for key in 0..KEPT + 10 {
        trigger.trigger(key);
        trigger.trigger(0);
    }
    let _running = run(&controller).await;
    pass(1.0).await;
    let mut calls = std::mem::take(&mut *calls.lock().unwrap());
    calls.sort_unstable();
    assert_eq!(calls.len(), KEPT as usize, "each key is kept once");
    assert_eq!((calls[0], calls[1]), (0, 11), "key 0 is the newest, and keys 1 to 10 were dropped");
}

/// With a quadratic running time, this test would take many seconds.
#[tokio::test(start_paused = true)]
async fn standby_keeps_many_keys_in_linear_time() {
    const KEYS: usize = 20_000;
    let (sites, shared) = (sites_named(&[]), Collection::<Child>::default());
    shared.put(Child::named("shared"));
    let count = Arc::new(AtomicUsize::new(0));
    let handled = count.clone();
    let all = EnqueueMapped::new(move |_: &Child| {
        handled.fetch_add(1, Ordering::Relaxed);
        (0..KEYS).map(|number| key(&format!("site-{number}"))).collect::<Vec<_>>()
    });
    let controller = Controller::of(&informer(&sites)).watches(&informer(&shared), all).reconciler(Recorder::new());
    controller.warm_up();
    pass(1.0).await;
    let (start, before) = (std::time::Instant::now(), count.load(Ordering::Relaxed));
    shared.change(&key("shared"), |child| drop(child.metadata.labels.insert("a".into(), "b".into())));
    pass(1.0).await;
    assert!(count.load(Ordering::Relaxed) > before, "the standby has read the event");
    assert!(start.elapsed() < Duration::from_secs(5), "the thread was blocked for {:?}", start.elapsed());
}
