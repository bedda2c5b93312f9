//! Tests of watchers, logging and the fake recorder.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_events::{
    BroadcasterConfig, Event, EventBroadcaster, EventRecorder, EventSource, EventType, EventWatcher, FakeRecorder,
    ObjectReference,
};
use pintle_meta::ObjectMeta;
use pintle_testing::Collection;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

fn about(name: &str) -> ObjectReference {
    let (kind, api_version) = ("Pod".into(), "v1".into());
    ObjectReference { kind, api_version, namespace: "ns".into(), name: name.into(), ..ObjectReference::default() }
}

fn record_event(broadcaster: &EventBroadcaster, event_type: EventType, message: &str) {
    let recorder = broadcaster.recorder(EventSource { component: "tester".into(), host: String::new() });
    recorder.event(about("web"), event_type, "Told", message);
}

fn taken(watcher: &mut EventWatcher) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next()).map(|event| event.message.clone()).collect()
}

#[tokio::test]
async fn watcher_gets_filtered_events_in_order_then_end() {
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    record_event(&broadcaster, EventType::Warning, "too early");
    let mut all = broadcaster.watch(|_| true);
    let mut warnings = broadcaster.watch(|event| event.event_type == "Warning");
    record_event(&broadcaster, EventType::Normal, "one");
    record_event(&broadcaster, EventType::Warning, "two");
    let recorder = broadcaster.recorder(EventSource::default());
    broadcaster.shutdown(Duration::from_secs(5)).await;
    recorder.event(about("web"), EventType::Warning, "Late", "too late");
    assert_eq!(all.next().await.unwrap().message, "one");
    assert_eq!(all.next().await.unwrap().message, "two");
    assert!(all.next().await.is_none());
    assert_eq!(warnings.next().await.unwrap().message, "two");
    assert!(warnings.next().await.is_none());
}

#[tokio::test]
async fn slow_or_dropped_watcher_does_not_affect_others() {
    let broadcaster = EventBroadcaster::new(BroadcasterConfig { queue: 2, ..BroadcasterConfig::default() });
    let mut slow = broadcaster.watch(|_| true);
    let mut quick = broadcaster.watch(|_| true);
    let gone = broadcaster.watch(|_| panic!("the filter of a dropped watcher must not run"));
    drop(gone);
    let mut quick_got = Vec::new();
    for message in ["one", "two", "three", "four", "five"] {
        record_event(&broadcaster, EventType::Normal, message);
        quick_got.extend(taken(&mut quick));
    }
    assert_eq!(quick_got, ["one", "two", "three", "four", "five"]);
    assert_eq!((taken(&mut slow), slow.dropped(), quick.dropped()), (vec!["one".into(), "two".into()], 3, 0));
}

#[tokio::test]
async fn panicking_filter_drops_event_only_for_its_watcher() {
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    let mut broken = broadcaster.watch(|event| {
        assert!(event.message != "bad", "an expected failure");
        true
    });
    let mut other = broadcaster.watch(|_| true);
    ["good", "bad", "better"].iter().for_each(|message| record_event(&broadcaster, EventType::Normal, message));
    assert_eq!((taken(&mut broken), broken.dropped()), (vec!["good".into(), "better".into()], 1));
    assert_eq!(taken(&mut other), ["good", "bad", "better"]);
}

#[tokio::test(start_paused = true)]
async fn sinks_watchers_and_log_each_get_thousand_events() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (one, other) = (Collection::<Event>::default(), Collection::<Event>::default());
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    broadcaster.start_recording_to_sink(one.clone());
    broadcaster.start_recording_to_sink(other.clone());
    broadcaster.start_logging();
    let mut watcher = broadcaster.watch(|_| true);
    let recorder = broadcaster.recorder(EventSource::default());
    for index in 0..1_000 {
        recorder.event(about(&format!("pod-{index}")), EventType::Normal, "Told", format!("message {index}"));
    }
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.recorded, counts.created, counts.dropped), (2_000, 2_000, 0), "once for each sink");
    assert_eq!((one.objects().len(), other.objects().len(), taken(&mut watcher).len()), (1_000, 1_000, 1_000));
    let lines = log.0.lock().unwrap();
    assert_eq!(lines.len(), 1_000);
    let line = &lines[7];
    for part in ["Event occurred", "object=ns/pod-7", "kind=\"Pod\"", "reason=\"Told\"", "message=\"message 7\""] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

/// Dropping a filter drops its captured values, which can run user code.
#[test]
fn filter_may_record_an_event_when_dropped() {
    struct Last(EventRecorder);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.event(about("web"), EventType::Normal, "Gone", "m");
        }
    }
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
        let last = Last(broadcaster.recorder(EventSource::default()));
        let watcher = broadcaster.watch(move |_| format!("{:?}", last.0).is_empty());
        drop(broadcaster);
        drop(watcher);
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(10)).expect("the test timed out");
}

#[tokio::test]
async fn maximum_queue_length_is_accepted() {
    let broadcaster = EventBroadcaster::new(BroadcasterConfig { queue: usize::MAX, ..BroadcasterConfig::default() });
    let server = Collection::<Event>::default();
    broadcaster.start_recording_to_sink(server.clone());
    broadcaster.start_recording_series_to_sink(Collection::default(), server.clone());
    let (mut watcher, mut fake) = (broadcaster.watch(|_| true), FakeRecorder::new(usize::MAX));
    record_event(&broadcaster, EventType::Normal, "m");
    fake.recorder().event(about("web"), EventType::Normal, "Told", "m");
    assert_eq!((taken(&mut watcher).len(), fake.take().len()), (1, 1));
    assert_eq!(broadcaster.shutdown(Duration::from_secs(5)).await.created, 2);
    assert_eq!(server.objects().len(), 1);
}

#[test]
fn fake_keeps_events_and_formats_them_as_client_go() {
    let mut fake = FakeRecorder::new(2);
    let recorder = fake.recorder();
    recorder.event(about("web"), EventType::Normal, "Started", "Started {} 100%");
    let annotations = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into();
    let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
    recorder.record(Event { metadata, reason: "Failed".into(), event_type: "Warning".into(), ..Event::default() });
    recorder.event(about("web"), EventType::Normal, "Lost", "there is no room");
    assert_eq!(fake.dropped(), 1);
    let events = fake.take();
    assert_eq!(events[0].to_string(), "Normal Started Started {} 100%");
    assert_eq!(format!("{:#}", events[0]), "Normal Started Started {} 100% involvedObject{kind=Pod,apiVersion=v1}");
    assert_eq!(events[1].to_string(), "Warning Failed  map[a:1 b:2]");
    recorder.event(about("web"), EventType::Normal, "Again", "there is room");
    assert_eq!(fake.take().len(), 1);
}

/// A subscriber that collects log lines of level INFO.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == &tracing::Level::INFO
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
