//! Tests that users of a shared informer do not affect each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_informer::{ErrorHandler, InformerConfig, InformerFactory, Lister, ReflectorConfig, SharedInformer};
use pintle_metrics::InMemoryProvider;
use pintle_ratelimit::BackoffConfig;
use pintle_testing::{Collection, Outcome, Verb};

use crate::support::scripted::{Scripted, list, silence};
use crate::support::{Pod, drain, failure, key, pod, pods, settle};

fn reflector(change: impl FnOnce(&mut ReflectorConfig)) -> InformerConfig<Pod> {
    let mut reflector = ReflectorConfig::default();
    change(&mut reflector);
    InformerConfig { reflector, ..InformerConfig::default() }
}

fn settings() -> Vec<(&'static str, InformerConfig<Pod>)> {
    let plain = InformerConfig::default;
    let minute = Duration::from_secs(600);
    vec![
        ("name", InformerConfig { name: "mine".into(), ..plain() }),
        ("metrics", InformerConfig { metrics: Some(Arc::new(InMemoryProvider::new())), ..plain() }),
        ("seed", InformerConfig { seed: Some(7), ..plain() }),
        ("label_selector", reflector(|config| config.label_selector = "a=b".parse().unwrap())),
        ("field_selector", reflector(|config| config.field_selector = "metadata.name=b".parse().unwrap())),
        ("not_older_than", reflector(|config| config.not_older_than = "1".into())),
        ("page_size", reflector(|config| config.page_size = Some(7))),
        ("streaming_list", reflector(|config| config.streaming_list = true)),
        ("streaming_list_idle_timeout", reflector(|config| config.streaming_list_idle_timeout = minute)),
        ("list_idle_timeout", reflector(|config| config.list_idle_timeout = minute)),
        ("watch_timeout", reflector(|config| config.watch_timeout = minute)),
        ("watch_idle_timeout", reflector(|config| config.watch_idle_timeout = Some(minute))),
        ("watch_grace", reflector(|config| config.watch_grace = minute)),
        ("backoff", reflector(|config| config.backoff = BackoffConfig { cap: minute, ..config.backoff })),
    ]
}

#[tokio::test(start_paused = true)]
async fn caller_with_other_settings_gets_another_informer() {
    for (setting, config) in settings() {
        let source = pods(&["a"]);
        let factory = InformerFactory::new();
        let _first = factory.informer(source.clone(), InformerConfig::default());
        let _second = factory.informer(source.clone(), config);
        assert_eq!(factory.unsynced().len(), 2, "{setting}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_with_the_same_settings_share_an_informer() {
    let (memory, factory, source) = (Arc::new(InMemoryProvider::new()), InformerFactory::new(), pods(&["a"]));
    let same = || InformerConfig {
        name: "mine".into(),
        metrics: Some(memory.clone()),
        seed: Some(7),
        ..reflector(|config| config.page_size = Some(7))
    };
    // A configuration with default values matches an existing informer.
    let any = reflector(|config| config.page_size = Some(7));
    let informers = [same(), same(), any].map(|config| factory.informer(source.clone(), config));
    assert_eq!(factory.unsynced(), ["mine"]);
    assert!(informers.iter().all(|informer| informer.name() == "mine"));
}

#[tokio::test(start_paused = true)]
async fn callers_have_their_own_resync_periods() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let period =
        |seconds: u64| InformerConfig { resync: Some(Duration::from_secs(seconds)), ..InformerConfig::default() };
    let configs = [InformerConfig::default(), period(60), period(600)];
    let informers = configs.map(|config| factory.informer(source.clone(), config));
    factory.start();
    assert_eq!(factory.unsynced().len(), 1);
    factory.wait_for_sync().await.unwrap();
    let mut subscriptions = informers.each_ref().map(SharedInformer::subscribe);
    for events in &mut subscriptions {
        drain(events).await;
    }
    let mut reminders = [0; 3];
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for (events, reminders) in subscriptions.iter_mut().zip(&mut reminders) {
            *reminders += drain(events).await.len();
        }
    }
    assert_eq!(reminders, [0, 10, 1]);
}

#[tokio::test(start_paused = true)]
async fn error_handler_lasts_as_long_as_its_user() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let create = |number: usize| {
        let count = counts[number].clone();
        let on_error: ErrorHandler = Box::new(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
        factory.informer(source.clone(), InformerConfig { on_error: Some(on_error), ..InformerConfig::default() })
    };
    let errors = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let (first, second, third) = (create(0), create(1), create(2));
    assert_eq!(factory.unsynced().len(), 1);
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(403, pintle_meta::Reason::Forbidden))]);
    factory.start();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(errors(), [1, 1, 1]);
    tokio::time::sleep(Duration::from_secs(10)).await;

    let _reads = second.lister();
    drop((first, second, third));
    source.faults().next_of(Verb::Watch, [Outcome::Fails(failure(403, pintle_meta::Reason::Forbidden))]);
    source.break_watches(pintle_testing::Break::End);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(errors(), [1, 2, 1]);
}

fn by_siblings(informer: &SharedInformer<Pod>, lister: Lister<Pod>) {
    let function = move |pod: &Pod| vec![lister.namespace(&pod.metadata.namespace).len().to_string()];
    informer.add_index("siblings", function).unwrap();
}

#[tokio::test(start_paused = true)]
async fn lister_in_index_function_does_not_keep_informer_running() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let informer = factory.informer(source.clone(), InformerConfig::default());
    by_siblings(&informer, informer.lister());
    factory.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(source.open_watches(), 1);
    drop(informer);
    settle().await;
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn index_function_does_not_keep_the_error_handler() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let captured = Arc::new(());
    let alive = Arc::downgrade(&captured);
    let on_error: ErrorHandler = Box::new(move |_| {
        let _moved = &captured;
    });
    let config = InformerConfig { on_error: Some(on_error), ..InformerConfig::default() };
    let informer = factory.informer(source.clone(), config);
    let _other_user = factory.informer(source.clone(), InformerConfig::default());
    by_siblings(&informer, informer.lister());
    factory.start();
    informer.wait_for_sync().await.unwrap();
    assert!(alive.upgrade().is_some());
    drop(informer);
    assert!(alive.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn lister_with_other_reads_keeps_the_informer_running() {
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    let informer = factory.informer(source.clone(), InformerConfig::default());
    let lister = Arc::new(informer.lister());
    let captured = lister.clone();
    let function = move |_: &Pod| vec![captured.len().to_string()];
    informer.add_index("siblings", function).unwrap();
    factory.start();
    informer.wait_for_sync().await.unwrap();
    assert!(lister.get(&key("a")).is_some());
    drop(informer);
    source.put(pod("b", ""));
    settle().await;
    assert_eq!((source.open_watches(), lister.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn ended_informer_drops_its_index_functions() {
    let informer = SharedInformer::new(pods(&["a"]), InformerConfig::default());
    let captured = Arc::new(());
    let alive = Arc::downgrade(&captured);
    let lister = informer.lister();
    let function = move |_: &Pod| vec![format!("{} {:?}", lister.len(), captured)];
    informer.add_index("siblings", function).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let reads = informer.lister();
    informer.shutdown().await;
    assert!(alive.upgrade().is_none());
    assert_eq!(reads.by_index("siblings", "0 ()").unwrap().len(), 1, "the index exists");
}

#[tokio::test(start_paused = true)]
async fn shared_informer_hides_its_namespaces() {
    let source = pods(&["a"]);
    let client = source.client("");
    let by_namespace = move |namespace: Option<&str>| match namespace {
        Some(namespace) => client.in_namespace(namespace),
        None => client.clone(),
    };
    let namespaces = pintle_informer::Namespaces::new(["ns"]);
    let factory = InformerFactory::new();
    let shared = factory.informer_of_namespaces(&namespaces, by_namespace.clone(), InformerConfig::<Pod>::default());
    let own = SharedInformer::of_namespaces(&namespaces, by_namespace, InformerConfig::<Pod>::default());
    assert!(shared.namespaces().is_none() && own.namespaces() == Some(&namespaces));
}

/// A runtime that was shut down drops each new task immediately, which runs user code.
#[test]
fn factory_starts_informers_without_its_lock() {
    struct ReadsOnDrop(InformerFactory, Arc<Mutex<Vec<String>>>);
    impl Drop for ReadsOnDrop {
        fn drop(&mut self) {
            self.1.lock().unwrap().extend(self.0.unsynced());
        }
    }
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let factory = InformerFactory::new();
        let unsynced = Arc::new(Mutex::new(Vec::new()));
        let captured = ReadsOnDrop(factory.clone(), unsynced.clone());
        let answer = move || {
            let _moved = &captured;
            Ok(list(&[], "1"))
        };
        let _informer: SharedInformer<Pod> =
            factory.informer(Scripted::new(answer, || Ok(silence())), InformerConfig::default());
        let _inside = handle.enter();
        factory.start();
        sender.send(unsynced.lock().unwrap().clone())
    });
    let unsynced = received.recv_timeout(Duration::from_secs(30)).expect("deadlock");
    assert_eq!(unsynced, ["Pod"]);
}

#[test]
fn dropped_subscriptions_are_removed() {
    let informer = SharedInformer::new(Collection::<Pod>::default(), InformerConfig::default());
    let kept = informer.subscribe();
    for _ in 0..10_000 {
        drop(informer.subscribe());
    }
    assert_eq!(informer.subscriptions().len(), 1);
    drop(kept);
}
