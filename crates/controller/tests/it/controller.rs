//! From a change to a call of the reconciler.

use std::sync::Arc;
use std::time::Duration;

use pintle_controller::predicate::{GenerationChanged, ResourceVersionChanged};
use pintle_controller::{Action, Controller, ControllerConfig, EnqueueMapped, Kind, QueueSetup, Trigger};
use pintle_meta::ObjectKey;
use pintle_testing::Collection;
use pintle_workqueue::Priority;

use crate::log::Log;
use crate::recorder::{Recorder, Told, pass, run};
use crate::support::{Child, Site, delete_unseen, forbid, informer, key, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_at_the_start_and_after_each_change() {
    let sites = sites_named(&["a", "b", "c"]);
    let calls = Recorder::new();
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    assert_eq!(controller.name(), "site");
    let running = run(&controller).await;
    assert_eq!(calls.take_sorted(), ["a", "b", "c"]);
    touch(&sites, "b");
    pass(1.0).await;
    assert_eq!(calls.take(), ["b"]);
    sites.put(Site::named("d"));
    pass(1.0).await;
    assert_eq!(calls.take(), ["d"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_deleted_object_is_reconciled() {
    let sites = sites_named(&["a", "b"]);
    let calls = Recorder::new();
    let informer = informer(&sites);
    let lister = informer.lister();
    let controller = Controller::of(Kind::of(&informer).when(GenerationChanged)).reconciler(calls.clone());
    let _running = run(&controller).await;
    calls.take();
    assert!(sites.remove(&key("a")));
    pass(1.0).await;
    assert_eq!(calls.take(), ["a"], "a predicate swallowed a deletion");
    assert!(lister.get(&ObjectKey::new("ns", "a")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_no_watch_told_is_reconciled() {
    let sites = sites_named(&["a", "b"]);
    let calls = Recorder::new();
    let controller = Controller::of(Kind::of(&informer(&sites)).when(ResourceVersionChanged)).reconciler(calls.clone());
    let _running = run(&controller).await;
    calls.take();
    delete_unseen(&sites, "b");
    pass(60.0).await;
    assert_eq!(calls.take(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_all_caches_are_complete() {
    let sites = sites_named(&["a"]);
    let children = Collection::<Child>::default();
    forbid(children.faults());
    let calls = Recorder::new();
    let config = ControllerConfig { cache_sync_timeout: None, ..Default::default() };
    let controller =
        Controller::of(&informer(&sites)).owns(&informer(&children)).config(config).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(300.0).await;
    assert!(calls.take().is_empty());
    let unsynced = controller.unsynced();
    assert_eq!(unsynced.len(), 1, "{unsynced:?}");
    assert!(unsynced[0].0 == "Child" && unsynced[0].1.contains("you may not list this"), "{unsynced:?}");
    // A missing permission may come: nothing has to be started anew.
    children.faults().heal();
    pass(120.0).await;
    assert_eq!(calls.take(), ["a"]);
    assert!(controller.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_informer_has_ended_is_not_complete_any_more() {
    let informer = informer(&sites_named(&["a"]));
    let controller = Controller::of(&informer).reconciler(Recorder::new());
    let _running = run(&controller).await;
    pass(1.0).await;
    assert!(controller.unsynced().is_empty());
    informer.shutdown().await;
    let unsynced = controller.unsynced();
    assert!(unsynced[0].1 == "the informer has stopped: it was shut down", "{unsynced:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_dependent_reconciles_its_owner() {
    let sites = sites_named(&[]);
    let site = sites.put(Site::named("site"));
    let children = Collection::<Child>::default();
    let calls = Recorder::new();
    let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
    let _running = run(&controller).await;
    calls.take();
    children.put(Child::of(&site, "child"));
    pass(1.0).await;
    assert_eq!(calls.take(), ["site"]);
    children.put(Child::named("orphan"));
    pass(1.0).await;
    assert!(calls.take().is_empty());
    assert!(children.remove(&key("child")));
    pass(1.0).await;
    assert_eq!(calls.take(), ["site"], "a child that is deleted by hand has to be made again");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_made_anew_hears_of_the_end_of_its_old_child() {
    let sites = sites_named(&[]);
    let children = Collection::<Child>::default();
    let old = sites.put(Site::named("site"));
    children.put(Child::of(&old, "child"));
    let calls = Recorder::new();
    let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
    let _running = run(&controller).await;
    assert!(sites.remove(&key("site")));
    let new = sites.put(Site::named("site"));
    assert_ne!(old.metadata.uid, new.metadata.uid);
    pass(1.0).await;
    calls.take();
    // It is in the way of the child that the new owner needs, until the garbage collector has removed it.
    assert!(children.remove(&key("child")));
    pass(1.0).await;
    assert_eq!(calls.take(), ["site"]);
}

#[tokio::test(start_paused = true)]
async fn a_watched_object_reconciles_what_a_function_names() {
    let sites = sites_named(&["a"]);
    let children = Collection::<Child>::default();
    let calls = Recorder::new();
    let named = EnqueueMapped::new(|child: &Child| {
        child.metadata.labels.values().map(|name| ObjectKey::new("ns", name)).collect::<Vec<_>>()
    });
    let controller = Controller::of(&informer(&sites)).watches(&informer(&children), named).reconciler(calls.clone());
    let _running = run(&controller).await;
    calls.take();
    let mut child = Child::named("child");
    child.metadata.labels = [("1", "x"), ("2", "y")].map(|(k, v)| (k.into(), v.into())).into();
    children.put(child);
    pass(1.0).await;
    assert_eq!(calls.take(), ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_costs_one_event() {
    let (log, _guard) = Log::here();
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    let handler = EnqueueMapped::new(|site: &Site| {
        assert!(site.metadata.name != "bad", "bad");
        [ObjectKey::new("ns", &site.metadata.name)]
    });
    let controller = Controller::named("sites").watches(&informer(&sites), handler).reconciler(calls.clone());
    let running = run(&controller).await;
    sites.put(Site::named("bad"));
    sites.put(Site::named("good"));
    pass(1.0).await;
    assert_eq!(calls.take(), ["a", "good"]);
    running.stop().await.unwrap();
    log.assert_tells(&["ns/bad", "source=\"Site\"", "panic=\"bad\""]);
}

#[tokio::test(start_paused = true)]
async fn as_many_calls_run_as_allowed_and_never_two_of_one_key() {
    let names: Vec<_> = (0..20).map(|index| format!("site-{index}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    // It panics when a key is reconciled twice at once.
    let calls = Recorder::taking(1.0);
    let told = Told::default();
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { max_concurrent_reconciles: 4, ..told.config() })
        .reconciler(calls.clone());
    let _running = run(&controller).await;
    for _ in 0..50 {
        names.iter().for_each(|name| touch(&sites, name));
        pass(0.1).await;
    }
    pass(30.0).await;
    assert_eq!(calls.most_running(), 4);
    assert_eq!(told.numbers(["reconcile_panics_total", "max_concurrent_reconciles"]), [0.0, 4.0]);
    assert!(calls.take().len() >= 40);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_call_is_followed_by_one_more() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::taking(10.0);
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { max_concurrent_reconciles: 2, ..Default::default() })
        .reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(1.0).await;
    (0..5).for_each(|_| touch(&sites, "a"));
    pass(100.0).await;
    assert_eq!(calls.take(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_always_want_to_come_again_are_served_evenly() {
    let names: Vec<_> = (0..50).map(|index| format!("site-{index:02}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = Recorder::taking(0.001);
    names.iter().for_each(|name| calls.plan(name, |_| Ok(Action::requeue_after(Duration::ZERO))));
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(2.0).await;
    let called = calls.take();
    assert!(called.len() > 500, "{}", called.len());
    let times = names.iter().map(|name| called.iter().filter(|call| *call == name).count());
    let (least, most) = times.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
    assert!(most - least <= 1, "between {least} and {most} calls a key");
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_again_when_the_action_says_or_when_something_changes_before() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    calls.plan("a", |_| Ok(Action::requeue_after(Duration::from_secs(10))));
    let told = Told::default();
    let controller = Controller::of(&informer(&sites)).config(told.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(4.0).await;
    touch(&sites, "a");
    pass(25.0).await;
    let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
    assert_eq!(times[..3], [0.0, 4.0, 10.0], "{times:?}");
    assert_eq!(told.results(), [0.0, times.len() as f64, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_trigger_keeps_its_keys_until_the_controller_runs() {
    let calls = Recorder::new();
    let trigger = Trigger::new();
    let controller = Controller::named("by-hand").source(trigger.clone()).reconciler(calls.clone());
    let key = || ObjectKey::new("ns", "a");
    trigger.trigger(key());
    trigger.trigger(key());
    let running = run(&controller).await;
    assert_eq!(calls.take(), ["a"]);
    trigger.trigger(key());
    pass(0.1).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.unwrap();
    trigger.trigger(key());
    pass(0.1).await;
    assert!(calls.take().is_empty());
    let _running = run(&controller).await;
    assert_eq!(calls.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn each_controller_of_a_trigger_gets_each_key() {
    let trigger = Trigger::new();
    let (a, b) = (Recorder::new(), Recorder::new());
    let named = |name: &str, calls: &Recorder| {
        Controller::named(name).source(trigger.clone()).source(trigger.clone()).reconciler(calls.clone())
    };
    trigger.trigger(key("early"));
    let (one, other) = (named("one", &a), named("other", &b));
    let (running, ending) = (run(&one).await, run(&other).await);
    ["x", "y"].into_iter().for_each(|name| trigger.trigger(key(name)));
    pass(1.0).await;
    assert_eq!(
        (a.take(), b.take()),
        (["early", "x", "y"].map(String::from).into(), ["early", "x", "y"].map(String::from).into())
    );
    ending.stop().await.unwrap();
    trigger.trigger(key("z"));
    pass(1.0).await;
    assert_eq!((a.take().len(), b.take().len()), (1, 0));
    let ending = run(&other).await;
    assert_eq!(b.take(), ["z"]);
    // A controller that is gone takes none with it.
    ending.stop().await.unwrap();
    running.stop().await.unwrap();
    drop((one, other));
    trigger.trigger(key("late"));
    let _running = run(&named("last", &a)).await;
    assert_eq!(a.take(), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn by_default_a_change_goes_before_the_first_list_and_starves_none() {
    let names: Vec<_> = (0..1_000).map(|index| format!("site-{index:03}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = Recorder::taking(0.1);
    let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(50.0).await;
    calls.take();
    sites.put(Site::named("urgent"));
    pass(0.35).await;
    assert!(calls.take().contains(&"urgent".to_owned()));
    // Changes that leave no time for anything else.
    for _ in 0..4_000 {
        sites.put(Site::named("busy"));
        sites.put(Site::named("busier"));
        pass(0.1).await;
    }
    pass(100.0).await;
    let mut called = calls.take_sorted();
    called.dedup();
    assert!(called.len() > 490, "{}", called.len());
}

#[tokio::test(start_paused = true)]
async fn with_an_order_by_priority_a_change_goes_before_the_first_list() {
    let names: Vec<_> = (0..100).map(|index| format!("site-{index:03}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = Recorder::taking(1.0);
    let by_priority: QueueSetup = Arc::new(|queue| queue.order = Box::new(Priority::strict()));
    let config = ControllerConfig { queue: Some(by_priority), ..Default::default() };
    let controller = Controller::of(&informer(&sites)).config(config).reconciler(calls.clone());
    let _running = run(&controller).await;
    touch(&sites, "site-099");
    pass(2.5).await;
    let called = calls.take();
    assert_eq!((called.len(), &*called[1]), (3, "site-099"), "{called:?}");
}
