//! Tests of shared informers.

use std::any::Any;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use pintle_informer::{
    InformerConfig, InformerFactory, InformerState, ReflectorConfig, SharedInformer, StopCause, Transform,
};
use pintle_meta::{ApiResource, ListWatch, Scope};
use pintle_testing::{Client, Collection, CollectionConfig, Outcome, Verb};

use crate::support::{Pod, failure, pod, pods, requests, settle};

fn informer(factory: &InformerFactory, source: impl ListWatch<Object = Pod>) -> SharedInformer<Pod> {
    factory.informer(source, InformerConfig::default())
}

fn within(source: &Collection<Pod>, namespace: &str) -> Client<Pod> {
    source.client("").in_namespace(namespace)
}

#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_informer() {
    let source = pods(&[]);
    let mut labelled = pod("a", "");
    labelled.metadata.labels = [("a", "b"), ("c", "x")].map(|(key, value)| (key.into(), value.into())).into();
    source.put(labelled);
    let factory = InformerFactory::new();
    let named = |name: &str| InformerConfig { name: name.into(), ..InformerConfig::default() };
    let all = factory.informer(source.clone(), named("all"));
    let again = factory.informer(source.clone(), named(""));
    assert_eq!(again.name(), "all");
    let one = factory.informer(within(&source, "ns"), named("one"));
    assert_eq!(one.name(), "one", "another namespace needs another informer");
    assert_eq!(factory.informer(within(&source, "ns"), named("")).name(), "one");
    let resource = ApiResource::new("example.com/v1", "Pod", "pods", Scope::Namespaced);
    let elsewhere = Collection::dynamic(resource, CollectionConfig::default());
    elsewhere.put(pod("a", ""));
    let other = factory.informer(elsewhere.clone(), named("other"));
    assert_eq!(other.name(), "other", "another resource needs another informer");
    let selected = |selector: &str, name: &str| {
        let label_selector = selector.parse().unwrap();
        let reflector = ReflectorConfig { label_selector, ..ReflectorConfig::default() };
        let config = InformerConfig { name: name.into(), reflector, ..InformerConfig::default() };
        factory.informer(source.clone(), config)
    };
    let same = selected("c in (y,x), a==b", "selected");
    let selected = selected("a=b,c in (x,y)", "");
    assert_eq!(
        (selected.name(), same.name()),
        ("selected", "selected"),
        "another selector needs another informer, another order does not"
    );

    factory.start();
    factory.start();
    factory.wait_for_sync().await.unwrap();
    for informer in [&all, &again, &one, &other, &selected] {
        assert_eq!(informer.lister().len(), 1);
    }
    settle().await;
    assert_eq!((source.open_watches(), elsewhere.open_watches()), (3, 1));
    factory.shutdown().await;
    assert_eq!((source.open_watches(), elsewhere.open_watches()), (0, 0));
    assert!(matches!(again.state(), InformerState::Stopped { cause: StopCause::ShutDown }));
}

#[tokio::test(start_paused = true)]
async fn later_informer_runs_after_the_next_start() {
    let (first, second) = (pods(&["a"]), pods(&["b"]));
    let factory = InformerFactory::new();
    informer(&factory, within(&first, "first"));
    factory.start();
    let late = informer(&factory, within(&second, "ns"));
    settle().await;
    assert!(!late.has_synced());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(requests(&first).len(), 2, "the first informer is not started again");

    factory.shutdown().await;
    let third = pods(&[]);
    let too_late = informer(&factory, within(&third, "third"));
    factory.start();
    too_late.start();
    let waited = tokio::time::timeout(Duration::from_secs(60), too_late.wait_for_sync()).await;
    assert!(waited.expect("the wait ends").is_err());
    assert!(!too_late.has_synced() && requests(&third).is_empty());
}

#[tokio::test(start_paused = true)]
async fn unsynced_names_the_late_informers() {
    let (good, bad) = (pods(&[]), pods(&[]));
    bad.faults().next_of(Verb::List, [Outcome::Fails(failure(403, pintle_meta::Reason::Forbidden))]);
    let factory = InformerFactory::new();
    let named = |name: &str| InformerConfig { name: name.into(), ..InformerConfig::default() };
    factory.informer(within(&bad, "x"), named("bad"));
    factory.informer(good, named("good"));
    assert_eq!(factory.unsynced(), ["bad", "good"]);
    factory.start();
    settle().await;
    assert_eq!(factory.unsynced(), ["bad"]);
    factory.wait_for_sync().await.unwrap();
    assert!(factory.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropped_factory_keeps_informers_with_other_users() {
    let source = pods(&["a"]);
    let factory = InformerFactory::new();
    let held = informer(&factory, source.clone());
    informer(&factory, within(&source, "ns"));
    factory.start();
    factory.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(source.open_watches(), 2);
    drop(factory);
    settle().await;
    assert_eq!(source.open_watches(), 1);
    drop(held);
    settle().await;
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_is_replaced_for_the_next_caller() {
    let source = pods(&["a"]);
    let factory = InformerFactory::new();
    let first = informer(&factory, source.clone());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    first.shutdown().await;
    source.put(crate::support::pod("b", ""));
    let second = informer(&factory, source.clone());
    factory.start();
    second.wait_for_sync().await.unwrap();
    assert_eq!((first.lister().len(), second.lister().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_stopping_is_not_shared() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let first = informer(&factory, source.clone());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    first.stop();
    let second = informer(&factory, source.clone());
    factory.start();
    second.wait_for_sync().await.unwrap();
    assert_eq!(second.lister().len(), 1);
}

/// Shuts down a factory while the task of a removed informer still stores a list.
#[test]
fn shutdown_waits_for_removed_informers() {
    for is_replaced in [true, false] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (source, factory) = (pods(&["a"]), InformerFactory::new());
        let first = informer(&factory, source.clone());
        let ((begun, has_begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let released = Mutex::new(released);
        let index = move |pod: &Pod| {
            begun.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
            vec![pod.node.clone()]
        };
        first.add_index("node", index).unwrap();
        runtime.block_on(async { factory.start() });
        has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        let states = first.states();
        let replacement = is_replaced.then(|| {
            first.stop();
            informer(&factory, source.clone())
        });
        drop(first);
        let mut shutdown = pin!(factory.shutdown());
        assert!(shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "{is_replaced}");
        drop(release);
        runtime.block_on(shutdown);
        assert!(states.get().has_ended());
        drop(replacement);
    }
}

#[tokio::test(start_paused = true)]
async fn different_transforms_get_different_informers() {
    let source = pods(&["a"]);
    let factory = InformerFactory::new();
    let marked = |mark: &'static str| -> Transform<Pod> { Arc::new(move |pod: &mut Pod| pod.node.push_str(mark)) };
    let (left, right) = (marked("left"), marked("right"));
    let transformed = |transform: Option<&Transform<Pod>>| {
        let config = InformerConfig { transform: transform.cloned(), ..InformerConfig::default() };
        factory.informer(source.clone(), config)
    };
    let informers = [Some(&left), Some(&right), Some(&left), None].map(transformed);
    factory.start();
    factory.wait_for_sync().await.unwrap();
    let nodes = informers.each_ref().map(|informer| informer.lister().list()[0].node.clone());
    assert_eq!(nodes, ["left", "right", "left", ""]);
    settle().await;
    assert_eq!(source.open_watches(), 3, "clones of one transform share");
}

#[tokio::test(start_paused = true)]
async fn unused_informer_stops_and_can_be_created_again() {
    let source = pods(&["a"]);
    let factory = InformerFactory::new();
    let named = |name: &str| InformerConfig { name: name.into(), ..InformerConfig::default() };
    let used = factory.informer(source.clone(), named("used"));
    let one = factory.informer(within(&source, "ns"), named("one"));
    factory.start();
    factory.wait_for_sync().await.unwrap();
    let again = factory.informer(within(&source, "ns"), named(""));
    let (events, lister) = (again.subscribe(), again.lister());
    let guard = one.add_event_handler(|_: &pintle_informer::ResourceEvent<Pod>| {});
    let (mut states, status) = (one.states(), || source.open_watches());
    drop((one, again));
    for user in [Box::new(events) as Box<dyn Any>, Box::new(lister.clone()), Box::new(lister), Box::new(guard)] {
        settle().await;
        assert_eq!((status(), states.get().is_synced()), (2, true));
        drop(user);
    }
    states.wait_for(InformerState::has_ended).await.unwrap();
    settle().await;
    assert_eq!((status(), used.state().is_synced()), (1, true));
    factory.wait_for_sync().await.unwrap();

    source.put(pod("b", ""));
    let another = factory.informer(within(&source, "ns"), named("another"));
    factory.start();
    another.wait_for_sync().await.unwrap();
    assert_eq!((another.name(), another.lister().len()), ("another", 2));
    assert!(states.get().has_ended());
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_ignores_an_informer_without_users() {
    let (good, bad) = (pods(&[]), pods(&[]));
    bad.faults().when(|_| Some(Outcome::Fails(failure(403, pintle_meta::Reason::Forbidden))));
    let factory = InformerFactory::new();
    let (good, bad) = (informer(&factory, good), informer(&factory, within(&bad, "x")));
    factory.start();
    let leave = async {
        settle().await;
        drop(bad);
    };
    let (waited, ()) = tokio::join!(factory.wait_for_sync(), leave);
    waited.unwrap();
    assert!(good.has_synced() && factory.unsynced().is_empty());
}

/// Several threads request and drop handles at the same time. Each handle must belong to a running informer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_arriving_during_stop_gets_a_running_informer() {
    let source = pods(&["a"]);
    let factory = InformerFactory::new();
    let runtime = tokio::runtime::Handle::current();
    let users = [(); 3].map(|()| {
        let (source, factory, runtime) = (source.clone(), factory.clone(), runtime.clone());
        std::thread::spawn(move || {
            for _ in 0..200 {
                let informer = informer(&factory, source.clone());
                runtime.block_on(async {
                    factory.start();
                    informer.wait_for_sync().await.unwrap();
                });
                assert_eq!(informer.lister().len(), 1);
            }
        })
    });
    users.into_iter().for_each(|user| user.join().unwrap());
    let none = async {
        while source.open_watches() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), none).await.expect("all informers stop");
}
