//! Tests that a replay returns the recorded responses.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use pintle_informer::{Compact, InformerConfig, Namespaces, ReflectorConfig, SharedInformer, Subscription};
use pintle_meta::{
    ApiResource, Bookmark, ErrorKind, ListOptions, ListPart, ListWatch, ObjectMeta, Oversized, PartialObject,
    RawObject, Reason, Scope, WatchEvent,
};
use pintle_recorder::{Recorder, Recording};
use pintle_testing::{Break, Collection, CollectionConfig, Outcome, Verb};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::log::Log;
use crate::support::scripted::{Items, Scripted, raw};
use crate::support::{Pod, cut, failure, key, pod, pods, refused, shorthand};

const LARGE: u64 = 1 << 30;

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn config(streaming_list: bool) -> InformerConfig<Pod> {
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    InformerConfig { reflector, seed: Some(7), ..InformerConfig::default() }
}

async fn timed_events(mut events: Subscription<Pod>, lasts: Duration) -> Vec<String> {
    let (began, mut received) = (Instant::now(), Vec::new());
    while let Ok(Some(event)) = tokio::time::timeout_at(began + lasts, events.next()).await {
        received.push(format!("{} s: {}", began.elapsed().as_secs(), shorthand(&event)));
    }
    received
}

async fn incident(source: Collection<Pod>) {
    let pause = || tokio::time::sleep(Duration::from_secs(5));
    pause().await;
    source.put(pod("c", "x"));
    source.break_watches(Break::Fails(cut()));
    pause().await;
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": "d"}, "node": 7}));
    source.remove(&key("a"));
    source.faults().next_of(Verb::Watch, [Outcome::Fails(refused()), Outcome::AnswerSlow(Duration::from_secs(2))]);
    source.break_watches(Break::End);
    pause().await;
    source.break_watches(Break::Silent);
    source.put(pod("e", "y"));
    source.compact();
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(403, Reason::Forbidden))]);
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(100)).await;
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": "d"}, "node": "z"}));
}

#[tokio::test(start_paused = true)]
async fn replay_repeats_a_recorded_incident_with_its_timing() {
    for streaming_list in [false, true] {
        let (directory, source) = (Directory::new(), pods(&["a", "b"]));
        let file = directory.file("incident");
        let lasts = Duration::from_secs(200);
        let recorder = Recorder::create(source.clone(), &file, LARGE).unwrap();
        let written = recorder.written();
        let informer = SharedInformer::new(recorder, config(streaming_list));
        let events = informer.subscribe();
        informer.start();
        let (first, ()) = tokio::join!(timed_events(events, lasts), incident(source.clone()));
        assert!(first.len() == 6 && first[2].starts_with("5 s: A c"), "{first:?}");
        assert!(first.last().unwrap().starts_with("115 s: A d"), "{first:?}");
        let cached = informer.lister().list();
        informer.shutdown().await;
        written.await.unwrap();

        let informer = SharedInformer::new(Recording::<Pod>::open(&file).unwrap(), config(streaming_list));
        let events = informer.subscribe();
        informer.start();
        assert_eq!(timed_events(events, lasts).await, first);
        assert!(cached.iter().all(|pod| informer.lister().list().iter().any(|replayed| replayed == pod)));
        assert_eq!((informer.lister().len(), informer.resource().plural.as_str()), (cached.len(), "pods"));
    }
}

async fn of_namespaces<L: ListWatch<Object = Pod>>(
    source: impl Fn(Option<&str>) -> L + Send + 'static,
    incident: impl Future<Output = ()>,
) -> Vec<String> {
    let pause = || tokio::time::sleep(Duration::from_secs(10));
    let namespaces = Namespaces::new(["a", "b"]);
    let informer = SharedInformer::of_namespaces(&namespaces, source, config(false));
    let events = informer.subscribe();
    informer.start();
    let changes = async {
        pause().await;
        namespaces.set(["b", "c"]);
        pause().await;
        namespaces.set_all();
        pause().await;
        namespaces.set(["a"]);
    };
    let (mut events, (), ()) = tokio::join!(timed_events(events, Duration::from_secs(60)), changes, incident);
    informer.shutdown().await;
    // Sort the events, because the order of events from different namespaces is undefined.
    events.sort();
    events
}

#[tokio::test(start_paused = true)]
async fn one_recording_replays_several_namespaces() {
    let pod = |namespace: &str, name: &str| Pod { metadata: ObjectMeta::new(namespace, name), node: String::new() };
    for first in [None, Some("b")] {
        let directory = Directory::new();
        let file = directory.file("namespaces");
        let source: Collection<Pod> = ["a", "b", "c"].iter().map(|name| pod(name, name)).collect();
        let clients = source.clone();
        let client = move |namespace: Option<&str>| match namespace {
            Some(namespace) => clients.client("").in_namespace(namespace),
            None => clients.client(""),
        };
        let recorder = Recorder::create(client(first), &file, LARGE).unwrap();
        let written = recorder.written();
        let incident = async {
            for (at, namespace) in ["a", "b", "b", "c", "a", "c", "a", "b"].iter().enumerate() {
                tokio::time::sleep(Duration::from_secs(6)).await;
                source.put(pod(namespace, &format!("late-{at}")));
                source.break_watches(Break::Fails(cut()));
            }
        };
        let received = of_namespaces(move |namespace| recorder.record(client(namespace)), incident).await;
        let count = |what: &str| received.iter().filter(|line| line.contains(what)).count();
        assert!(
            count("A! a@1") == 1 && count("A c@3") == 1 && count("late-") > 8 && count("D? b@2") == 1,
            "{received:?}"
        );
        written.await.unwrap();

        let recording = Recording::<Pod>::open(&file).unwrap();
        assert_eq!(recording.namespace(), first);
        let again = of_namespaces(move |namespace| recording.in_namespace(namespace), async {}).await;
        assert_eq!(again, received);
    }
}

#[tokio::test]
#[should_panic(expected = "a recording of v1/pods cannot contain v1/secrets")]
async fn recorder_for_another_resource_panics() {
    let directory = Directory::new();
    let of = |kind: &str, plural: &str| {
        let resource = ApiResource::new("v1", kind, plural, Scope::Namespaced);
        Collection::<PartialObject>::dynamic(resource, CollectionConfig::default())
    };
    let recorder = Recorder::create(of("Pod", "pods"), directory.file("pods"), LARGE).unwrap();
    recorder.record(of("Pod", "pods"));
    recorder.record(of("Secret", "secrets"));
}

fn every_entry_type() -> Scripted {
    let found = Oversized { key: Some(key("big")), uid: "u".into(), resource_version: "5".into(), size: 70, limit: 50 };
    let list = move || {
        let items = [ListPart::Item(raw(&json!({"metadata": {"name": "a"}}))), ListPart::Item(found.clone().into())];
        let metadata = pintle_meta::ListMeta { resource_version: "7".into(), ..Default::default() };
        Ok(Box::new(items.into_iter().chain([ListPart::Metadata(metadata)])) as Items<_>)
    };
    let object = || RawObject::from(bytes::Bytes::from_static(b"{\"metadata\":\n{\"name\":\"a\xff\"}}"));
    let bookmark = |end| Bookmark { resource_version: "9".into(), initial_events_end: end };
    let watch = move || {
        let status = pintle_meta::Status::failure(410, Reason::Expired, "too old");
        let events = [
            WatchEvent::Added(object()),
            WatchEvent::Modified(Oversized { size: 70, limit: 50, ..Oversized::default() }.into()),
            WatchEvent::Deleted(object()),
            WatchEvent::Bookmark(bookmark(false)),
            WatchEvent::Bookmark(bookmark(true)),
            WatchEvent::Error(status.into()),
        ];
        Ok(Box::new(events.into_iter()) as Items<_>)
    };
    Scripted::new(list, watch)
}

async fn received<L: ListWatch>(source: &L) -> (Vec<ListPart>, Vec<WatchEvent<RawObject>>) {
    let mut page = source.list(&Default::default()).await.unwrap();
    let mut parts = Vec::new();
    while let Some(part) = next(&mut page).await.unwrap() {
        parts.push(part.unwrap());
    }
    let (mut watch, mut events) = (source.watch(&Default::default()).await.unwrap(), Vec::new());
    while let Some(event) = next(&mut watch).await {
        events.push(event.unwrap().unwrap());
    }
    (parts, events)
}

async fn recorded(file: &Path) -> (Vec<ListPart>, Vec<WatchEvent<RawObject>>) {
    let recorder = Recorder::create(every_entry_type(), file, LARGE).unwrap();
    let (written, received) = (recorder.written(), received(&recorder).await);
    drop(recorder);
    written.await.unwrap();
    received
}

/// Returns the next item of a stream, or `None` if the stream is silent.
async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<Option<S::Item>> {
    let next = std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context));
    tokio::time::timeout(Duration::from_secs(1000), next).await.ok()
}

#[tokio::test(start_paused = true)]
async fn replay_repeats_all_kinds_of_responses() {
    let directory = Directory::new();
    let file = directory.file("all");
    let first = recorded(&file).await;
    assert_eq!((first.0.len(), first.1.len()), (3, 6));
    let recording = Recording::<Pod>::open(&file).unwrap();
    assert_eq!((recording.api_resource(), recording.namespace()), (every_entry_type().api_resource(), Some("ns")));
    assert_eq!(received(&recording).await, first);
}

#[tokio::test(start_paused = true)]
async fn recording_is_readable_text_only_for_its_owner() {
    let directory = Directory::new();
    let file = directory.file("lines");
    let pod = raw(&json!({"metadata": {"name": "a"}}));
    let list = move || Ok(Box::new([ListPart::Item(pod.clone())].into_iter()) as Items<_>);
    let recorder = Recorder::create(Scripted::new(list, || Err(cut())), &file, LARGE).unwrap();
    let mut page = recorder.list(&Default::default()).await.unwrap();
    while next(&mut page).await.unwrap().is_some() {}
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(recorder.watch(&Default::default()).await.is_err());
    let written = recorder.written();
    drop((page, recorder));
    written.await.unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let starts = ["0 0 SOURCE ", "{\"apiVersion\":\"v1\",", "0 1 LIST ", "{", "0 1 OPENED 0", "", "0 1 ITEM 25"];
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} {start:?}");
    }
    assert_eq!(lines[7..10], ["{\"metadata\":{\"name\":\"a\"}}", "0 1 END 0", ""]);
    assert!(lines[10].starts_with("2000000 2 WATCH ") && lines[12].starts_with("2000000 2 FAILED "), "{lines:?}");
    assert!(lines[13].contains("\"kind\":\"Transport\"") && lines.len() == 14, "{lines:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
    }
    assert!(Recorder::create(pods(&[]), &file, LARGE).is_err(), "a recording is never overwritten");
}

#[tokio::test(start_paused = true)]
async fn recording_stops_at_its_limit_and_informer_continues() {
    let directory = Directory::new();
    let (log, _here) = Log::here();
    for limit in [0, 100, 1_000, 5_000] {
        let file = directory.file(&limit.to_string());
        let source = pods(&[]);
        let recorder = Recorder::create(source.clone(), &file, limit).unwrap();
        let complete = recorder.written();
        let informer = SharedInformer::new(recorder, config(false));
        informer.start();
        informer.wait_for_sync().await.unwrap();
        for number in 0..100 {
            source.put(pod(&format!("pod-{number}"), ""));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(informer.lister().len(), 100);
        informer.shutdown().await;
        complete.await.unwrap();
        let written = fs::read(&file).unwrap();
        assert!(written.len() as u64 <= limit.max(64), "{}", written.len());
        assert!(written.ends_with(b" 0 FULL 0\n\n"), "{}", String::from_utf8_lossy(&written));
        if limit == 5_000 {
            let informer = SharedInformer::new(Recording::<Pod>::open(&file).unwrap(), config(false));
            informer.start();
            informer.wait_for_sync().await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!((10..90).contains(&informer.lister().len()), "{}", informer.lister().len());
        }
    }
    assert_eq!(log.count("has reached its size limit"), 4);
}

#[tokio::test(start_paused = true)]
async fn replay_rejects_requests_of_another_kind() {
    let directory = Directory::new();
    let file = directory.file("other");
    let recorder = Recorder::create(pods(&["a"]), &file, LARGE).unwrap();
    let written = recorder.written();
    let informer = SharedInformer::new(recorder, config(true));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer.shutdown().await;
    written.await.unwrap();
    let informer = SharedInformer::new(Recording::<Pod>::open(&file).unwrap(), config(false));
    informer.start();
    let state = informer.states().wait_for(|state| state.cause().is_some()).await.unwrap();
    let cause = state.cause().unwrap().to_string();
    assert!(cause.contains("a list was requested, but the recording continues with a watch"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn recording_of_compact_objects_contains_their_json() {
    let directory = Directory::new();
    let file = directory.file("pods");
    let source = Collection::from([Compact::new(&pod("a", "x")).unwrap()]);
    let recorder = Recorder::create(source, &file, LARGE).unwrap();
    let written = recorder.written();
    let informer = SharedInformer::new(recorder, InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer.shutdown().await;
    written.await.unwrap();
    // Replay the recording as compact objects, and compare them with plain objects.
    let replayed = SharedInformer::new(Recording::<Compact<Pod>>::open(&file).unwrap(), InformerConfig::default());
    replayed.start();
    replayed.wait_for_sync().await.unwrap();
    assert_eq!(replayed.lister().get(&key("a")).unwrap().get().unwrap().node, "x");
    let plain = SharedInformer::new(Recording::<Pod>::open(&file).unwrap(), InformerConfig::default());
    plain.start();
    plain.wait_for_sync().await.unwrap();
    assert_eq!(plain.lister().get(&key("a")).unwrap().node, "x");
}

/// Returns a recording that contains every type of entry.
fn written(directory: &Directory) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let file = directory.file("written");
    runtime.block_on(recorded(&file));
    fs::read(file).unwrap()
}

fn is_read(file: &Path, bytes: &[u8]) -> bool {
    fs::write(file, bytes).unwrap();
    Recording::<Pod>::open(file).is_ok()
}

#[test]
fn truncated_recording_replays_its_complete_entries() {
    let directory = Directory::new();
    let whole = written(&directory);
    let first = whole.split(|byte| *byte == b'\n').take(2).map(|line| line.len() + 1).sum::<usize>();
    for end in 0..whole.len() {
        assert_eq!(is_read(&directory.file("cut"), &whole[..end]), end >= first, "{end}");
    }
    for not_one in ["", "hello\n", "0 0 SOURCE 2\n{}\n", "0 0 END 0\n\n", "0 0 SOURCE 99999999999999999999\n"] {
        assert!(!is_read(&directory.file("cut"), not_one.as_bytes()), "{not_one:?}");
    }
    assert!(!is_read(&directory.file("cut"), &[&whole[..first], b"0 1 NEWS 0\n\n"].concat()));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic_the_reader(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
    ) {
        let directory = Directory::new();
        let mut bytes = written(&directory);
        for (place, byte, puts_in) in edits {
            let at = place.index(bytes.len());
            if puts_in { bytes.insert(at, byte) } else { bytes[at] = byte }
        }
        is_read(&directory.file("edited"), &bytes);
    }
}

/// Entries must have ascending numbers and times, even if requests are concurrent.
#[test]
fn recorded_lines_are_ordered_by_number_and_time() {
    let directory = Directory::new();
    let file = directory.file("many");
    let recorder = Recorder::create(pods(&[]), &file, LARGE).unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..500 {
                        recorder.list(&ListOptions::default()).await.unwrap();
                    }
                });
            });
        }
    });
    let written = recorder.written();
    drop(recorder);
    runtime().block_on(written).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let requests: Vec<(u64, u64)> = text
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words.get(2) == Some(&"LIST"))
        .map(|words| (words[0].parse().unwrap(), words[1].parse().unwrap()))
        .collect();
    assert!(requests.is_sorted(), "by time");
    assert_eq!(requests.iter().map(|(_, number)| *number).collect::<Vec<_>>(), (1..=2000).collect::<Vec<_>>());
}

/// The reflector repeats the watch, because the server has not processed this watch. After any other failure, the
/// reflector would list.
#[tokio::test(start_paused = true)]
async fn unprocessed_watch_is_replayed_without_a_list() {
    let (directory, source) = (Directory::new(), pods(&["a"]));
    let file = directory.file("incident");
    let lasts = Duration::from_secs(60);
    let recorder = Recorder::create(source.clone(), &file, LARGE).unwrap();
    let written = recorder.written();
    let informer = SharedInformer::new(recorder, config(false));
    let events = informer.subscribe();
    informer.start();
    let incident = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refused = ErrorKind::Unprocessed(Arc::new(io::Error::other("refused stream")));
        source.faults().next_of(Verb::Watch, [Outcome::Fails(refused.into())]);
        source.break_watches(Break::End);
        for name in ["b", "c"] {
            tokio::time::sleep(Duration::from_secs(10)).await;
            source.put(pod(name, "x"));
        }
    };
    let (original, ()) = tokio::join!(timed_events(events, lasts), incident);
    informer.shutdown().await;
    written.await.unwrap();
    assert_eq!(original.len(), 3, "{original:?}");

    let informer = SharedInformer::new(Recording::<Pod>::open(&file).unwrap(), config(false));
    let events = informer.subscribe();
    informer.start();
    assert_eq!(timed_events(events, lasts).await, original);
}
