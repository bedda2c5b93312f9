//! Tests how panics in user code are handled and reported.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use pintle_informer::{
    AddIndexError, InformerConfig, InformerFactory, InformerState, ReflectorConfig, ResourceEvent, SharedInformer,
    StopCause,
};
use pintle_meta::{Metadata, ObjectMeta, Reason};
use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Provider, Pulled};
use pintle_testing::{Break, Collection, Outcome, PanickingProvider, Verb};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use crate::log::Log;
use crate::support::scripted::{Scripted, list, silence};
use crate::support::{Pod, drain, drain_sorted, failure, key, pod, pods, settle};

fn shown<T: pintle_meta::Object>(informer: &SharedInformer<T>) -> Vec<String> {
    let entries = informer.lister().undecodable();
    entries.iter().map(|entry| format!("{}: {}", entry.key, entry.error)).collect()
}

fn by_node(informer: &SharedInformer<Pod>) -> Result<(), AddIndexError> {
    informer.add_index("node", |pod| {
        assert_ne!(pod.node, "bad", "wanted");
        vec![pod.node.clone()]
    })
}

#[tokio::test(start_paused = true)]
async fn panicking_error_handler_does_not_stop_the_informer() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(403, Reason::Forbidden))]);
    let is_called = Arc::new(AtomicBool::new(false));
    let called = is_called.clone();
    let on_error = move |_: &_| {
        called.store(true, Ordering::Relaxed);
        panic!("wanted");
    };
    let config = InformerConfig { on_error: Some(Box::new(on_error)), ..InformerConfig::default() };
    let informer = SharedInformer::new(source, config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert!(is_called.load(Ordering::Relaxed) && informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn panicking_metrics_provider_is_not_called_again() {
    /// The places where the metrics provider panics. `Any` panics in each method. Each other variant panics when
    /// one kind of metric is used or dropped.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum At {
        Any,
        Counter,
        Gauge,
        Histogram,
        Pulled,
    }
    #[derive(Debug)]
    struct Fragile(At, InMemoryProvider);
    impl Fragile {
        fn give(&self, kind: At) -> &dyn Provider {
            assert_ne!(self.0, At::Any, "wanted");
            if self.0 == kind { &PanickingProvider } else { &self.1 }
        }
    }
    impl Provider for Fragile {
        fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
            self.give(At::Counter).counter(metric, labels)
        }
        fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
            self.give(At::Gauge).gauge(metric, labels)
        }
        fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
            self.give(At::Histogram).histogram(metric, labels)
        }
        fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
            self.give(At::Pulled).pulled(metric, labels, read)
        }
    }
    for at in [At::Any, At::Counter, At::Gauge, At::Histogram, At::Pulled] {
        let (log, _here) = Log::here();
        let (source, memory) = (pods(&["a"]), InMemoryProvider::new());
        let metrics: Arc<dyn Provider> = Arc::new(Fragile(at, memory.clone()));
        let config = InformerConfig { metrics: Some(metrics), ..InformerConfig::default() };
        let informer = SharedInformer::new(source.clone(), config);
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        source.put(pod("b", ""));
        assert_eq!(drain(&mut events).await, ["A! a@1", "A b@2"], "{at:?}");
        source.break_watches(Break::End);
        source.put(pod("c", ""));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(drain(&mut events).await, ["A c@3"], "{at:?}");
        informer.shutdown().await;
        assert!(
            matches!(informer.state(), InformerState::Stopped { cause: StopCause::ShutDown }),
            "{at:?}: {:?}",
            informer.state()
        );
        assert!(memory.samples().is_empty(), "{at:?}: {:?}", memory.samples());
        log.assert_tells(&["ERROR", "the metrics provider of an informer panicked"]);
        assert_eq!(log.count("panicked"), 1, "{at:?}");
    }
}

fn panicking_metrics() -> InformerConfig<Pod> {
    InformerConfig { metrics: Some(Arc::new(PanickingProvider)), ..InformerConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn metrics_panicking_on_drop_do_not_change_the_state() {
    drop(SharedInformer::new(pods(&["a"]), panicking_metrics()));
    let never_started = SharedInformer::new(pods(&["a"]), panicking_metrics());
    never_started.stop();
    let dropped = SharedInformer::new(pods(&["a"]), panicking_metrics());
    let mut states = dropped.states();
    dropped.start();
    dropped.wait_for_sync().await.unwrap();
    drop(dropped);
    states.wait_for(InformerState::has_ended).await.unwrap();
    for state in [never_started.state(), states.get()] {
        assert!(matches!(state, InformerState::Stopped { cause: StopCause::ShutDown }), "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_panicking_during_a_panic_do_not_abort() {
    let source = Scripted::new(|| Ok(list(&[], "1")), || panic!("of the source"));
    let informer = SharedInformer::new(source, panicking_metrics());
    informer.start();
    let state = informer.states().wait_for(InformerState::has_ended).await.unwrap();
    assert!(
        matches!(&state, InformerState::Stopped { cause: StopCause::Panicked { message } } if message == "of the source"),
        "{state:?}"
    );
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn panicking_deserialize_affects_only_its_object() {
    #[derive(Deserialize)]
    struct Fussy {
        metadata: ObjectMeta,
        #[serde(rename = "node", deserialize_with = "good")]
        _node: String,
    }
    fn good<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let node = String::deserialize(deserializer)?;
        assert_ne!(node, "bad", "wanted");
        Ok(node)
    }
    pintle_meta::resource!(Fussy, "v1", "Pod", "pods", Namespaced);
    for streaming_list in [false, true] {
        let source = Collection::<Fussy>::default();
        let put = |name: &str, node: &str| {
            source.put_raw(json!({"metadata": {"namespace": "ns", "name": name}, "node": node}));
        };
        put("a", "bad");
        put("b", "");
        let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
        let informer = SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
        informer.start();
        informer.wait_for_sync().await.unwrap();
        put("c", "bad");
        put("d", "");
        settle().await;
        let errors = shown(&informer);
        assert_eq!((informer.lister().len(), errors.len()), (2, 2), "{errors:?}");
        assert!(
            errors[0].starts_with("ns/a: its Deserialize panicked: ") && errors[0].contains("wanted"),
            "{errors:?}"
        );
        assert!(errors[1].starts_with("ns/c: its Deserialize panicked: "), "{errors:?}");
        assert!(informer.state().is_synced());
        put("a", "good");
        settle().await;
        assert_eq!((informer.lister().len(), shown(&informer).len()), (3, 1), "fixed");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_metadata_affects_only_its_object() {
    #[derive(Deserialize)]
    struct Mute {
        metadata: Secretive,
    }
    #[derive(Deserialize)]
    struct Secretive {
        name: String,
        namespace: String,
        uid: String,
        #[serde(rename = "resourceVersion")]
        resource_version: String,
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    impl Secretive {
        fn checked<'a>(&'a self, what: &str, text: &'a str) -> &'a str {
            assert!(!self.labels.contains_key(what), "wanted");
            text
        }
    }
    impl Metadata for Secretive {
        fn name(&self) -> &str {
            self.checked("name", &self.name)
        }
        fn namespace(&self) -> &str {
            self.checked("namespace", &self.namespace)
        }
        fn uid(&self) -> &str {
            self.checked("uid", &self.uid)
        }
        fn resource_version(&self) -> &str {
            self.checked("version", &self.resource_version)
        }
    }
    pintle_meta::resource!(Mute, "v1", "Pod", "pods", Namespaced);
    for streaming_list in [false, true] {
        let source = Collection::<Mute>::default();
        let put = |name: &str, hides: Option<&str>| {
            let labels: BTreeMap<_, _> = hides.map(|what| (what, "x")).into_iter().collect();
            source.put_raw(json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}}));
        };
        put("good", None);
        let all = ["name", "namespace", "uid", "version"];
        all.iter().for_each(|what| put(what, Some(what)));
        let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
        let informer = SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let errors = all.map(|what| format!("ns/{what}: its Metadata panicked on it: wanted"));
        assert_eq!((informer.lister().len(), shown(&informer)), (1, errors.to_vec()));
        // Replace each undecodable object by a decodable one, and the decodable object by an undecodable one.
        // Check the cache after watch events and after a list.
        for (healed, what) in all.into_iter().enumerate() {
            put(what, None);
            put("good", Some(what));
            settle().await;
            let counts = (informer.lister().len(), shown(&informer).len());
            assert_eq!(counts, (2, 4 - healed), "the last good state stays");
            source.compact();
            source.break_watches(Break::expired());
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(informer.state().is_synced(), "{:?}", informer.state());
            put("good", None);
            source.remove(&key(what));
            settle().await;
        }
        assert_eq!((informer.lister().len(), shown(&informer).len()), (1, 0));
        let received = std::iter::from_fn(|| events.try_next()).map(|event| event.object().metadata.name.clone());
        assert_eq!(received.filter(|name| name != "good").collect::<Vec<_>>(), [""; 0], "no event of these objects");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_index_function_does_not_affect_other_indices() {
    let source = pods(&["a"]);
    source.put(pod("b", "bad"));
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let (reported, memory) = (errors.clone(), InMemoryProvider::new());
    let config = InformerConfig {
        on_error: Some(Box::new(move |error| reported.lock().unwrap().push(error.to_string()))),
        metrics: Some(Arc::new(memory.clone())),
        ..InformerConfig::default()
    };
    let informer = SharedInformer::new(source.clone(), config);
    by_node(&informer).unwrap();
    informer.add_index("name", |pod: &Pod| vec![pod.metadata.name.clone()]).unwrap();
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let error = |name: &str| {
        let function = r#"the function of the index "node""#;
        format!("cannot index ns/{name}: {function} panicked: assertion `left != right` failed: wanted")
    };
    let check_errors = |expected: &[&str]| {
        let errors = std::mem::take(&mut *errors.lock().unwrap());
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (found, name) in errors.iter().zip(expected) {
            assert!(found.starts_with(&error(name)), "{found}");
        }
    };
    assert_eq!(drain_sorted(&mut events).await, ["A! a@1", "A! b@2"]);
    assert!(shown(&informer).is_empty() && informer.state().is_synced());
    let lister = informer.lister();
    assert_eq!((lister.len(), lister.by_index("name", "b").unwrap().len()), (2, 1));
    assert_eq!(lister.by_index("node", "").unwrap().len(), 1, "not b");
    check_errors(&["b"]);

    source.put(pod("a", "bad"));
    assert_eq!(drain(&mut events).await, ["U a@1..3"]);
    assert_eq!(lister.get(&key("a")).unwrap().node, "bad");
    assert!(lister.by_index("node", "").unwrap().is_empty() && shown(&informer).is_empty());
    check_errors(&["a"]);
    assert_eq!(memory.value("informer_index_failures_total", &[("index", "node")]), Some(2.0));

    source.put(pod("a", "good"));
    assert_eq!(drain(&mut events).await, ["U a@3..4"]);
    assert_eq!(lister.by_index("node", "good").unwrap().len(), 1);
    source.remove(&key("b"));
    assert_eq!(drain(&mut events).await, ["D b@5"]);
    check_errors(&[]);
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_does_not_end_the_informer() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("wanted");
        }
    }
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let waker = Waker::from(Arc::new(Panics));
    let mut context = Context::from_waker(&waker);
    let (mut events, mut states) = (informer.subscribe(), informer.states());
    let mut synced = events.sync_handle();
    let (mut events, lister) = (pin!(events.next()), informer.lister());
    let (mut states, mut synced) = (pin!(states.changed()), pin!(synced.synced()));
    let mut revision = pin!(lister.wait_for("1"));
    assert!(events.as_mut().poll(&mut context).is_pending());
    assert!(states.as_mut().poll(&mut context).is_pending());
    assert!(synced.as_mut().poll(&mut context).is_pending());
    assert!(revision.as_mut().poll(&mut context).is_pending());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    source.put(pod("b", ""));
    settle().await;
    assert_eq!((informer.lister().len(), informer.state().is_synced()), (2, true), "{:?}", informer.state());
}

#[tokio::test(start_paused = true)]
async fn index_function_is_called_once_per_object_state() {
    let source = pods(&["a"]);
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let index = move |pod: &Pod| {
        counted.fetch_add(1, Ordering::Relaxed);
        vec![pod.node.clone()]
    };
    informer.add_index("node", index).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    source.put(pod("a", "x"));
    source.put(pod("b", ""));
    settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), 3, "one call for each state");
}

#[tokio::test(start_paused = true)]
async fn index_panicking_on_existing_objects_is_not_added() {
    let source = pods(&["a"]);
    source.put(pod("b", "bad"));
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let Err(AddIndexError::Failed(error)) = by_node(&informer) else { panic!("the index was added") };
    assert_eq!(error.key, key("b"));
    assert!(informer.lister().by_index("node", "").is_err());
    source.put(pod("c", "bad"));
    settle().await;
    assert_eq!((informer.lister().len(), informer.state().is_synced()), (3, true), "nothing else changed");
}

#[tokio::test(start_paused = true)]
async fn panicking_source_ends_its_informer_with_the_message() {
    let sources: [(bool, fn() -> Scripted); 4] = [
        (false, || Scripted::new(|| panic!("wanted"), || Ok(silence()))),
        (false, || Scripted::new(|| Ok(Box::new(std::iter::from_fn(|| panic!("wanted")))), || Ok(silence()))),
        (true, || Scripted::new(|| Ok(list(&[], "1")), || panic!("wanted"))),
        (true, || Scripted::new(|| Ok(list(&[], "1")), || Ok(Box::new(std::iter::from_fn(|| panic!("wanted")))))),
    ];
    for (has_synced, source) in sources {
        let factory = InformerFactory::new();
        let config = || InformerConfig { name: "web".into(), ..InformerConfig::default() };
        let informer = factory.informer(source(), config());
        let mut events = informer.subscribe();
        let mut handler = informer.add_event_handler(|_: &ResourceEvent<Pod>| {});
        factory.start();
        assert!(events.next().await.is_none());
        assert_eq!(handler.synced().await, has_synced);
        let state = informer.state();
        assert!(
            matches!(&state, InformerState::Stopped { cause: StopCause::Panicked { message } } if message == "wanted"),
            "{state:?}"
        );
        assert!(state.has_ended() && informer.has_synced() == has_synced);
        let error = factory.wait_for_sync().await.unwrap_err().to_string();
        assert_eq!(error, r#"the informer "web" has ended: it panicked: wanted"#);
        informer.lister().wait_for("9").await.unwrap_err();
        let another = factory.informer(source(), config());
        assert!(matches!(another.state(), InformerState::Starting), "the next caller gets a new informer");
        informer.shutdown().await;
        assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::Panicked { .. } }));
    }
}
