//! Tests of an informer's metrics.

use std::any::Any;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pintle_informer::{InformerConfig, InformerFactory, ReflectorConfig, SharedInformer};
use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, MetricKind, Provider, Pulled};
use pintle_testing::{Break, Collection, Outcome, Verb};
use serde_json::json;

use crate::support::scripted::{Scripted, list, silence};
use crate::support::{Pod, drain, empty, pod, pods, settle, too_many_requests};

fn with_metrics(memory: &InMemoryProvider) -> InformerConfig<Pod> {
    InformerConfig { name: "web".into(), metrics: Some(Arc::new(memory.clone())), ..InformerConfig::default() }
}

async fn synced(source: &Collection<Pod>, config: InformerConfig<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    informer
}

fn value(memory: &InMemoryProvider, name: &str) -> f64 {
    let labels = [("name", "web"), ("group", ""), ("version", "v1"), ("resource", "pods")];
    memory.value(name, &labels).unwrap_or_else(|| panic!("{name} is not recorded"))
}

fn sum(memory: &InMemoryProvider, name: &str) -> (u64, f64) {
    let distribution = memory.distribution(name, &[]).unwrap_or_else(|| panic!("{name} is not recorded"));
    (distribution.count(), distribution.sum().round())
}

#[tokio::test(start_paused = true)]
async fn metrics_match_client_go_and_end_with_the_informer() {
    let memory = InMemoryProvider::new();
    let informer = || SharedInformer::new(pods(&["a"]), with_metrics(&memory));
    let [never_started, shut_down, dropped] = std::array::from_fn(|_| informer());
    let samples = memory.samples();
    let kind = |kind| match kind {
        MetricKind::Counter => "counter",
        MetricKind::Histogram(_) => "histogram",
        _ => "gauge",
    };
    let received: Vec<_> = samples.iter().map(|sample| (sample.metric.name, kind(sample.metric.kind))).collect();
    assert_eq!(
        received,
        [
            ("informer_degraded_seconds", "gauge"),
            ("informer_pending_notifications", "gauge"),
            ("informer_processing_latency_seconds", "histogram"),
            ("informer_queued_items", "gauge"),
            ("informer_store_resource_version", "gauge"),
            ("informer_synced", "gauge"),
            ("informer_undecodable_objects", "gauge"),
            ("reflector_items_per_list", "histogram"),
            ("reflector_items_per_watch", "histogram"),
            ("reflector_last_resource_version", "gauge"),
            ("reflector_list_duration_seconds", "histogram"),
            ("reflector_lists_total", "counter"),
            ("reflector_short_watches_total", "counter"),
            ("reflector_watch_duration_seconds", "histogram"),
            ("reflector_watches_total", "counter"),
        ]
    );
    for sample in samples {
        assert_eq!(sample.metric.labels, ["name", "group", "version", "resource"]);
        assert_eq!(sample.labels, ["web", "", "v1", "pods"]);
    }

    shut_down.start();
    dropped.start();
    settle().await;
    assert_eq!((value(&memory, "informer_synced"), value(&memory, "reflector_lists_total")), (2.0, 2.0));
    shut_down.shutdown().await;
    assert_eq!(value(&memory, "informer_synced"), 1.0);
    drop(dropped);
    settle().await;
    assert_eq!(value(&memory, "informer_synced"), 0.0, "the informer without a start still exists");
    drop(never_started);
    assert!(memory.samples().is_empty(), "{:?}", memory.samples());
    // A second handle to an informer is not counted as another informer.
    assert!(shut_down.lister().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn informer_without_provider_records_nothing() {
    let memory = InMemoryProvider::new();
    let source = pods(&["a"]);
    let _unmeasured = synced(&source, InformerConfig { metrics: None, ..with_metrics(&memory) }).await;
    assert!(memory.samples().is_empty());
    let _measured = synced(&source, with_metrics(&memory)).await;
    assert_eq!(value(&memory, "reflector_lists_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn list_records_its_duration_and_size() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a", "b"]));
    source.faults().next_of(Verb::List, [Outcome::Fails(too_many_requests())]);
    source.faults().next_of(Verb::List, [Outcome::AnswerSlow(Duration::from_secs(7))]);
    let _informer = synced(&source, with_metrics(&memory)).await;
    assert_eq!(value(&memory, "reflector_lists_total"), 2.0, "a failed list counts");
    assert_eq!(sum(&memory, "reflector_list_duration_seconds"), (1, 7.0));
    assert_eq!(sum(&memory, "reflector_items_per_list"), (1, 2.0));
    for version in ["reflector_last_resource_version", "informer_store_resource_version"] {
        assert_eq!(value(&memory, version), 2.0, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn paged_list_counts_as_one_list() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a", "b", "c"]));
    let slow = || Outcome::AnswerSlow(Duration::from_secs(2));
    // The first list is one response from the server's cache. The next list reads the newest state in pages.
    let too_large = Outcome::Fails(crate::support::too_large());
    source.faults().next_of(Verb::List, [too_large, slow(), slow()]);
    let reflector = ReflectorConfig { page_size: Some(2), ..ReflectorConfig::default() };
    let _informer = synced(&source, InformerConfig { reflector, ..with_metrics(&memory) }).await;
    assert_eq!(value(&memory, "reflector_lists_total"), 2.0);
    assert_eq!(sum(&memory, "reflector_list_duration_seconds"), (1, 4.0));
    assert_eq!(sum(&memory, "reflector_items_per_list"), (1, 3.0));
}

#[tokio::test(start_paused = true)]
async fn ended_watch_records_its_duration_and_events() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a"]));
    let _informer = synced(&source, with_metrics(&memory)).await;
    assert_eq!(value(&memory, "reflector_watches_total"), 1.0);
    source.put(pod("b", ""));
    source.bookmark();
    tokio::time::sleep(Duration::from_secs(30)).await;
    for version in ["reflector_last_resource_version", "informer_store_resource_version"] {
        assert_eq!(value(&memory, version), 2.0, "{version}");
    }
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (0, 0.0), "the cache still works");

    source.break_watches(Break::End);
    settle().await;
    assert_eq!(value(&memory, "reflector_watches_total"), 2.0);
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (1, 30.0));
    assert_eq!(sum(&memory, "reflector_items_per_watch"), (1, 2.0));
    assert_eq!(value(&memory, "reflector_short_watches_total"), 0.0);
    assert_eq!(value(&memory, "reflector_lists_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn relist_after_410_is_recorded() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a"]));
    let _informer = synced(&source, with_metrics(&memory)).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    source.break_watches(Break::Silent);
    source.put(pod("b", ""));
    source.compact();
    source.break_watches(Break::expired());
    settle().await;
    assert_eq!(value(&memory, "informer_synced"), 0.0, "its revision expired");
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (1, 9.0));
    assert_eq!(value(&memory, "informer_store_resource_version"), 1.0);

    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(value(&memory, "informer_synced"), 1.0);
    assert_eq!(value(&memory, "reflector_lists_total"), 2.0);
    assert_eq!(sum(&memory, "reflector_items_per_list"), (2, 3.0));
    assert_eq!(value(&memory, "reflector_watches_total"), 2.0);
    assert_eq!(value(&memory, "informer_store_resource_version"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn watch_without_events_counts_as_short() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a"]));
    source.faults().next_of(Verb::Watch, [empty(), empty()]);
    let informer = synced(&source, with_metrics(&memory)).await;
    assert!(informer.state().cause().is_some());
    assert_eq!(value(&memory, "informer_synced"), 0.0, "the cache is complete but the informer does not watch");
    assert_eq!(value(&memory, "reflector_short_watches_total"), 1.0);
    assert_eq!(sum(&memory, "reflector_items_per_watch"), (1, 0.0));

    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(value(&memory, "informer_synced"), 1.0);
    assert_eq!(value(&memory, "reflector_short_watches_total"), 2.0);
    assert_eq!(value(&memory, "reflector_watches_total"), 3.0);
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (2, 0.0));
}

#[tokio::test(start_paused = true)]
async fn degraded_seconds_grow_while_degraded() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a"]));
    let _informer = synced(&source, with_metrics(&memory)).await;
    assert_eq!(value(&memory, "informer_degraded_seconds"), 0.0);
    source.faults().when(|_| Some(Outcome::refused(503, pintle_meta::Reason::ServiceUnavailable)));
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(value(&memory, "informer_degraded_seconds").round(), 90.0);
    source.faults().heal();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(value(&memory, "informer_degraded_seconds"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn rejected_watch_records_no_duration() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a"]));
    source.faults().next_of(Verb::Watch, [Outcome::Fails(too_many_requests())]);
    let _informer = synced(&source, with_metrics(&memory)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(value(&memory, "reflector_watches_total"), 2.0, "the request counts");
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (0, 0.0));
    assert_eq!(value(&memory, "reflector_short_watches_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_counts_as_list_and_watch() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a", "b"]));
    source.faults().next_of(Verb::Watch, [Outcome::AnswerSlow(Duration::from_secs(3))]);
    let reflector = ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() };
    let _informer = synced(&source, InformerConfig { reflector, ..with_metrics(&memory) }).await;
    assert_eq!((value(&memory, "reflector_lists_total"), value(&memory, "reflector_watches_total")), (1.0, 1.0));
    assert_eq!(sum(&memory, "reflector_list_duration_seconds"), (1, 3.0));
    assert_eq!(sum(&memory, "reflector_items_per_list"), (1, 2.0));
    source.put(pod("c", ""));
    tokio::time::sleep(Duration::from_secs(20)).await;
    source.break_watches(Break::End);
    settle().await;
    assert_eq!(sum(&memory, "reflector_watch_duration_seconds"), (1, 20.0));
    assert_eq!(sum(&memory, "reflector_items_per_watch"), (1, 1.0));
}

#[tokio::test(start_paused = true)]
async fn undecodable_gauge_counts_until_fixed() {
    let put = |source: &Collection<Pod>, name: &str, node: serde_json::Value| {
        source.put_raw(json!({"metadata": {"namespace": "ns", "name": name}, "node": node}));
    };
    let (memory, source) = (InMemoryProvider::new(), Collection::default());
    put(&source, "listed", 7.into());
    let _informer = synced(&source, with_metrics(&memory)).await;
    assert_eq!(value(&memory, "informer_undecodable_objects"), 1.0);
    put(&source, "watched", 7.into());
    settle().await;
    assert_eq!(value(&memory, "informer_undecodable_objects"), 2.0);
    put(&source, "listed", "x".into());
    settle().await;
    assert_eq!(value(&memory, "informer_undecodable_objects"), 1.0);

    source.break_watches(Break::Silent);
    put(&source, "watched", "x".into());
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(value(&memory, "informer_undecodable_objects"), 0.0, "a list fixes it as well");
}

#[tokio::test(start_paused = true)]
async fn queue_length_and_latency_are_recorded() {
    #[derive(Clone, Debug)]
    struct Noting(InMemoryProvider, Arc<Mutex<Vec<i64>>>);
    impl Gauge for Noting {
        fn add(&self, change: i64) {
            let mut levels = self.1.lock().unwrap();
            let level = levels.last().copied().unwrap_or(0) + change;
            levels.push(level);
        }
    }
    impl Provider for Noting {
        fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
            self.0.counter(metric, labels)
        }
        fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
            match metric.name {
                "informer_queued_items" => Box::new(self.clone()),
                _ => self.0.gauge(metric, labels),
            }
        }
        fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
            self.0.histogram(metric, labels)
        }
        fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
            self.0.pulled(metric, labels, read)
        }
    }
    let (memory, source, levels) = (InMemoryProvider::new(), pods(&["a"]), Arc::<Mutex<Vec<i64>>>::default());
    let metrics: Arc<dyn Provider> = Arc::new(Noting(memory.clone(), levels.clone()));
    let informer =
        SharedInformer::new(source.clone(), InformerConfig { metrics: Some(metrics), ..with_metrics(&memory) });
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(sum(&memory, "informer_processing_latency_seconds").0, 1);
    levels.lock().unwrap().clear();
    ["b", "c", "b"].iter().for_each(|name| _ = source.put(pod(name, "")));
    settle().await;
    // The second change of `b` begins a new batch.
    assert_eq!(*levels.lock().unwrap(), [1, 2, 3, 1, 0]);
    assert_eq!(sum(&memory, "informer_processing_latency_seconds").0, 3);
}

#[tokio::test(start_paused = true)]
async fn pending_notifications_count_waiting_events() {
    let (memory, source) = (InMemoryProvider::new(), pods(&["a", "b"]));
    let informer = synced(&source, with_metrics(&memory)).await;
    let (mut quick, slow) = (informer.subscribe(), informer.subscribe());
    assert_eq!(value(&memory, "informer_pending_notifications"), 4.0);
    drain(&mut quick).await;
    source.put(pod("c", ""));
    drain(&mut quick).await;
    assert_eq!(value(&memory, "informer_pending_notifications"), 3.0);
    drop(slow);
    assert_eq!(value(&memory, "informer_pending_notifications"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn long_resource_version_shows_its_last_15_digits() {
    let cases = [("123456789012345678901234567890", 678_901_234_567_890.0), ("50", 50.0), ("none", 0.0), ("é", 0.0)];
    for (version, expected) in cases {
        let memory = InMemoryProvider::new();
        let pod = json!({"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "1"}, "node": "x"});
        let old = Scripted::new(move || Ok(list(std::slice::from_ref(&pod), version)), || Ok(silence()));
        let informer = SharedInformer::new(old, with_metrics(&memory));
        informer.start();
        informer.wait_for_sync().await.unwrap();
        for name in ["reflector_last_resource_version", "informer_store_resource_version"] {
            assert_eq!(value(&memory, name), expected, "{name} of {version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn informers_of_one_name_show_the_newest_version() {
    let (memory, one, other) = (InMemoryProvider::new(), pods(&["a"]), pods(&["a", "b"]));
    let _one = synced(&one, with_metrics(&memory)).await;
    let other = synced(&other, with_metrics(&memory)).await;
    let versions = ["reflector_last_resource_version", "informer_store_resource_version"];
    assert_eq!(versions.map(|name| value(&memory, name)), [2.0, 2.0]);
    other.shutdown().await;
    assert_eq!(versions.map(|name| value(&memory, name)), [1.0, 1.0]);
}

#[test]
fn provider_is_called_without_the_factory_lock() {
    #[derive(Debug)]
    struct Curious(InMemoryProvider, InformerFactory);
    impl Curious {
        fn look(&self) -> &InMemoryProvider {
            let (factory, (sender, received)) = (self.1.clone(), mpsc::channel());
            thread::spawn(move || sender.send(factory.unsynced()));
            received.recv_timeout(Duration::from_secs(30)).expect("deadlock");
            &self.0
        }
    }
    impl Provider for Curious {
        fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
            self.look().counter(metric, labels)
        }
        fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
            self.look().gauge(metric, labels)
        }
        fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
            self.look().histogram(metric, labels)
        }
        fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
            self.look().pulled(metric, labels, read)
        }
    }
    let (memory, factory) = (InMemoryProvider::new(), InformerFactory::new());
    let provider: Arc<dyn Provider> = Arc::new(Curious(memory.clone(), factory.clone()));
    let ask = || {
        let metrics = Some(provider.clone());
        factory.informer(pods(&[]), InformerConfig { metrics, ..with_metrics(&memory) })
    };
    let (_one, _same) = (ask(), ask());
    assert_eq!(factory.unsynced(), ["web"]);
    assert_eq!(value(&memory, "reflector_lists_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn s9_metric_has_the_last_digits_of_the_revision() {
    let memory = InMemoryProvider::new();
    let source = Scripted::new(|| Ok(list(&[], "123456789012345678901234567890")), || Ok(silence()));
    let informer = SharedInformer::new(source, with_metrics(&memory));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(value(&memory, "informer_store_resource_version"), 678_901_234_567_890.0);
}
