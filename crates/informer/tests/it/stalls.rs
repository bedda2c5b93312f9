//! Tests how much work an informer does before it yields to other tasks.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pintle_informer::{InformerConfig, Namespaces, SharedInformer, Transform};
use pintle_meta::ListPart;
use pintle_testing::{Collection, Outcome, Verb};
use serde_json::json;

use crate::support::scripted::{Scripted, raw, silence};
use crate::support::{Pod, pod};

fn many(count: usize) -> Collection<Pod> {
    (0..count).map(|number| pod(&number.to_string(), "")).collect()
}

/// Runs `work` concurrently with a task that is always ready. Returns the largest increase of `counter` between two
/// polls of the concurrent task.
async fn max_between_yields(counter: impl Fn() -> usize + Send + 'static, work: impl Future<Output = ()>) -> usize {
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let watching = tokio::spawn(async move {
        let (mut last, mut most) = (counter(), 0);
        while !is_over.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
            let now = counter();
            most = most.max(now.saturating_sub(last));
            last = now;
        }
        most
    });
    tokio::task::yield_now().await;
    work.await;
    over.store(true, Ordering::Relaxed);
    // tokio may resume `work` twice in a row, because it alternates the order in which it resumes tasks that have
    // yielded.
    watching.await.unwrap().div_ceil(2)
}

async fn started(source: &Collection<Pod>, config: InformerConfig<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer
}

async fn change_all(source: &Collection<Pod>, informer: &SharedInformer<Pod>, count: usize) {
    (0..count).for_each(|number| _ = source.put(pod(&number.to_string(), "changed")));
    informer.lister().wait_for(&source.revision().to_string()).await.unwrap();
}

#[tokio::test]
async fn index_functions_run_16_times_before_yielding() {
    for indexes in [1, 3] {
        let source = many(500);
        let informer = started(&source, InformerConfig::default()).await;
        let here = std::thread::current().id();
        let calls = Arc::new(AtomicUsize::new(0));
        for number in 0..indexes {
            let calls = calls.clone();
            let function = move |pod: &Pod| {
                calls.fetch_add(usize::from(std::thread::current().id() == here), Ordering::Relaxed);
                vec![pod.node.clone()]
            };
            informer.add_index(number.to_string(), function).unwrap();
        }
        calls.store(0, Ordering::Relaxed);
        let counter = calls.clone();
        let most =
            max_between_yields(move || counter.load(Ordering::Relaxed), change_all(&source, &informer, 500)).await;
        assert!((1..=16).contains(&most), "{most} calls without a yield");
        assert_eq!(informer.lister().by_index("0", "changed").unwrap().len(), 500);
    }
}

#[tokio::test]
async fn transforms_run_16_times_before_yielding() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, here) = (calls.clone(), std::thread::current().id());
    let transform: Transform<Pod> = Arc::new(move |_: &mut Pod| {
        counted.fetch_add(usize::from(std::thread::current().id() == here), Ordering::Relaxed);
    });
    let source = many(500);
    let config = InformerConfig { transform: Some(transform), ..InformerConfig::default() };
    let informer = SharedInformer::new(source.clone(), config);
    let most = max_between_yields(move || calls.load(Ordering::Relaxed), async {
        informer.start();
        informer.wait_for_sync().await.unwrap();
        change_all(&source, &informer, 500).await;
        for number in 0..100 {
            source.put(pod(&number.to_string(), "again"));
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(most <= 16, "{most} calls without a yield");
}

#[tokio::test]
async fn subscribers_receive_544_changes_before_yielding() {
    for subscribers in [1, 100, 2000] {
        let source = many(100);
        let informer = started(&source, InformerConfig::default()).await;
        let mut subscriptions: Vec<_> = (0..subscribers).map(|_| informer.subscribe_ordered(1 << 20)).collect();
        subscriptions.iter_mut().for_each(|events| while events.try_next().is_some() {});
        let received = informer.clone();
        let counter = move || received.subscriptions().iter().map(|status| status.depth).sum();
        let waits = async {
            change_all(&source, &informer, 100).await;
            while subscriptions.iter().any(|events| events.len() < 100) {
                tokio::task::yield_now().await;
            }
        };
        let most = max_between_yields(counter, waits).await;
        // The driver yields after 512 notifications, but first finishes the current batch of up to 32 events.
        assert!((1..=544).contains(&most), "{most} changes delivered to {subscribers} subscribers without a yield");
    }
}

/// Counts the items that the driver reads from a source whose items are always ready. The time to split a response into
/// items is proportional to its size.
#[tokio::test]
async fn driver_reads_64_large_objects_before_yielding() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = read.clone();
    let parts = move || {
        let counted = counted.clone();
        let items = (0..2000).map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            let metadata = json!({"namespace": "ns", "name": format!("p{number}")});
            ListPart::Item(raw(&json!({"metadata": metadata, "node": "x".repeat(8 << 10)})))
        });
        let metadata = pintle_meta::ListMeta { resource_version: "1".into(), ..Default::default() };
        Ok(Box::new(items.chain([ListPart::Metadata(metadata)])) as _)
    };
    let informer = SharedInformer::new(Scripted::new(parts, || Ok(silence())), InformerConfig::default());
    let most = max_between_yields(move || read.load(Ordering::Relaxed), async {
        informer.start();
        informer.wait_for_sync().await.unwrap();
    })
    .await;
    assert!((1..=64).contains(&most), "{most} objects without a yield");
    assert_eq!(informer.lister().len(), 2000);
}

/// A subscription yields after at most 128 events in a row, like other tokio resources.
#[tokio::test]
async fn listener_with_a_backlog_yields() {
    let source = many(5000);
    let informer = started(&source, InformerConfig::default()).await;
    let mut events = informer.subscribe();
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let most = max_between_yields(move || counter.load(Ordering::Relaxed), async move {
        let listening = tokio::spawn(async move {
            for _ in 0..5000 {
                events.next().await.unwrap();
                taken.fetch_add(1, Ordering::Relaxed);
            }
        });
        listening.await.unwrap();
    })
    .await;
    assert!((1..=128).contains(&most), "{most} events without a yield");
}

/// Informers must make progress even if a program occupies all threads in tokio's blocking pool.
#[test]
fn full_blocking_pool_does_not_stop_informers() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let (free, blocked) = mpsc::channel::<()>();
    let blocks = runtime.spawn_blocking(move || _ = blocked.recv());
    runtime.block_on(async {
        let source = many(2000);
        let informer = started(&source, InformerConfig::default()).await;
        change_all(&source, &informer, 2000).await;
        assert_eq!(informer.lister().len(), 2000);
        drop(free);
        blocks.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn sixteen_namespaces_are_listed_concurrently() {
    let source = Collection::<Pod>::default();
    let second = Duration::from_secs(1);
    source.faults().when(move |request| (request.verb() == Verb::List).then(|| Outcome::AnswerSlow(second)));
    let client = source.client("");
    let by_namespace = move |namespace: Option<&str>| match namespace {
        Some(namespace) => client.in_namespace(namespace),
        None => client.clone(),
    };
    for streaming_list in [false, true] {
        source.take_requests();
        let namespaces = Namespaces::new((0..100).map(|number| format!("ns{number}")));
        let mut config = InformerConfig::<Pod>::default();
        config.reflector.streaming_list = streaming_list;
        let informer = SharedInformer::of_namespaces(&namespaces, by_namespace.clone(), config);
        informer.start();
        tokio::time::sleep(second / 2).await;
        if !streaming_list {
            assert_eq!(source.requests().len(), 16);
            tokio::time::sleep(second).await;
            let lists = source.requests().into_iter().filter(|request| request.verb() == Verb::List);
            assert_eq!(lists.count(), 32);
        }
        informer.wait_for_sync().await.unwrap();
        informer.shutdown().await;
    }
}

/// Endless streams delay other lists only until their reflectors abandon the streams.
#[tokio::test(start_paused = true)]
async fn endless_lists_do_not_block_other_lists() {
    let source = Collection::<Pod>::default();
    source.faults().next_of(Verb::List, vec![Outcome::Lost; 16]);
    source.faults().next_of(Verb::Watch, vec![Outcome::NoBookmark; 16]);
    let client = source.client("");
    let by_namespace = move |namespace: Option<&str>| match namespace {
        Some(namespace) => client.in_namespace(namespace),
        None => client.clone(),
    };
    for streaming_list in [false, true] {
        let namespaces = Namespaces::new((0..40).map(|number| format!("ns{number}")));
        let mut config = InformerConfig::<Pod>::default();
        config.reflector.streaming_list = streaming_list;
        let informer = SharedInformer::of_namespaces(&namespaces, by_namespace.clone(), config);
        informer.start();
        tokio::time::timeout(Duration::from_secs(600), informer.wait_for_sync()).await.unwrap().unwrap();
        informer.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn request_without_response_times_out() {
    let stops: [(Verb, fn() -> Outcome); 3] = [
        (Verb::List, || Outcome::Lost),
        (Verb::List, || Outcome::Breaks { after: 1, how: pintle_testing::Break::Silent }),
        (Verb::Watch, || Outcome::Lost),
    ];
    for (verb, outcome) in stops {
        for streaming_list in [false, true] {
            let source = many(3);
            source.faults().next_of(verb, [outcome()]);
            let mut config = InformerConfig::<Pod>::default();
            config.reflector.list_idle_timeout = Duration::from_secs(20);
            config.reflector.streaming_list = streaming_list;
            let errors = Arc::new(std::sync::Mutex::new(Vec::new()));
            let log = errors.clone();
            config.on_error = Some(Box::new(move |error| log.lock().unwrap().push(error.to_string())));
            let informer = SharedInformer::new(source.clone(), config);
            informer.start();
            tokio::time::timeout(Duration::from_secs(25), informer.wait_for_sync()).await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_secs(25)).await;
            assert!(informer.state().is_synced() && source.open_watches() == 1);
            let errors = errors.lock().unwrap();
            let is_met = !(streaming_list && verb == Verb::List);
            assert_eq!(errors.len(), usize::from(is_met), "{errors:?}");
            assert!(errors.iter().all(|error| error.contains("the source sent nothing for 20s")), "{errors:?}");
        }
    }
}

/// The idle timeout of a list does not apply while a page is being decoded or while a source sends slowly.
#[tokio::test(start_paused = true)]
async fn list_that_delivers_data_does_not_time_out() {
    let parts = || {
        let items = (0..2000).map(|number| {
            ListPart::Item(raw(&json!({"metadata": {"namespace": "ns", "name": format!("p{number}")}, "node": ""})))
        });
        let metadata = pintle_meta::ListMeta { resource_version: "1".into(), ..Default::default() };
        Ok(Box::new(items.chain([ListPart::Metadata(metadata)])) as _)
    };
    let mut config = InformerConfig::<Pod>::default();
    config.reflector.list_idle_timeout = Duration::from_millis(1);
    config.transform = Some(Arc::new(|_: &mut Pod| std::thread::yield_now()));
    let informer = SharedInformer::new(Scripted::new(parts, || Ok(silence())), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(informer.lister().len(), 2000);
}
