//! Cases of client-go's informer tests that no other test covers: see ROWS.md.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_informer::{InformerConfig, InformerFactory, ReflectorConfig, ResourceEvent, SharedInformer};
use pintle_testing::{Break, Collection};
use tokio::time::timeout;

use crate::log::Log;
use crate::support::{Pod, drain, drain_sorted, key, pod, pods, settle, shorthand};

const SECOND: Duration = Duration::from_secs(1);

async fn synced(source: &Collection<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer
}

/// Changes the source without sending watch events, so that only the next list delivers the changes.
async fn unseen(source: &Collection<Pod>, change: impl FnOnce(&Collection<Pod>)) {
    settle().await;
    source.break_watches(Break::Silent);
    change(source);
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(10 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn c1_handler_sees_its_own_deletions() {
    let source = pods(&["a-hello", "b-controller", "c-framework"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let (objects, log) = (source.clone(), deleted.clone());
    let _guard = informer.add_event_handler(move |event: &ResourceEvent<Pod>| match event {
        ResourceEvent::Added { object, .. } => assert!(objects.remove(&key(&object.metadata.name))),
        _ => log.lock().unwrap().push(event.key().name().to_owned()),
    });
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    deleted.lock().unwrap().sort();
    assert_eq!(*deleted.lock().unwrap(), ["a-hello", "b-controller", "c-framework"]);
}

#[tokio::test(start_paused = true)]
async fn c5_all_readers_see_transformed_objects() {
    let source = pods(&["a"]);
    let transform = |pod: &mut Pod| {
        pod.node = "transformed".into();
        pod.metadata.resource_version.clear();
    };
    let config = InformerConfig { transform: Some(Arc::new(transform)), ..InformerConfig::default() };
    let informer = SharedInformer::new(source.clone(), config);
    let mut events = informer.subscribe_ordered(10);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("a", "changed"));
    settle().await;
    assert_eq!(informer.lister().list()[0].node, "transformed");
    source.remove(&key("a"));
    settle().await;
    let mut received = Vec::new();
    while let Some(event) = events.try_next() {
        if let ResourceEvent::Updated { old, .. } = &event {
            assert_eq!(old.node, "transformed");
        }
        assert_eq!(event.object().node, "transformed");
        received.push(shorthand(&event));
    }
    assert_eq!(received, ["A! a@", "U a@..", "D a@"]);
}

#[tokio::test(start_paused = true)]
async fn c8_relist_delivers_deletions_then_objects_in_order() {
    let source = pods(&["pod1", "pod2", "pod3"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let (lister, received) = (informer.lister(), Arc::new(Mutex::new(Vec::new())));
    let log = received.clone();
    let _guard = informer.add_event_handler(move |event: &ResourceEvent<Pod>| {
        log.lock().unwrap().push((shorthand(event), lister.len()));
    });
    let take = || {
        let (received, there): (Vec<_>, Vec<_>) = std::mem::take(&mut *received.lock().unwrap()).into_iter().unzip();
        (received, there)
    };
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    let (created, there) = take();
    assert_eq!((created.concat().as_str(), there), ("A! pod1@1A! pod2@2A! pod3@3", vec![3; 3]));

    unseen(&source, |source| {
        source.remove(&key("pod3"));
        ["pod1", "pod2", "pod4"].iter().for_each(|name| _ = source.put(pod(name, "")));
    })
    .await;
    let mixed = ["D? pod3@3", "U pod1@1..5", "U pod2@2..6", "A pod4@7"].map(str::to_owned);
    assert_eq!(take(), (mixed.to_vec(), vec![3; 4]));

    unseen(&source, |source| ["pod1", "pod2", "pod4"].iter().for_each(|name| _ = source.remove(&key(name)))).await;
    let (mut deleted, there) = take();
    deleted.sort();
    assert_eq!((deleted.concat().as_str(), there), ("D? pod1@5D? pod2@6D? pod4@7", vec![0; 3]));
}

#[tokio::test(start_paused = true)]
async fn c9_objects_of_a_later_list_are_not_initial() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(drain(&mut events).await, ["A! a@1"]);
    unseen(&source, |source| ["a", "b"].iter().for_each(|name| _ = source.put(pod(name, "")))).await;
    assert_eq!(drain(&mut events).await, ["U a@1..2", "A b@3"]);
}

#[tokio::test(start_paused = true)]
async fn c10_cache_version_follows_updates_and_deletions() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let mut versions = vec![informer.lister().resource_version()];
    source.put(pod("a", ""));
    settle().await;
    versions.push(informer.lister().resource_version());
    source.remove(&key("a"));
    settle().await;
    versions.push(informer.lister().resource_version());
    assert_eq!(versions, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn i2_late_start_keeps_resync_periods() {
    let source = pods(&["a", "b"]);
    let informer = SharedInformer::new(source, InformerConfig { resync: Some(SECOND), ..InformerConfig::default() });
    let mut all = [None, Some(2 * SECOND), Some(3 * SECOND)].map(|period| {
        let mut events = informer.subscribe();
        events.set_resync(period);
        events
    });
    tokio::time::sleep(SECOND).await;
    informer.start();
    informer.wait_for_sync().await.unwrap();
    for events in &mut all {
        assert_eq!(drain_sorted(events).await, ["A! a@1", "A! b@2"]);
    }
    let mut counts = Vec::new();
    for _ in 2..=3 {
        tokio::time::sleep(SECOND).await;
        for events in &mut all {
            counts.push(drain(events).await.len());
        }
    }
    assert_eq!(counts, [0, 2, 0, 0, 0, 2]);
}

#[tokio::test(start_paused = true)]
async fn i5_relist_delivers_changes_and_resync_the_rest() {
    let source = pods(&["pod1", "pod2"]);
    let informer = synced(&source).await;
    let (mut never, mut reminded) = (informer.subscribe(), informer.subscribe());
    reminded.set_resync(Some(15 * SECOND));
    assert_eq!(drain(&mut never).await, drain(&mut reminded).await);
    unseen(&source, |source| ["pod3", "pod2"].iter().for_each(|name| _ = source.put(pod(name, "")))).await;
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(drain_sorted(&mut never).await, ["A pod3@3", "U pod2@2..4"]);
    assert_eq!(drain_sorted(&mut reminded).await, ["A pod3@3", "U pod1@1..1", "U pod2@2..4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn i8_handlers_are_added_and_removed_during_changes() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let workers: Vec<_> = (0..100)
        .map(|worker| {
            let (informer, source) = (informer.clone(), source.clone());
            tokio::spawn(async move {
                let mut guards = Vec::new();
                for round in 0..10 {
                    let mut guard = informer.add_event_handler(|_: &ResourceEvent<Pod>| {});
                    source.put(pod(&format!("{}", worker % 10), ""));
                    match round % 3 {
                        0 => assert!(guard.synced().await),
                        1 => guard.remove().await,
                        _ => guards.push(guard),
                    }
                }
                guards
            })
        })
        .collect();
    let mut guards = Vec::new();
    for worker in workers {
        guards.extend(worker.await.unwrap());
    }
    // For each of the 11 keys, the queue contains at most an initial state and one change.
    assert!(informer.subscriptions().iter().all(|status| status.depth <= 22));
    assert_eq!(guards.len(), 300);
    let the_others_go = async {
        while informer.subscriptions().len() != 300 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(10 * SECOND, the_others_go).await.expect("dropped handlers unsubscribe");
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn i12_handler_panics_are_logged_and_others_continue() {
    let (log, _here) = Log::here();
    let informer = SharedInformer::new(pods(&["a", "b", "c", "d", "e"]), InformerConfig::default());
    let panicking = || informer.add_event_handler(|_: &ResourceEvent<Pod>| panic!("wanted"));
    let (one, two) = (panicking(), panicking());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    tokio::time::sleep(4 * SECOND).await;
    assert!(!one.has_synced() && !two.has_synced() && informer.has_synced());
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(log.count("an event handler panicked"), 10);
    log.assert_tells(&["ERROR", "informer=Pod", "wanted", "Added(ns/a@1"]);
    assert!(one.has_synced() && two.has_synced(), "both handlers have processed all initial objects");
}

#[tokio::test(start_paused = true)]
async fn i14_wait_for_sync_ends_with_the_last_informer() {
    let factory = InformerFactory::new();
    factory.wait_for_sync().await.unwrap();
    assert!(factory.unsynced().is_empty(), "an empty wait ends at once");
    let source = pods(&["a"]);
    let informers = [("late", 0), ("immediate", 1), ("later", 2)].map(|(name, number)| {
        let reflector =
            ReflectorConfig { label_selector: format!("n!={number}").parse().unwrap(), ..ReflectorConfig::default() };
        factory.informer(source.clone(), InformerConfig { name: name.into(), reflector, ..InformerConfig::default() })
    });
    let starts = tokio::spawn(async move {
        let [late, immediate, later] = informers;
        immediate.start();
        tokio::time::sleep(5 * SECOND).await;
        late.start();
        tokio::time::sleep(5 * SECOND).await;
        later.start();
        [late, immediate, later]
    });
    let wait = |seconds: u32| timeout(seconds * SECOND, factory.wait_for_sync());
    assert!(wait(1).await.is_err());
    assert_eq!(factory.unsynced(), ["late", "later"]);
    assert!(wait(6).await.is_err());
    assert_eq!(factory.unsynced(), ["later"]);
    wait(6).await.unwrap().unwrap();
    let _held = starts.await.unwrap();
    factory.shutdown().await;
    let error = factory.wait_for_sync().await.unwrap_err().to_string();
    assert!(error.contains("has ended: it was shut down"), "{error}");
}
