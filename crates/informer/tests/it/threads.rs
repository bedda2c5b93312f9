//! Tests that threads without a runtime receive events.

use std::sync::mpsc;
use std::time::Duration;

use pintle_informer::{HandlerGuard, InformerConfig, ResourceEvent, SharedInformer};

use pintle_testing::Collection;

use crate::support::{Pod, pod, pods, settle, shorthand};

fn blocking(informer: &SharedInformer<Pod>) -> (HandlerGuard, mpsc::Receiver<String>, mpsc::Sender<()>) {
    let ((sender, received), (release, released)) = (mpsc::channel(), mpsc::channel());
    let released = std::sync::Mutex::new(released);
    let handler = move |event: &ResourceEvent<Pod>| {
        sender.send(shorthand(event)).unwrap();
        released.lock().unwrap().recv().expect("expected by the test");
    };
    (informer.subscribe().handle_on_thread(handler).unwrap(), received, release)
}

#[tokio::test]
async fn handler_thread_may_block_without_delaying_others() {
    let informer = SharedInformer::new(pods(&["a", "b"]), InformerConfig::default());
    let (mut guard, calls, release) = blocking(&informer);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let mut received = vec![calls.recv_timeout(Duration::from_secs(60)).unwrap()];
    assert!(!guard.has_synced(), "the first call is in progress");
    release.send(()).unwrap();
    received.push(calls.recv_timeout(Duration::from_secs(60)).unwrap());
    assert!(!guard.has_synced(), "the last call is in progress");
    release.send(()).unwrap();
    assert!(guard.synced().await);
    received.sort();
    assert_eq!(received, ["A! a@1", "A! b@2"]);
    guard.remove().await;
    assert!(calls.recv().is_err(), "the handler was dropped");
}

#[tokio::test]
async fn handler_removal_waits_only_for_its_call() {
    let informer = SharedInformer::new(pods(&["a", "b"]), InformerConfig::default());
    let ((calm, of_calm, release), (panics, of_panics, unused_release)) = (blocking(&informer), blocking(&informer));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    of_calm.recv_timeout(Duration::from_secs(60)).unwrap();
    of_panics.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(informer.subscribe().handle_on_thread(|_: &ResourceEvent<Pod>| {}).unwrap());
    let mut removal = Box::pin(calm.remove());
    tokio::select! {
        biased;
        () = &mut removal => panic!("a call is in progress"),
        () = settle() => {}
    }
    release.send(()).unwrap();
    removal.await;
    assert!(of_calm.recv().is_err(), "no other call follows");

    drop(unused_release);
    panics.remove().await;
    assert!(of_panics.recv().is_err());
}

#[test]
fn nothing_is_delivered_after_the_end() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let source: Collection<Pod> = (0..1000).map(|number| pod(&number.to_string(), "")).collect();
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let ((begun, has_begun), (release, released)) = (mpsc::channel(), mpsc::channel());
    let released = std::sync::Mutex::new(released);
    let mut events = informer.subscribe();
    let index = move |pod: &Pod| {
        if pod.metadata.name == "999" {
            begun.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        }
        vec![pod.node.clone()]
    };
    informer.add_index("node", index).unwrap();
    runtime.block_on(async { informer.start() });
    has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
    runtime.shutdown_background();
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    let ended = |informer: &SharedInformer<Pod>| informer.state().has_ended();
    until(|| ended(&informer));
    let mut next = || std::pin::pin!(events.next()).as_mut().poll(context);
    until(|| matches!(next(), std::task::Poll::Ready(None)));
    release.send(()).unwrap();
    until(|| informer.lister().len() == 1000);
    // Wait until the subscribers are notified, which happens after the cache is written.
    until(|| informer.has_synced());
    assert!(matches!(next(), std::task::Poll::Ready(None)));
}

#[track_caller]
fn until(mut check: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !check() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "timeout");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_for_a_starting_task() {
    for _ in 0..500 {
        let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
        let (starts, both) = (informer.clone(), barrier.clone());
        let runtime = tokio::runtime::Handle::current();
        let starter = std::thread::spawn(move || {
            let _runtime = runtime.enter();
            both.wait();
            starts.start();
        });
        barrier.wait();
        informer.shutdown().await;
        assert!(informer.state().has_ended());
        starter.join().unwrap();
    }
}
