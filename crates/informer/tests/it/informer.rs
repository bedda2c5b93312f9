//! Tests of the shared informer with a source that never fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{
    InformerConfig, InformerState, NotReached, ReflectorConfig, ResourceEvent, SharedInformer, StopCause, Subscription,
};
use pintle_meta::{LabelSelector, Object, ObjectKey};
use pintle_ratelimit::BackoffConfig;
use pintle_testing::{Break, Collection};

use crate::support::{Pod, drain, drain_sorted, key, pod, pods, requests, settle, shorthand, state_at};

async fn synced(source: &Collection<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer
}

#[tokio::test(start_paused = true)]
async fn subscriber_receives_initial_objects_and_then_changes() {
    let source = pods(&["a", "b"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    assert!(matches!(informer.state(), InformerState::Starting));
    informer.start();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(drain_sorted(&mut events).await, ["A! a@1", "A! b@2"]);

    source.put(pod("c", ""));
    source.put(pod("a", "node"));
    source.remove(&key("b"));
    assert_eq!(drain(&mut events).await, ["A c@3", "U a@1..4", "D b@5"]);
    assert_eq!(requests(&source), ["LIST rv=0 limit=500", "WATCH rv=2"]);
    assert!(informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn cache_changes_before_events_are_delivered() {
    let source = pods(&[]);
    let informer = synced(&source).await;
    let (lister, mut events) = (informer.lister(), informer.subscribe());
    for _ in 0..3 {
        source.put(pod("a", ""));
        let event = events.next().await.unwrap();
        assert_eq!(lister.get(&event.key()).unwrap().metadata, event.object().metadata);
    }
    source.remove(&key("a"));
    assert!(events.next().await.unwrap().is_deleted());
    assert!(lister.is_empty());
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_starts_with_the_cache() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    source.put(pod("a", "node"));
    settle().await;
    let mut late = informer.subscribe();
    source.put(pod("b", ""));
    assert_eq!(drain(&mut late).await, ["A! a@2", "A b@3"]);
}

#[tokio::test(start_paused = true)]
async fn subscriber_syncs_after_all_initial_objects() {
    let source = pods(&["a", "b"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    let mut handle = events.sync_handle();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert!(informer.has_synced() && !events.has_synced(), "the cache is synced and the subscriber is not");
    events.next().await.unwrap();
    events.next().await.unwrap();
    assert!(!handle.has_synced(), "the last event is still being handled");
    assert!(events.try_next().is_none());
    assert!(events.has_synced() && handle.synced().await);

    let mut empty = synced(&pods(&[])).await.subscribe();
    assert!(empty.has_synced() && empty.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn deleted_initial_object_does_not_delay_sync() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    source.remove(&key("a"));
    settle().await;
    assert!(events.has_synced());
    assert!(events.try_next().is_none(), "an object that was added and deleted meanwhile is not delivered");
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_receives_only_the_newest_state() {
    let source = pods(&["a", "b"]);
    let informer = synced(&source).await;
    let (mut slow, mut quick) = (informer.subscribe(), informer.subscribe());
    assert_eq!((drain(&mut slow).await.len(), drain(&mut quick).await.len()), (2, 2));
    for round in 0..100 {
        source.put(pod("a", &round.to_string()));
        source.put(pod(&format!("brief-{round}"), ""));
        source.remove(&key(&format!("brief-{round}")));
        settle().await;
        assert!(slow.len() <= 1);
        assert_eq!(drain(&mut quick).await.len(), 1, "other subscribers do not wait");
    }
    source.remove(&key("b"));
    assert_eq!(drain(&mut slow).await, ["U a@1..300", "D b@303"]);
}

#[tokio::test(start_paused = true)]
async fn recreated_object_is_deleted_and_added() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    drain(&mut events).await;
    source.break_watches(Break::Silent);
    source.remove(&key("a"));
    source.put(pod("a", ""));
    source.compact();
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(drain(&mut events).await, ["D? a@1", "A a@3"]);
}

#[tokio::test(start_paused = true)]
async fn relist_delivers_only_changes() {
    let source = pods(&["same", "changed", "gone"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    drain(&mut events).await;
    source.break_watches(Break::Silent);
    source.put(pod("changed", "node"));
    source.put(pod("new", ""));
    source.remove(&key("gone"));
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let received = drain(&mut events).await;
    assert_eq!(received, ["D? gone@3", "U changed@2..4", "A new@5"], "deletions first, then the list in order");
    assert!(events.has_synced());
}

#[tokio::test(start_paused = true)]
async fn resync_uses_each_subscribers_period() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig { resync: Some(Duration::from_secs(3)), ..InformerConfig::default() },
    );
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let subscribe = |resync| {
        let mut events = informer.subscribe();
        events.set_resync(resync);
        events
    };
    let forever = subscribe(Some(Duration::MAX));
    assert_eq!(forever.len(), 1, "a period beyond the clock disables resyncs");
    let _rarely = subscribe(Some(Duration::from_secs(3600)));
    settle().await;
    let mut never = subscribe(None);
    let mut two = subscribe(Some(Duration::from_secs(2)));
    let mut three = informer.subscribe();
    let mut often = subscribe(Some(Duration::from_millis(1)));
    for events in [&mut never, &mut two, &mut three, &mut often] {
        assert_eq!(drain(events).await, ["A! a@1"]);
    }
    let mut received = Vec::new();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut count = 0;
        for (name, events) in [("2", &mut two), ("3", &mut three), ("1", &mut often), ("never", &mut never)] {
            for event in drain(events).await {
                assert_eq!(event, "U a@1..1");
                received.push(name);
                count += 1;
            }
        }
        received.push(if count == 0 { "nobody" } else { "|" });
    }
    assert_eq!(received.join(" "), "1 | 2 1 | 3 1 | 2 1 | 1 | 2 3 1 |");
    assert_eq!(requests(&source).len(), 2, "no request is sent");
}

#[tokio::test(start_paused = true)]
async fn resync_keeps_the_order_of_changes() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig { resync: Some(Duration::from_secs(1)), ..InformerConfig::default() },
    );
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let mut events = informer.subscribe();
    drain(&mut events).await;
    source.put(pod("a", "node"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(drain(&mut events).await, ["U a@1..2"]);
}

#[tokio::test(start_paused = true)]
async fn each_object_is_transformed_once() {
    let source = pods(&["a", "b"]);
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig {
            transform: Some(Arc::new(|pod: &mut Pod| pod.node.push('!'))),
            resync: Some(Duration::from_secs(1)),
            ..InformerConfig::default()
        },
    );
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("a", "node"));
    source.remove(&key("b"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut nodes = Vec::new();
    while let Some(event) = events.try_next() {
        nodes.push(event.object().node.clone());
        if let ResourceEvent::Updated { old, .. } = &event {
            nodes.push(old.node.clone());
        }
    }
    assert_eq!(nodes, ["node!"], "b was deleted before its delivery");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let Some(ResourceEvent::Updated { old, new }) = events.try_next() else { panic!("no resync") };
    assert_eq!((old.node.as_str(), new.node.as_str()), ("node!", "node!"));
    assert_eq!(informer.lister().get(&key("a")).unwrap().node, "node!");
}

#[tokio::test(start_paused = true)]
async fn transform_can_rename_objects() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig {
            transform: Some(Arc::new(|pod: &mut Pod| pod.metadata.name.insert_str(0, "x-"))),
            ..InformerConfig::default()
        },
    );
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(drain(&mut events).await, ["A! x-a@1"]);
    source.remove(&key("a"));
    assert_eq!(drain(&mut events).await, ["D x-a@2"]);
    assert!(informer.lister().is_empty());
}

#[tokio::test(start_paused = true)]
async fn indices_can_be_added_at_any_time() {
    let source = pods(&[]);
    source.put(pod("a", "left"));
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.add_index("node", |pod: &Pod| vec![pod.node.clone()]).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("b", "left"));
    settle().await;
    let by = |index: &str, value: &str| {
        let mut pods = informer.lister().by_index(index, value).unwrap();
        pods.sort_by_key(|pod| pod.key());
        pods.iter().map(|pod| pod.metadata.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(by("node", "left"), ["a", "b"]);
    informer.add_index("name", |pod| vec![pod.metadata.name.clone()]).unwrap();
    assert_eq!(by("name", "b"), ["b"]);
    assert!(informer.add_index("name", |_| vec![]).is_err());
    source.remove(&key("a"));
    settle().await;
    assert_eq!(by("node", "left"), ["b"]);
    let error = informer.lister().by_index("nod", "left").unwrap_err();
    assert!(error.to_string().contains("\"nod\"") && error.to_string().contains("\"node\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lister_reads_by_key_namespace_and_label() {
    let source = pods(&[]);
    let mut labelled = pod("a", "");
    labelled.metadata.labels.insert("app".into(), "web".into());
    source.put(labelled);
    source.put(pod("b", ""));
    let mut elsewhere = pod("c", "");
    elsewhere.metadata.namespace = "other".into();
    elsewhere.metadata.labels.insert("app".into(), "web".into());
    source.put(elsewhere);

    let lister = synced(&source).await.lister();
    let web: LabelSelector = "app=web".parse().unwrap();
    assert_eq!((lister.len(), lister.list().len(), lister.select(&web).len()), (3, 3, 2));
    let ns = lister.namespace("ns");
    assert_eq!(ns.list().iter().map(|pod| pod.metadata.name.as_str()).collect::<BTreeSet<_>>(), ["a", "b"].into());
    assert_eq!(ns.select(&web).len(), 1);
    let (all, none) = (LabelSelector::everything(), LabelSelector::nothing());
    assert_eq!((lister.select(&all).len(), ns.select(&all).len()), (3, 2));
    assert_eq!((lister.select(&none).len(), ns.select(&none).len()), (0, 0));
    assert!(ns.get("b").is_some() && ns.get("c").is_none());
    assert!(lister.namespace("none").list().is_empty());
    let everywhere = lister.namespace("");
    assert_eq!((everywhere.len(), everywhere.list().len(), everywhere.select(&web).len()), (3, 3, 2));
    assert_eq!((ns.len(), ns.is_empty(), lister.namespace("none").is_empty()), (2, false, true));
    assert!(lister.get(&ObjectKey::new("other", "c")).is_some());
    assert_eq!(lister.snapshot().resource_version(), "3");
}

#[tokio::test(start_paused = true)]
async fn wait_for_returns_when_the_write_is_readable() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let lister = informer.lister();
    lister.wait_for("1").await.unwrap();
    let waiting = tokio::spawn({
        let lister = lister.clone();
        async move {
            lister.wait_for("3").await.unwrap();
            lister.get(&key("a")).is_none()
        }
    });
    source.put(pod("a", "node"));
    settle().await;
    assert!(!waiting.is_finished());
    source.remove(&key("a"));
    assert!(waiting.await.unwrap(), "deletions count");

    let opaque = lister.wait_for("x1").await;
    assert_eq!(opaque, Err(NotReached::NotComparable { resource_version: "x1".into() }));
    let never = tokio::spawn(async move { lister.wait_for("99").await });
    settle().await;
    informer.shutdown().await;
    assert_eq!(never.await.unwrap(), Err(NotReached::Stopped));
}

#[tokio::test(start_paused = true)]
async fn bookmark_advances_the_cache_revision() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    source.advance();
    source.bookmark();
    informer.lister().wait_for("2").await.unwrap();
    source.break_watches(Break::End);
    settle().await;
    assert_eq!(requests(&source).last().unwrap(), "WATCH rv=2");
}

#[tokio::test(start_paused = true)]
async fn dropped_subscription_receives_no_events() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let (dropped, mut kept) = (informer.subscribe(), informer.subscribe());
    let mut handle = dropped.sync_handle();
    drop(dropped);
    assert!(!handle.synced().await, "it never syncs");
    source.put(pod("b", ""));
    assert_eq!(drain(&mut kept).await, ["A! a@1", "A b@2"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_next_loses_no_event() {
    let source = pods(&[]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    for round in 1..20 {
        tokio::select! {
            biased;
            _ = events.next() => panic!("no event yet"),
            () = settle() => {}
        }
        source.put(pod("a", ""));
        let event = events.next().await.unwrap();
        assert_eq!(event.object().metadata.resource_version, round.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_watches_and_subscriptions() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    source.put(pod("b", ""));
    settle().await;
    assert_eq!(source.open_watches(), 1);
    informer.shutdown().await;
    assert_eq!(source.open_watches(), 0);
    assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::ShutDown }));
    let mut received = Vec::new();
    while let Some(event) = events.next().await {
        received.push(shorthand(&event));
    }
    assert_eq!(received, ["A! a@1", "A b@2"], "remaining events are delivered");
    assert_eq!(informer.lister().len(), 2, "listers still work");
    let mut too_late = informer.subscribe();
    assert!(too_late.next().await.is_some() && too_late.next().await.is_some() && too_late.next().await.is_none());

    informer.start();
    settle().await;
    assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::ShutDown }), "it stays stopped");
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn unstarted_informer_can_be_shut_down() {
    let informer = SharedInformer::new(pods(&[]), InformerConfig::default());
    let mut events = informer.subscribe();
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.wait_for_sync().await }
    });
    settle().await;
    informer.shutdown().await;
    assert!(events.next().await.is_none());
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("Pod"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_no_tasks() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let ignore = |_: &ResourceEvent<Pod>| {};
    let before = tasks();
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let early = informer.add_event_handler(ignore);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let late = informer.add_event_handler(ignore);
    let never = SharedInformer::<Pod>::new(source.clone(), InformerConfig::default());
    let never_called = never.add_event_handler(ignore);
    settle().await;
    assert_eq!(tasks(), before + 4, "one task for the informer and one for each handler");
    informer.shutdown().await;
    drop(never);
    settle().await;
    assert_eq!(tasks(), before);
    drop((early, late, never_called));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_task() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let (another, mut events, lister) = (informer.clone(), informer.subscribe(), informer.lister());
    drop(informer);
    settle().await;
    assert_eq!(source.open_watches(), 1);
    drop(another);
    settle().await;
    assert_eq!(source.open_watches(), 0, "subscriptions and listers do not keep it running");
    assert!(events.next().await.is_some());
    assert!(events.next().await.is_none());
    assert_eq!(lister.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn panicking_transform_affects_only_its_object() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig {
            transform: Some(Arc::new(|pod: &mut Pod| assert_ne!(pod.node, "bad", "expected by the test"))),
            ..InformerConfig::default()
        },
    );
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("b", "bad"));
    source.put(pod("c", ""));
    assert_eq!(drain_sorted(&mut events).await.len(), 2, "a and c");
    let entries = informer.lister().undecodable();
    assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["ns/b"]);
    assert!(entries[0].error.contains("panicked"), "{entries:?}");
    assert!(informer.state().is_synced());
    source.put(pod("b", "good"));
    assert_eq!(drain(&mut events).await.len(), 1, "fixed");
    assert!(informer.lister().undecodable().is_empty());
}

#[test]
fn start_outside_a_runtime_has_no_side_effects() {
    let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| informer.start())).unwrap_err();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        informer.start();
        informer.wait_for_sync().await.unwrap();
        informer.shutdown().await;
        informer.wait_for_sync().await.unwrap_err();
    });
}

#[test]
fn runtime_shutdown_ends_the_informer() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for begins in [false, true] {
        let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
        let mut events = informer.subscribe();
        let first = runtime();
        let guard = first.enter();
        informer.start();
        drop(guard);
        if begins {
            first.block_on(informer.wait_for_sync()).unwrap();
        }
        drop(first);
        assert_eq!(std::iter::from_fn(|| events.blocking_next()).count(), usize::from(begins));
        assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::RuntimeGone }));
        runtime().block_on(async {
            let error = informer.wait_for_sync().await.unwrap_err().to_string();
            assert_eq!(error, r#"the informer "Pod" has ended: its runtime was shut down"#);
            assert_eq!(informer.lister().wait_for("9").await, Err(NotReached::Stopped));
            informer.shutdown().await;
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_writers_and_listeners_converge() {
    let source = pods(&[]);
    let quick =
        BackoffConfig { base: Duration::from_millis(1), cap: Duration::from_millis(5), ..BackoffConfig::default() };
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig {
            reflector: ReflectorConfig { backoff: quick, ..ReflectorConfig::default() },
            ..InformerConfig::default()
        },
    );
    informer.start();
    let fold = |mut events: Subscription<Pod>| async move {
        let mut known = BTreeMap::new();
        while let Some(event) = events.next().await {
            if event.is_deleted() {
                _ = known.remove(&event.key());
            } else {
                _ = known.insert(event.key(), event.object().clone());
            }
        }
        known
    };
    let mut folds: Vec<_> = (0..3).map(|_| tokio::spawn(fold(informer.subscribe()))).collect();
    let writers = ["x", "y", "z"].map(|writer| {
        let (source, informer) = (source.clone(), informer.clone());
        tokio::spawn(async move {
            for round in 0..200 {
                let name = format!("{writer}{}", round % 10);
                if round % 7 == 3 {
                    source.remove(&key(&name));
                } else {
                    source.put(pod(&name, ""));
                }
                if writer == "x" && round % 60 == 30 {
                    source.break_watches(Break::End);
                }
                if round % 20 == 0 {
                    drop(informer.subscribe());
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    folds.push(tokio::spawn(fold(informer.subscribe())));
    informer.lister().wait_for(&source.revision().to_string()).await.unwrap();
    informer.shutdown().await;
    let truth = state_at(&source, u64::MAX);
    for fold in folds {
        let known = fold.await.unwrap();
        assert!(known.iter().map(|(key, pod)| (key, &***pod)).eq(truth.iter()), "{known:?} is not {truth:?}");
    }
}
