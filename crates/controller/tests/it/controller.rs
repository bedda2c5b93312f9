//! Tests which changes cause reconciliations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pintle_controller::predicate::{GenerationChanged, ResourceVersionChanged};
use pintle_controller::{
    Action, Concurrency, Controller, ControllerConfig, EnqueueMapped, Every, Feed, Kind, QueueSetup, ReconcileRequest,
    Requests, Singleton, Source, Trigger,
};
use pintle_informer::ResourceEvent;
use pintle_meta::ObjectKey;
use pintle_testing::Collection;
use pintle_workqueue::Priority;
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{Child, Site, delete_unseen, forbid, informer, key, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn objects_are_reconciled_at_start_and_after_each_change() {
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
async fn key_of_a_deleted_object_is_reconciled() {
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
async fn deletion_missed_by_the_watch_is_reconciled() {
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
async fn reconciles_start_after_all_caches_have_synced() {
    let (log, _guard) = Log::here();
    let sites = sites_named(&["a"]);
    let children = Collection::<Child>::default();
    forbid(children.faults());
    let calls = Recorder::new();
    let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(300.0).await;
    assert!(calls.take().is_empty());
    // The controller logs a warning after 10 s, and repeats this warning once a minute.
    assert_eq!(log.count("waits for its source \"Child\""), 5);
    let unsynced = controller.unsynced();
    assert_eq!(unsynced.len(), 1, "{unsynced:?}");
    assert!(unsynced[0].0 == "Child" && unsynced[0].1.contains("you may not list this"), "{unsynced:?}");
    // The controller recovers without a restart after the permissions are granted.
    children.faults().heal();
    pass(120.0).await;
    assert_eq!(calls.take(), ["a"]);
    assert!(controller.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn source_is_unsynced_after_its_informer_stopped() {
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
async fn change_of_a_dependent_reconciles_its_owner() {
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
    assert_eq!(calls.take(), ["site"], "the owner must recreate a deleted child");
}

#[tokio::test(start_paused = true)]
async fn recreated_owner_is_reconciled_when_old_child_is_deleted() {
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
    // The reconciler can create the new child only after the garbage collector has removed the old child.
    assert!(children.remove(&key("child")));
    pass(1.0).await;
    assert_eq!(calls.take(), ["site"]);
}

#[tokio::test(start_paused = true)]
async fn watched_object_reconciles_the_mapped_keys() {
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
async fn panicking_handler_skips_only_one_event() {
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
async fn concurrency_is_limited_and_key_calls_never_overlap() {
    let names: Vec<_> = (0..20).map(|index| format!("site-{index}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = Recorder::taking(1.0);
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites))
        .config(ControllerConfig { max_concurrent_reconciles: 4, ..metrics.config() })
        .reconciler(calls.clone());
    let _running = run(&controller).await;
    for _ in 0..50 {
        names.iter().for_each(|name| touch(&sites, name));
        pass(0.1).await;
    }
    pass(30.0).await;
    assert_eq!(calls.most_running(), 4);
    assert_eq!(metrics.numbers(["reconcile_panics_total", "max_concurrent_reconciles"]), [0.0, 4.0]);
    assert!(calls.take().len() >= 40);
}

#[tokio::test(start_paused = true)]
async fn huge_concurrency_limit_is_bounded() {
    let (sites, calls) = (sites_named(&["x"]), Recorder::new());
    let config = ControllerConfig { max_concurrent_reconciles: usize::MAX, ..ControllerConfig::default() };
    let controller = Controller::of(&informer(&sites)).config(config).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(1.0).await;
    assert_eq!((calls.take(), controller.max_concurrent_reconciles()), (vec!["x".to_owned()], 10_000));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn concurrency_changes_while_the_controller_runs() {
    let names: Vec<_> = (0..40).map(|index| format!("site-{index}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (calls, metrics, limit) = (Recorder::taking(1.0), TestMetrics::default(), Concurrency::new(1));
    let builder = Controller::of(&informer(&sites)).config(metrics.config()).concurrency(&limit);
    let controller = builder.reconciler(calls.clone());
    let running = run(&controller).await;
    pass(2.5).await;
    assert_eq!(calls.most_running(), 1);
    let busiest_after = async |next: usize| {
        limit.set(next);
        // Wait for reconciliations that started under the previous limit.
        pass(1.5).await;
        calls.forget_most_running();
        names.iter().for_each(|name| touch(&sites, name));
        pass(5.0).await;
        (calls.most_running(), controller.max_concurrent_reconciles())
    };
    assert_eq!(busiest_after(6).await, (6, 6));
    assert_eq!(metrics.numbers(["max_concurrent_reconciles"]), [6.0]);
    assert_eq!(busiest_after(2).await, (2, 2));
    assert_eq!(busiest_after(0).await, (1, 1));
    assert_eq!(busiest_after(3).await, (3, 3));
    // The end of workers must not lose any keys.
    calls.take();
    pass(60.0).await;
    names.iter().for_each(|name| touch(&sites, name));
    limit.set(1);
    pass(120.0).await;
    let mut seen = calls.take_sorted();
    seen.dedup();
    assert_eq!(seen.len(), names.len());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn change_during_a_call_leads_to_one_more_call() {
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
async fn keys_that_always_requeue_are_served_evenly() {
    let names: Vec<_> = (0..50).map(|index| format!("site-{index:02}")).collect();
    let sites = sites_named(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = Recorder::taking(0.001);
    names.iter().for_each(|name| calls.plan(name, |_| Ok(Action::requeue_after(Duration::from_millis(1)))));
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
async fn requeue_after_waits_for_the_delay_or_a_change() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    calls.plan("a", |_| Ok(Action::requeue_after(Duration::from_secs(10))));
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(4.0).await;
    touch(&sites, "a");
    pass(25.0).await;
    let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
    assert_eq!(times, [0.0, 4.0, 14.0, 24.0]);
    assert_eq!(metrics.results(), [0.0, times.len() as f64, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn new_result_replaces_an_older_requeue() {
    for (after, expected) in [(None, vec![0.0, 10.0]), (Some(150), vec![0.0, 10.0, 160.0])] {
        let (sites, calls, number) = (sites_named(&["a"]), Recorder::new(), AtomicU32::new(0));
        calls.plan("a", move |_| match (number.fetch_add(1, Ordering::Relaxed), after) {
            (0, _) => Ok(Action::requeue_after(Duration::from_secs(100))),
            (1, Some(after)) => Ok(Action::requeue_after(Duration::from_secs(after))),
            _ => Ok(Action::await_change()),
        });
        let controller = Controller::of(&informer(&sites)).reconciler(calls.clone());
        let _running = run(&controller).await;
        pass(10.0).await;
        touch(&sites, "a");
        pass(300.0).await;
        let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
        assert_eq!(times, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn new_result_keeps_the_delay_of_a_source() {
    let (sites, calls) = (sites_named(&["a"]), Recorder::new());
    calls.plan("a", |_| Ok(Action::requeue_after(Duration::from_secs(200))));
    let controller = Controller::of(&informer(&sites)).source(After(100.0)).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(10.0).await;
    touch(&sites, "a");
    pass(140.0).await;
    let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
    assert_eq!(times, [0.0, 10.0, 100.0]);
}

/// A source that adds the key `a` once, after a delay in seconds.
struct After(f64);

impl Source for After {
    fn name(&self) -> &str {
        "after"
    }

    fn start(&self, requests: Requests) -> Feed {
        requests.add_after(key("a"), Duration::from_secs_f64(self.0));
        Feed { synced: Box::pin(async { true }), run: Box::pin(std::future::pending()) }
    }
}

#[tokio::test(start_paused = true)]
async fn requeue_with_zero_delay_backs_off() {
    let sites = sites_named(&["a"]);
    let calls = Recorder::new();
    let number = AtomicU32::new(0);
    calls.plan("a", move |request| match number.fetch_add(1, Ordering::Relaxed) {
        before @ 0..5 => {
            assert_eq!(request.failures, before);
            Ok(Action::requeue_after(Duration::ZERO))
        }
        5 => Ok(Action::requeue_after(Duration::from_secs(1))),
        _ => Ok(Action::requeue_after(Duration::ZERO)),
    });
    let metrics = TestMetrics::default();
    let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(3_600.0).await;
    let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| (time * 1_000.0) as u64).collect();
    for (found, expected) in times.iter().zip([0, 5, 15, 35, 75, 155, 1_155, 1_160, 1_170]) {
        // Allow for the resolution of tokio's timer, which is 1 ms.
        assert!((expected..=expected + 10).contains(found), "{found} instead of {expected}");
    }
    assert!((20..=30).contains(&times.len()), "the delay grows: {times:?}");
    assert_eq!(metrics.results(), [0.0, times.len() as f64, 0.0]);
    touch(&sites, "a");
    pass(0.1).await;
    assert!(!calls.take().is_empty(), "a change does not wait");
}

#[tokio::test(start_paused = true)]
async fn trigger_keeps_keys_until_the_controller_runs() {
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
async fn every_controller_of_a_trigger_gets_each_key() {
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
    // After all controllers have been dropped, the trigger keeps keys for the next controller.
    ending.stop().await.unwrap();
    running.stop().await.unwrap();
    drop((one, other));
    trigger.trigger(key("late"));
    let _running = run(&named("last", &a)).await;
    assert_eq!(a.take(), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn default_order_prefers_changes_and_starves_no_key() {
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
    // A continuous load of changes keeps the worker busy.
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
async fn priority_order_puts_changes_before_the_first_list() {
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

#[tokio::test(start_paused = true)]
async fn timer_adds_keys_after_sync_and_each_period() {
    let sites = sites_named(&["a", "b"]);
    let sites = informer(&sites);
    let (calls, lister) = (Recorder::new(), sites.lister());
    let keys = move || lister.list().into_iter().map(|site| key(&site.metadata.name));
    let all = Every::keys(Duration::from_secs(60), keys);
    let controller = Controller::of(&sites).source(all).source(Every::new(Duration::from_secs(45), key("timed")));
    let controller = controller.reconciler(calls.clone());
    let running = run(&controller).await;
    pass(1.0).await;
    assert_eq!(calls.take_sorted(), ["a", "b", "timed"]);
    pass(45.0).await;
    assert_eq!(calls.take(), ["timed"]);
    assert!(controller.explain(&key("timed")).to_string().contains("added by a timer"));
    pass(15.0).await;
    assert_eq!(calls.take_sorted(), ["a", "b"]);
    running.stop().await.unwrap();
    pass(120.0).await;
    assert!(calls.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn first_tick_comes_after_the_caches_synced() {
    let sites = sites_named(&["a", "b"]);
    forbid(sites.faults());
    let informer = informer(&sites);
    let (calls, lister, ticks) = (Recorder::new(), informer.lister(), Arc::new(AtomicU32::new(0)));
    let counted = ticks.clone();
    let keys = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let names: Vec<_> = lister.list().into_iter().map(|site| key(&site.metadata.name)).collect();
        assert_eq!(names.len(), 2, "the cache is complete");
        names
    };
    // The predicate rejects all events, so only the timer adds keys.
    let objects = Kind::of(&informer).when(|_: &ResourceEvent<Site>| false);
    let controller = Controller::of(objects).source(Every::keys(Duration::from_secs(3_600), keys));
    let controller = controller.reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(30.0).await;
    assert_eq!(ticks.load(Ordering::Relaxed), 0);
    sites.faults().heal();
    pass(60.0).await;
    assert_eq!((ticks.load(Ordering::Relaxed), calls.take_sorted()), (1, vec!["a".into(), "b".into()]));
}

#[tokio::test(start_paused = true)]
async fn tick_replaces_a_requeue_and_keeps_other_delays() {
    let (ticks, with_source) = ([0.0, 60.0, 120.0, 180.0], [0.0, 60.0, 100.0, 120.0, 180.0]);
    for (source, expected) in [(None, &ticks[..]), (Some(100.0), &with_source)] {
        let calls = Recorder::new();
        calls.plan("a", |_| Ok(Action::requeue_after(Duration::from_secs(150))));
        let builder = Controller::named("timed").source(Every::new(Duration::from_secs(60), key("a")));
        let builder = match source {
            None => builder,
            Some(seconds) => builder.source(After(seconds)),
        };
        let controller = builder.reconciler(calls.clone());
        let _running = run(&controller).await;
        pass(200.0).await;
        let times: Vec<_> = calls.take_timed().into_iter().map(|(time, _)| time.round()).collect();
        assert_eq!(times, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn timer_does_not_reset_the_back_off() {
    let calls = Recorder::new();
    calls.plan("timed", |_| Err(pintle_controller::ReconcileError::new("never")));
    let timer = Every::new(Duration::ZERO, key("timed"));
    let controller = Controller::named("timed").source(timer).reconciler(calls.clone());
    let _running = run(&controller).await;
    pass(4.0).await;
    let count = calls.take().len();
    assert!(count < 30, "{count} calls within 4 s of a failing key");
}

#[tokio::test(start_paused = true)]
async fn singleton_runs_at_start_and_after_changes() {
    let sites = sites_named(&["a", "b"]);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let controller = Controller::singleton("report").watches(&informer(&sites), Singleton);
    let controller = controller.every(Duration::from_secs(60)).reconciler(move |_: ReconcileRequest<Singleton>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Action::await_change()) }
    });
    assert_eq!(controller.name(), "report");
    let stop = CancellationToken::new();
    let (token, running) = (stop.clone(), controller.clone());
    let run = tokio::spawn(async move { running.run(&token).await });
    let take = async |seconds| {
        pass(seconds).await;
        calls.swap(0, Ordering::Relaxed)
    };
    assert_eq!(take(1.0).await, 1, "two objects, the start and the timer are one unit of work");
    touch(&sites, "a");
    assert_eq!(take(1.0).await, 1);
    assert_eq!(take(60.0).await, 1);
    stop.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn owner_that_loses_a_deleted_child_is_reconciled() {
    let (sites, children) = (sites_named(&[]), Collection::<Child>::default());
    let (x, y) = (sites.put(Site::named("x")), sites.put(Site::named("y")));
    children.put(Child::of(&x, "c"));
    let calls = Recorder::new();
    let controller = Controller::of(&informer(&sites)).owns(&informer(&children)).reconciler(calls.clone());
    let _running = run(&controller).await;
    calls.take_sorted();
    children.put(Child::of(&y, "c"));
    children.remove(&key("c"));
    pass(1000.0).await;
    assert_eq!(calls.take_sorted(), ["x", "y"]);
}
