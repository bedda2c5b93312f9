//! Tests of event handlers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_informer::{
    FilteringResourceEventHandler, HandlerGuard, InformerConfig, ResourceEvent, ResourceEventHandler, SharedInformer,
};
use pintle_testing::Collection;

use crate::support::{Pod, key, pod, pods, settle, shorthand};

type Log = Arc<Mutex<Vec<String>>>;

fn logging(informer: &SharedInformer<Pod>) -> (HandlerGuard, Log) {
    let log = Log::default();
    let received = log.clone();
    let guard =
        informer.add_event_handler(move |event: &ResourceEvent<Pod>| received.lock().unwrap().push(shorthand(event)));
    (guard, log)
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_handler_receives_all_events() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let (mut first, first_log) = logging(&informer);
    informer.start();
    assert!(first.synced().await);
    let (mut late, late_log) = logging(&informer);
    assert!(late.synced().await);
    source.put(pod("a", "node"));
    settle().await;
    source.remove(&key("a"));
    settle().await;
    assert_eq!(take(&first_log), ["A! a@1", "U a@1..2", "D a@3"]);
    assert_eq!(take(&late_log), ["A! a@1", "U a@1..2", "D a@3"]);
}

#[tokio::test(start_paused = true)]
async fn removed_handler_receives_no_more_events() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let ((dropped, dropped_log), (removed, removed_log), (_kept, kept_log)) =
        (logging(&informer), logging(&informer), logging(&informer));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    drop(dropped);
    removed.remove().await;
    source.put(pod("b", ""));
    settle().await;
    assert_eq!([take(&dropped_log), take(&removed_log)], [["A! a@1"], ["A! a@1"]]);
    assert_eq!(take(&kept_log), ["A! a@1", "A b@2"]);
}

#[tokio::test(start_paused = true)]
async fn handler_syncs_after_all_initial_objects() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let (guard, _log) = logging(&informer);
    assert!(!guard.has_synced());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert!(guard.has_synced());

    let (mut never, _log) = logging(&SharedInformer::new(pods(&[]), InformerConfig::default()));
    assert!(!never.synced().await, "the informer ended first");
}

#[tokio::test(start_paused = true)]
async fn panicking_handler_skips_the_event_and_pauses() {
    struct Panics(Arc<AtomicUsize>);
    impl ResourceEventHandler<Pod> for Panics {
        fn on_add(&self, object: &Arc<Pod>, _: bool) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(object.metadata.name.is_empty(), "expected by the test");
        }
        fn on_update(&self, _: &Arc<Pod>, _: &Arc<Pod>) {}
        fn on_delete(&self, _: &Arc<Pod>, _: bool) {}
    }
    let source = pods(&["a", "b", "c", "d", "e"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let _guard = informer.add_event_handler(Panics(calls.clone()));
    let (mut calm, log) = logging(&informer);
    informer.start();
    assert!(calm.synced().await, "other handlers are not affected");
    assert_eq!(take(&log).len(), 5);
    for expected in 1..=5 {
        assert_eq!(calls.load(Ordering::Relaxed), expected);
        tokio::time::sleep(Duration::from_millis(1001)).await;
    }
    assert!(informer.state().is_synced());
}

/// Logs the events of the pods on the node `mine`, until the informer or the guard is dropped.
async fn events_of_my_node(source: &Collection<Pod>) -> (SharedInformer<Pod>, HandlerGuard, Log) {
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let log = Log::default();
    let received = log.clone();
    let handler = move |event: &ResourceEvent<Pod>| received.lock().unwrap().push(shorthand(event));
    let guard = informer.add_event_handler(FilteringResourceEventHandler::new(|pod: &Pod| pod.node == "mine", handler));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    (informer, guard, log)
}

#[tokio::test(start_paused = true)]
async fn filter_change_delivers_additions_and_deletions() {
    let source = pods(&[]);
    let (_informer, _guard, log) = events_of_my_node(&source).await;
    for node in ["", "other", "mine", "mine", "other"] {
        source.put(pod("a", node));
        settle().await;
    }
    source.remove(&key("a"));
    settle().await;
    assert_eq!(take(&log), ["A a@3", "U a@3..4", "D a@4"]);
    source.put(pod("b", "mine"));
    settle().await;
    source.remove(&key("b"));
    settle().await;
    assert_eq!(take(&log), ["A b@7", "D b@8"]);
}

#[tokio::test(start_paused = true)]
async fn handler_can_have_its_own_resync_period() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let handler = move |_: &ResourceEvent<Pod>| _ = counter.fetch_add(1, Ordering::Relaxed);
    let mut events = informer.subscribe();
    events.set_resync(Some(Duration::from_secs(10)));
    let _guard = events.handle(handler);
    informer.start();
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(count.load(Ordering::Relaxed), 1 + 3);
}

#[tokio::test(start_paused = true)]
async fn filter_reports_an_object_that_leaves_before_its_deletion() {
    let source = pods(&[]);
    let (_informer, _guard, log) = events_of_my_node(&source).await;
    source.put(pod("a", "mine"));
    settle().await;
    source.put(pod("a", "other"));
    source.remove(&key("a"));
    settle().await;
    assert_eq!(take(&log), ["A a@1", "D a@1"]);
}
