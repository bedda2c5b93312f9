//! Cases of client-go's reflector tests that no other test covers: see ROWS.md.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
use pintle_meta::{ApiError, Reason, Status, StatusCause, StatusDetails};
use pintle_ratelimit::BackoffConfig;
use pintle_testing::{Break, Collection, Outcome, Verb};

use crate::support::rig::{Rig, config};
use crate::support::{
    Pod, drain_sorted, event, expired, failure, key, pod, pods, refused, requests, settle, too_many_requests,
};

async fn synced(source: &Collection<Pod>, config: InformerConfig<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    informer
}

#[tokio::test(start_paused = true)]
async fn f1_error_event_closes_the_watch_before_a_delay() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::Watch, [event(failure(500, Reason::InternalError))]);
    let informer = synced(&source, InformerConfig::default()).await;
    assert!(informer.state().cause().is_some());
    assert_eq!(source.open_watches(), 0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(source.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn f2_stop_before_start_sends_no_request() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.stop();
    informer.shutdown().await;
    assert!(requests(&source).is_empty());

    let running = synced(&source, InformerConfig::default()).await;
    assert_eq!(source.open_watches(), 1);
    running.shutdown().await;
    assert_eq!(source.open_watches(), 0);
    assert_eq!(requests(&source), ["LIST rv=0 limit=500", "WATCH rv=1"]);
}

#[tokio::test(start_paused = true)]
async fn f7_each_round_lists_and_reports_its_errors() {
    let (source, errors) = (pods(&["a"]), Arc::new(Mutex::new(Vec::new())));
    let log = errors.clone();
    let on_error = move |error: &_| log.lock().unwrap().push(ToString::to_string(error));
    let config = InformerConfig { on_error: Some(Box::new(on_error)), ..InformerConfig::default() };
    let informer = synced(&source, config).await;
    let mut events = informer.subscribe();
    assert_eq!(drain_sorted(&mut events).await, ["A! a@1"]);
    for (name, received) in [("b", "A b@2"), ("c", "A c@3")] {
        source.faults().next_of(Verb::List, [Outcome::Fails(failure(500, Reason::InternalError))]);
        source.break_watches(Break::Silent);
        source.put(pod(name, ""));
        source.break_watches(Break::Fails(failure(500, Reason::InternalError)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(drain_sorted(&mut events).await, [received]);
    }
    let errors = errors.lock().unwrap();
    let received: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
    assert_eq!(received, ["cannot watch", "cannot list", "cannot watch", "cannot list"]);
}

#[test]
fn f8_delays_grow_as_configured() {
    let (base, cap) = (Duration::from_millis(10), Duration::from_millis(100));
    let backoff = BackoffConfig { base, cap, jitter: 0.0, ..BackoffConfig::default() };
    let mut rig = Rig::with(ReflectorConfig { backoff, ..config() });
    let start = rig.now;
    for _ in 0..5 {
        rig.list_fails(refused());
        rig.wake();
    }
    assert_eq!(rig.now - start, Duration::from_millis(10 + 20 + 40 + 80 + 100));
    for _ in 0..40 {
        assert_eq!(rig.list_fails(refused()), "SLEEP 100");
        rig.wake();
    }
}

#[test]
fn f18_too_large_revision_is_recognized() {
    const MESSAGE: &str = "Too large resource version: 20, current: 10";
    let because = |reason: &str, message: &str| {
        let mut status = Status::failure(504, Reason::Timeout, "try again");
        let cause = StatusCause { reason: reason.into(), message: message.into(), ..StatusCause::default() };
        status.details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
        ApiError::from(status)
    };
    let mut rig = Rig::new();
    assert_eq!(rig.command_text(), "LIST rv=0 limit=500");
    rig.list(&["a"], 20);
    let variants = [
        because("ResourceVersionTooLarge", ""),
        because("", MESSAGE),
        Status::failure(504, Reason::Timeout, MESSAGE).into(),
    ];
    for (variant, known) in variants.into_iter().zip([20, 30, 40]) {
        rig.open();
        rig.receive_error(expired());
        assert_eq!(rig.wake(), format!("LIST rv={known} limit=0"));
        assert_eq!(rig.list_fails(variant), "LIST rv= limit=500");
        rig.list(&["a"], known + 10);
    }
}

#[tokio::test(start_paused = true)]
async fn f21_object_does_not_keep_its_page_alive() {
    let source = pods(&["a", "b", "c", "d", "e", "f"]);
    let reflector = ReflectorConfig { page_size: Some(2), ..ReflectorConfig::default() };
    // The server has no watch cache, so it returns pages.
    source.faults().next_of(Verb::List, [Outcome::Fails(expired())]);
    let informer = synced(&source, InformerConfig { reflector, ..InformerConfig::default() }).await;
    let next = "LIST rv= limit=2 next";
    assert_eq!(requests(&source), ["LIST rv=0 limit=2", "LIST rv= limit=2", next, next, "WATCH rv=6"]);
    let of = |name| Arc::downgrade(&informer.lister().get(&key(name)).unwrap());
    let (kept, gone) = (["a", "c", "e"].map(of), ["b", "d", "f"].map(of));
    ["b", "d", "f"].iter().for_each(|name| _ = source.remove(&key(name)));
    settle().await;
    assert!(kept.iter().all(|pod: &Weak<Pod>| pod.strong_count() > 0));
    assert!(gone.iter().all(|pod: &Weak<Pod>| pod.strong_count() == 0));
}

#[tokio::test(start_paused = true)]
async fn f22_object_unreadable_by_the_server_is_missing() {
    let source = pods(&["broken", "sound"]);
    let informer = synced(&source, InformerConfig::default()).await;
    source.break_watches(Break::Silent);
    source.remove(&key("broken"));
    source.break_watches(Break::Fails(failure(500, Reason::Other("StorageReadError".into()))));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let cached: Vec<String> = informer.lister().list().iter().map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(cached, ["sound"]);
    assert_eq!(requests(&source)[2..], ["LIST rv=2 limit=0", "WATCH rv=3"]);
}

#[test]
fn f31_only_the_first_page_names_a_revision() {
    for pages in
        [&[&[][..]][..], &[&["a"]], &[&["a", "b"]], &[&["a", "b"], &["c"]], &[&["a", "b"], &["c", "d"], &["e"]]]
    {
        let mut rig = Rig::with(ReflectorConfig { page_size: Some(2), ..config() });
        assert_eq!(rig.command_text(), "LIST rv=0 limit=2");
        let (last, before) = pages.split_last().unwrap();
        for (number, page) in before.iter().enumerate() {
            assert_eq!(rig.page(page, "9", &format!("after {number}")), "LIST rv= limit=2 next");
        }
        assert_eq!(rig.page(last, "9", ""), "WATCH rv=9");
        assert_eq!(rig.outputs, [format!("replaced [{}] at 9", pages.concat().join(" "))]);
    }
}

#[tokio::test(start_paused = true)]
async fn f33_stop_during_a_streaming_delay_is_immediate() {
    for fault in [refused, too_many_requests] {
        let source = pods(&["a"]);
        source.faults().next_of(Verb::Watch, [Outcome::Fails(fault())]);
        let reflector = ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() };
        let informer: SharedInformer<Pod> =
            SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
        informer.start();
        settle().await;
        assert!(informer.state().cause().is_some());
        let before = tokio::time::Instant::now();
        informer.shutdown().await;
        assert_eq!(tokio::time::Instant::now(), before, "time has passed");
    }
}
