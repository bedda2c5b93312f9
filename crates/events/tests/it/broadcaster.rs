//! Tests of the broadcaster with scripted server failures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_events::{
    BroadcasterConfig, CorrelatorConfig, Event, EventBroadcaster, EventSource, EventType, ObjectReference,
};
use pintle_meta::{ApiError, Object, ObjectApi, Patch, Reason};
use pintle_metrics::InMemoryProvider;
use pintle_testing::{Call, Collection, Outcome, PanickingProvider, RecordedRequest};

fn server() -> Collection<Event> {
    failing(|_| None)
}

/// Creates a server that calls `fault` on each attempt to write an event. `fault` receives the number of
/// attempts to write this message so far, starting at 1.
fn failing(fault: impl Fn(u32) -> Option<Outcome> + Send + Sync + 'static) -> Collection<Event> {
    let server = Collection::default();
    let tries = Mutex::new(BTreeMap::new());
    server.faults().when(move |request| {
        let nth = {
            let mut tries = tries.lock().unwrap();
            let nth = tries.entry(message(request)).or_default();
            *nth += 1;
            *nth
        };
        fault(nth)
    });
    server
}

/// Returns a fault that makes the server unreachable for the first `tries` attempts per message.
fn unreachable(tries: u32) -> impl Fn(u32) -> Option<Outcome> + Send + Sync {
    move |nth| (nth <= tries).then(|| Outcome::Fails(ApiError::transport("an injected failure")))
}

fn silent(_: u32) -> Option<Outcome> {
    Some(Outcome::Lost)
}

fn message(request: &RecordedRequest) -> String {
    let body = match &request.call {
        Call::Create { object, .. } => {
            assert!(object["metadata"]["resourceVersion"].is_null(), "a create with a resourceVersion");
            object
        }
        Call::Patch { patch: Patch::Merge(patch), .. } => patch,
        other => panic!("a recorder sends {other}"),
    };
    body["message"].as_str().unwrap().into()
}

fn tries(server: &Collection<Event>) -> BTreeMap<String, u32> {
    let mut tries = BTreeMap::new();
    server.requests().iter().for_each(|request| *tries.entry(message(request)).or_default() += 1);
    tries
}

fn to_sink(api: impl ObjectApi<Event>, config: BroadcasterConfig) -> EventBroadcaster {
    let broadcaster = EventBroadcaster::new(config);
    broadcaster.start_recording_to_sink(api);
    broadcaster
}

fn with_metrics(api: impl ObjectApi<Event>, config: BroadcasterConfig) -> (EventBroadcaster, InMemoryProvider) {
    let memory = InMemoryProvider::new();
    (to_sink(api, BroadcasterConfig { metrics: Some(Arc::new(memory.clone())), ..config }), memory)
}

fn settled(memory: &InMemoryProvider, outcome: &str) -> Option<f64> {
    memory.value("event_broadcaster_settled_total", &[("outcome", outcome)])
}

fn about(name: &str) -> ObjectReference {
    ObjectReference { kind: "Pod".into(), namespace: "ns".into(), name: name.into(), ..ObjectReference::default() }
}

fn record_event(broadcaster: &EventBroadcaster, object: &str, message: &str) {
    let recorder = broadcaster.recorder(EventSource { component: "tester".into(), host: String::new() });
    recorder.event(about(object), EventType::Normal, "Told", message);
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_created_and_repetitions_patched() {
    let server = server();
    let (broadcaster, memory) = with_metrics(server.clone(), BroadcasterConfig::default());
    (0..3).for_each(|_| record_event(&broadcaster, "web", "again"));
    record_event(&broadcaster, "web", "other");
    pass(1).await;
    let counts: Vec<_> = server.objects().iter().map(|event| (event.message.clone(), event.count)).collect();
    assert_eq!(counts, [("again".into(), 3), ("other".into(), 1)]);
    assert_eq!(memory.value("event_broadcaster_recorded_total", &[]), Some(4.0));
    assert_eq!((settled(&memory, "created"), settled(&memory, "patched")), (Some(2.0), Some(2.0)));
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again_with_its_count() {
    let server = server();
    let broadcaster = to_sink(server.clone(), BroadcasterConfig::default());
    record_event(&broadcaster, "web", "again");
    pass(1).await;
    server.objects().iter().for_each(|event| assert!(server.remove(&event.key())));
    record_event(&broadcaster, "web", "again");
    pass(1).await;
    assert_eq!(server.objects()[0].count, 2);
}

#[tokio::test(start_paused = true)]
async fn writes_are_retried_only_if_server_is_unreachable() {
    let transport = || Outcome::Fails(ApiError::transport("an injected failure"));
    let invalid = || Outcome::Fails(ApiError::invalid_request("an injected failure"));
    let refused = || Outcome::refused(500, Reason::InternalError);
    for (faults, expected, failed) in [
        (vec![invalid(); 99], 1, 1.0),
        (vec![refused(); 99], 1, 1.0),
        (vec![transport(); 99], 12, 1.0),
        (vec![transport()], 2, 0.0),
    ] {
        let kind = format!("{:?}", faults[0]);
        let server = server();
        server.faults().next(faults);
        let (broadcaster, memory) = with_metrics(server.clone(), BroadcasterConfig::default());
        record_event(&broadcaster, "web", "hello");
        pass(200).await;
        assert_eq!((tries(&server)["hello"], settled(&memory, "failed")), (expected, Some(failed)), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn thousand_events_wait_for_the_server_to_return() {
    let server = failing(unreachable(4));
    let (broadcaster, memory) = with_metrics(server.clone(), BroadcasterConfig::default());
    (0..1_000).for_each(|index| record_event(&broadcaster, &format!("pod-{index}"), &format!("message {index}")));
    pass(50_000).await;
    let counts = ["created", "dropped", "failed"].map(|outcome| settled(&memory, outcome));
    assert_eq!(counts, [Some(1_000.0), Some(0.0), Some(0.0)]);
    let tries = tries(&server);
    assert!((0..1_000).all(|index| tries[&format!("message {index}")] == 5));
}

#[tokio::test(start_paused = true)]
async fn full_queue_drops_events_without_blocking() {
    let server = failing(silent);
    let config = BroadcasterConfig { queue: 10, ..BroadcasterConfig::default() };
    let (broadcaster, memory) = with_metrics(server, config);
    (0..25).for_each(|index| record_event(&broadcaster, &format!("pod-{index}"), "m"));
    pass(1).await;
    assert_eq!(settled(&memory, "dropped"), Some(15.0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_writes_queued_events() {
    let server = server();
    let broadcaster = to_sink(server.clone(), BroadcasterConfig::default());
    let recorder = broadcaster.recorder(EventSource::default());
    (0..20).for_each(|index| record_event(&broadcaster, &format!("pod-{index}"), "m"));
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.created, counts.failed, server.objects().len()), (20, 0, 20));
    recorder.event(about("late"), EventType::Normal, "Late", "m");
    assert_eq!(server.objects().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn shutdown_tries_each_event_once_before_its_deadline() {
    let start = tokio::time::Instant::now();
    let server = failing(unreachable(99));
    let broadcaster = to_sink(server.clone(), BroadcasterConfig::default());
    ["a", "b", "c"].iter().for_each(|name| record_event(&broadcaster, name, name));
    pass(30).await;
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.failed, start.elapsed().as_secs()), (3, 30), "the shutdown does not wait for a pause");
    assert_eq!((tries(&server)["b"], tries(&server)["c"]), (1, 1));

    let broadcaster = to_sink(failing(silent), BroadcasterConfig::default());
    ["a", "b"].iter().for_each(|name| record_event(&broadcaster, name, name));
    let start = tokio::time::Instant::now();
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.failed, start.elapsed().as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_broadcaster_stops_all_writes() {
    let server = failing(unreachable(99));
    let broadcaster = to_sink(server.clone(), BroadcasterConfig::default());
    record_event(&broadcaster, "web", "m");
    pass(1).await;
    drop(broadcaster);
    let before = tries(&server)["m"];
    pass(600).await;
    assert_eq!(tries(&server)["m"], before);
}

#[tokio::test(start_paused = true)]
async fn unwritten_events_count_as_failed_after_shutdown() {
    let (broadcaster, memory) = with_metrics(failing(silent), BroadcasterConfig::default());
    let _recorder = broadcaster.recorder(EventSource::default());
    ["a", "b"].iter().for_each(|name| record_event(&broadcaster, name, name));
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.failed, settled(&memory, "failed")), (2, Some(2.0)));
}

#[tokio::test(start_paused = true)]
async fn metrics_end_with_broadcaster_and_recorders() {
    let (broadcaster, memory) = with_metrics(server(), BroadcasterConfig::default());
    let recorder = broadcaster.recorder(EventSource::default());
    let samples = memory.samples();
    let found: Vec<_> = samples.iter().map(|sample| (sample.metric.name, sample.labels.concat())).collect();
    let expected = [
        ("event_broadcaster_combined_total", ""),
        ("event_broadcaster_recorded_total", ""),
        ("event_broadcaster_settled_total", "counted"),
        ("event_broadcaster_settled_total", "created"),
        ("event_broadcaster_settled_total", "dropped"),
        ("event_broadcaster_settled_total", "failed"),
        ("event_broadcaster_settled_total", "patched"),
        ("event_broadcaster_settled_total", "spam"),
    ];
    assert_eq!(found, expected.map(|(name, outcome)| (name, outcome.to_owned())));
    drop(broadcaster);
    pass(1).await;
    assert_eq!(memory.samples().len(), found.len(), "a recorder may still drop events");
    drop(recorder);
    assert!(memory.samples().is_empty());
}

#[tokio::test(start_paused = true)]
async fn broadcasters_have_separate_counts() {
    let (one, other) = (server(), server());
    let broadcasters =
        [to_sink(one.clone(), BroadcasterConfig::default()), to_sink(other.clone(), BroadcasterConfig::default())];
    record_event(&broadcasters[0], "web", "m");
    record_event(&broadcasters[0], "web", "m");
    record_event(&broadcasters[1], "web", "m");
    pass(1).await;
    assert_eq!((one.objects()[0].count, other.objects()[0].count), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn panicking_metrics_lose_no_event() {
    let server = server();
    let config = BroadcasterConfig { metrics: Some(Arc::new(PanickingProvider)), ..BroadcasterConfig::default() };
    let broadcaster = to_sink(server.clone(), config);
    (0..3).for_each(|nth| record_event(&broadcaster, "web", &format!("message {nth}")));
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counts.recorded, counts.created, server.objects().len()), (3, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn panicking_spam_key_loses_only_its_event() {
    let spam_key = |event: &Event| match &*event.message {
        "odd" => panic!("on purpose"),
        _ => event.reason.clone(),
    };
    let correlator = CorrelatorConfig { spam_key: Arc::new(spam_key), ..CorrelatorConfig::default() };
    let server = server();
    let broadcaster = to_sink(server.clone(), BroadcasterConfig { correlator, ..BroadcasterConfig::default() });
    ["one", "odd", "two"].iter().for_each(|message| record_event(&broadcaster, "web", message));
    let counts = broadcaster.shutdown(Duration::from_secs(10)).await;
    assert_eq!((counts.created, counts.failed, counts.dropped), (2, 1, 0));
    assert_eq!(tries(&server).into_keys().collect::<Vec<_>>(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn very_long_retry_pause_does_not_overflow() {
    let server = failing(unreachable(2));
    let config = BroadcasterConfig { retry_pause: Duration::MAX, ..BroadcasterConfig::default() };
    let broadcaster = to_sink(server.clone(), config);
    record_event(&broadcaster, "web", "hello");
    pass(1).await;
    assert_eq!(tries(&server)["hello"], 1);
    // The shutdown must end the pause between two attempts early.
    assert_eq!(broadcaster.shutdown(Duration::from_secs(5)).await.failed, 1);
    assert_eq!(tries(&server)["hello"], 2);
}

/// The server creates the event, but the first attempt gets no response.
#[tokio::test(start_paused = true)]
async fn event_created_by_earlier_attempt_is_not_a_failure() {
    let server = server();
    server.faults().next([Outcome::AnswerFails(ApiError::transport("an injected failure"))]);
    let (broadcaster, memory) = with_metrics(server.clone(), BroadcasterConfig::default());
    record_event(&broadcaster, "web", "again");
    pass(30).await;
    assert_eq!((settled(&memory, "created"), settled(&memory, "failed")), (Some(1.0), Some(0.0)));
    record_event(&broadcaster, "web", "again");
    pass(1).await;
    let counts: Vec<_> = server.objects().iter().map(|event| event.count).collect();
    assert_eq!(counts, [2], "repetitions are counted on the existing event");
}
