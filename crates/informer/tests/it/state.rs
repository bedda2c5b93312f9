//! Tests of an informer's state.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use pintle_informer::{
    InformerConfig, InformerState, ListProgress, Namespaces, ReflectorError, SharedInformer, StateWatch, StopCause,
};
use pintle_meta::{ListMeta, ListPart, Reason, WatchEvent};
use pintle_testing::{Break, Outcome, Verb};
use serde_json::json;

use crate::support::rig::Rig;
use crate::support::scripted::{Scripted, raw, silence};
use crate::support::{Pod, drain, expired, failure, key, pod, pod_at, pods, refused, settle};

fn progress(state: &InformerState) -> Option<(usize, Option<u64>)> {
    match state {
        InformerState::Listing { progress } | InformerState::Streaming { progress } => {
            let ListProgress { received, remaining, .. } = *progress;
            Some((received, remaining))
        }
        _ => None,
    }
}

#[test]
fn list_progress_counts_received_and_remaining() {
    let mut rig = Rig::new();
    assert_eq!(progress(&rig.reflector.state()), Some((0, None)));
    let mut page = |remaining| {
        let continue_token = format!("after {remaining:?}");
        let metadata = ListMeta { resource_version: "9".into(), continue_token, remaining_item_count: remaining };
        rig.page_with(&["a", "b"], metadata);
        progress(&rig.reflector.state())
    };
    assert_eq!(page(Some(3)), Some((2, Some(3))));
    assert_eq!(page(Some(-1)), Some((4, None)), "an invalid count is ignored");
    assert_eq!(page(None), Some((6, None)));
}

#[test]
fn streaming_list_progress_counts_objects() {
    let mut rig = Rig::streaming();
    rig.open();
    for name in ["a", "b", "a"] {
        rig.receive(WatchEvent::Added(pod_at(name, 1)));
    }
    assert_eq!(progress(&rig.reflector.state()), Some((2, None)));
}

#[test]
fn synced_state_has_the_revision() {
    let mut rig = Rig::watching(5);
    let version = |rig: &Rig| match rig.reflector.state() {
        InformerState::Synced { resource_version } => resource_version,
        state => panic!("{state:?}"),
    };
    assert_eq!(version(&rig), "5");
    rig.bookmark(8, false);
    assert_eq!(version(&rig), "8");
}

#[test]
fn missing_resource_is_a_distinct_retried_failure() {
    let not_there = || failure(404, Reason::NotFound);
    let is_told = |rig: &Rig| matches!(rig.reflector.state().cause(), Some(ReflectorError::NoSuchResource(_)));
    let mut rig = Rig::new();
    for delay in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
        assert_eq!(rig.list_fails(not_there()), format!("SLEEP {delay}"));
        assert!(is_told(&rig) && rig.cause().unwrap().starts_with("the resource does not exist (yet): "));
        rig.wake();
    }
    rig.list(&[], 5);
    assert!(rig.reflector.state().is_synced());

    // Delete the resource during the watch, and add it again later. The cache keeps its objects while the
    // resource does not exist.
    rig.open();
    rig.pass(Duration::from_secs(1));
    rig.end();
    rig.outputs.clear();
    assert_eq!(rig.open_fails(not_there()), "SLEEP 800");
    assert!(is_told(&rig));
    assert_eq!(rig.wake(), "LIST rv=5 limit=0");
    rig.list_fails(not_there());
    assert!(is_told(&rig) && rig.outputs.is_empty());
    rig.wake();
    rig.list(&["b"], 9);
    assert_eq!(rig.outputs, ["replaced [b] at 9"]);
    assert!(rig.reflector.state().is_synced());

    let mut streaming = Rig::streaming();
    assert_eq!(streaming.open_fails(not_there()), "LIST rv=0 limit=500", "streams may be unknown to the server");
    streaming.list_fails(not_there());
    assert!(is_told(&streaming));
}

#[tokio::test(start_paused = true)]
async fn progress_is_visible_within_a_page() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let states = Arc::new(Mutex::new(None::<StateWatch>));
    let (log, looking) = (seen.clone(), states.clone());
    let pods = move || {
        let (log, looking) = (log.clone(), looking.clone());
        let items = (0..5000).map(move |number| {
            let state = looking.lock().unwrap().as_ref().map(StateWatch::get);
            log.lock().unwrap().extend(state.as_ref().and_then(progress).map(|(received, _)| (number, received)));
            ListPart::Item(raw(&json!({"metadata": {"namespace": "ns", "name": format!("p{number}")}, "node": ""})))
        });
        let metadata = ListMeta { resource_version: "1".into(), ..ListMeta::default() };
        Ok(Box::new(items.chain([ListPart::Metadata(metadata)])) as _)
    };
    let informer = SharedInformer::new(Scripted::new(pods, || Ok(silence())), InformerConfig::default());
    *states.lock().unwrap() = Some(informer.states());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0], seen.len()), ((0, 0), 5000));
    assert!(seen.is_sorted() && seen.iter().all(|(sent, received)| received <= sent && received.is_multiple_of(100)));
    assert!(seen[4999].1 >= 3000, "objects that are being decoded do not count as received: {}", seen[4999].1);
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_wake_state_watches() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    let mut states = informer.states();
    for _ in 0..10 {
        source.put(pod("b", ""));
        settle().await;
    }
    let state = informer.state();
    assert!(matches!(&state, InformerState::Synced { resource_version } if resource_version == "11"), "{state:?}");
    assert!(!states.has_changed(), "a version change does not wake");

    source.break_watches(Break::Fails(expired()));
    settle().await;
    assert!(states.has_changed());
    assert_eq!(states.changed().await.as_ref().and_then(progress), Some((0, None)));
}

#[tokio::test(start_paused = true)]
async fn each_failure_and_retry_wakes_state_watches() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::List, [Outcome::Fails(refused()), Outcome::Fails(failure(403, Reason::Forbidden))]);
    source.faults().next_of(Verb::List, [Outcome::AnswerSlow(Duration::from_secs(1))]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut states = informer.states();
    let start = tokio::time::Instant::now().into_std();
    informer.start();
    let mut received = Vec::new();
    while let Some(state) = states.changed().await {
        match &state {
            InformerState::Degraded { cause, since, next_try } => {
                assert_eq!(*since, start);
                let ahead = next_try.map(|next_try| (next_try - tokio::time::Instant::now().into_std()).as_millis());
                assert!(ahead.is_none_or(|ahead| (800..=3200).contains(&ahead)), "{ahead:?}");
                received.push(format!("{} {}", cause.to_string().contains("Forbidden"), ahead.is_some()));
            }
            InformerState::Synced { .. } => break,
            _ => {}
        }
    }
    assert_eq!(received, ["false true", "true true", "true false"]);
    drop(informer);
    let end = states.wait_for(InformerState::has_ended).await.unwrap();
    assert!(matches!(end, InformerState::Stopped { cause: StopCause::ShutDown }), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn deleted_definition_keeps_the_cache_until_a_list() {
    let source = pods(&["a", "b"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    drain(&mut events).await;

    source.faults().when(|_| Some(Outcome::refused(404, Reason::NotFound)));
    source.break_watches(Break::Silent);
    source.remove(&key("a"));
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(matches!(informer.state().cause(), Some(ReflectorError::NoSuchResource(_))));
    assert_eq!((informer.lister().len(), events.len()), (2, 0));

    source.faults().heal();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(informer.state().is_synced());
    assert_eq!(drain(&mut events).await, ["D? a@1"]);
}

/// Runs `program` on another thread, so that a deadlock of the program fails the test.
fn ends<F: Future<Output = ()>>(program: impl FnOnce() -> F + Send + 'static) {
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(program());
        sender.send(())
    });
    received.recv_timeout(Duration::from_secs(30)).expect("deadlock");
}

#[test]
fn held_state_does_not_block_the_informer() {
    ends(|| async {
        let source = pods(&["a"]);
        let informer = SharedInformer::new(source.clone(), InformerConfig::default());
        let mut states = informer.states();
        informer.start();
        let state = states.wait_for(InformerState::is_synced).await;
        source.put(pod("b", ""));
        informer.lister().wait_for("2").await.unwrap();
        source.break_watches(Break::Fails(expired()));
        assert!(states.changed().await.is_some());
        assert!(state.is_some_and(|state| state.is_synced()));
    });
}

#[test]
fn state_condition_may_read_the_state() {
    ends(|| async {
        let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
        let mut states = informer.states();
        informer.start();
        let shared = informer.clone();
        let is_synced = move |_: &InformerState| shared.state().is_synced() && shared.states_by_namespace().is_empty();
        assert!(states.wait_for(is_synced).await.is_some());
    });
}

struct ReadingWaker {
    informer: Mutex<Option<SharedInformer<Pod>>>,
    woken: AtomicUsize,
}

impl ReadingWaker {
    fn new(informer: &SharedInformer<Pod>) -> Arc<Self> {
        Arc::new(Self { informer: Mutex::new(Some(informer.clone())), woken: AtomicUsize::new(0) })
    }
}

impl Wake for ReadingWaker {
    fn wake(self: Arc<Self>) {
        if let Some(informer) = &*self.informer.lock().unwrap() {
            let _ = (informer.states_by_namespace(), informer.state(), informer.subscriptions(), informer.subscribe());
            let _ = (informer.lister().len(), informer.has_synced(), format!("{informer:?}"));
        }
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn state_wakers_run_without_locks() {
    ends(|| async {
        let namespaces = Namespaces::new(["ns"]);
        let source = pods(&["a"]);
        let client = source.client("");
        let by_namespace = move |namespace: Option<&str>| match namespace {
            Some(namespace) => client.in_namespace(namespace),
            None => client.clone(),
        };
        let informer = SharedInformer::of_namespaces(&namespaces, by_namespace, InformerConfig::default());
        let reading = ReadingWaker::new(&informer);
        let waker = reading.clone().into();
        let mut states = informer.states();
        let mut changed = Box::pin(async move { states.changed().await });
        assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        informer.start();
        while reading.woken.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        reading.informer.lock().unwrap().take();
    });
}

/// The waker of a subscriber is called at the end of a write, when subscribers are notified.
#[test]
fn subscriber_wakers_run_without_locks() {
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let source = pods(&["a"]);
        let informer = SharedInformer::new(source.clone(), InformerConfig::default());
        runtime.block_on(async {
            informer.start();
            informer.wait_for_sync().await.unwrap();
        });
        let ((start, has_begun), (lets, let_go)) = (mpsc::channel(), mpsc::channel::<()>());
        let let_go = Mutex::new(let_go);
        let index = move |pod: &Pod| {
            if pod.metadata.name == "b" {
                start.send(()).unwrap();
                let _ = let_go.lock().unwrap().recv();
            }
            vec![pod.node.clone()]
        };
        informer.add_index("node", index).unwrap();
        source.put(pod("b", ""));
        has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        let (mut events, reading) = (informer.subscribe(), ReadingWaker::new(&informer));
        let mut synced = events.sync_handle();
        let waker = reading.clone().into();
        let context = &mut Context::from_waker(&waker);
        assert!(pin!(synced.synced()).as_mut().poll(context).is_pending());
        assert!(pin!(events.next()).as_mut().poll(context).is_pending());
        lets.send(()).unwrap();
        while reading.woken.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        reading.informer.lock().unwrap().take();
        assert!(events.try_next().is_some() && events.try_next().is_some());
        sender.send(())
    });
    received.recv_timeout(Duration::from_secs(30)).expect("deadlock");
}

#[tokio::test(start_paused = true)]
async fn state_watch_ends_with_the_informer() {
    let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
    let (mut states, mut late) = (informer.states(), informer.states());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer.shutdown().await;
    assert!(states.changed().await.is_some_and(|state| state.has_ended()));
    assert!(states.changed().await.is_none());
    assert!(late.wait_for(InformerState::is_synced).await.is_none());
    assert!(late.get().has_ended());
}
