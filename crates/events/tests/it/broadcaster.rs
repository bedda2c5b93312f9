//! From a recorder to the server, which fails as told.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource, EventType, ObjectReference};
use pintle_meta::{ApiError, Object, Patch, Reason};
use pintle_testing::{Call, Collection, Fault, Request};

/// A server that minds what it is asked.
fn server() -> Collection<Event> {
    failing(|_| None)
}

/// One to which happens what `fault` says of the nth try of each message, from 1.
fn failing(fault: impl Fn(u32) -> Option<Fault> + Send + Sync + 'static) -> Collection<Event> {
    let server = Collection::new();
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

/// The first so many tries of each message find no connection.
fn unreachable(tries: u32) -> impl Fn(u32) -> Option<Fault> + Send + Sync {
    move |nth| (nth <= tries).then(|| Fault::Fails(ApiError::transport("as the test wants it")))
}

fn silent(_: u32) -> Option<Fault> {
    Some(Fault::Lost)
}

/// What an event says that is sent.
fn message(request: &Request) -> String {
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

/// How often each message was sent.
fn tries(server: &Collection<Event>) -> BTreeMap<String, u32> {
    let mut tries = BTreeMap::new();
    server.requests().iter().for_each(|request| *tries.entry(message(request)).or_default() += 1);
    tries
}

fn about(name: &str) -> ObjectReference {
    ObjectReference { kind: "Pod".into(), namespace: "ns".into(), name: name.into(), ..ObjectReference::default() }
}

fn tell(broadcaster: &EventBroadcaster, object: &str, message: &str) {
    let recorder = broadcaster.recorder(EventSource { component: "tester".into(), host: String::new() });
    recorder.event(about(object), EventType::Normal, "Told", message);
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_created_and_repetitions_counted() {
    let server = server();
    let broadcaster = EventBroadcaster::start(server.clone());
    (0..3).for_each(|_| tell(&broadcaster, "web", "again"));
    tell(&broadcaster, "web", "other");
    pass(1).await;
    let counts: Vec<_> = server.objects().iter().map(|event| (event.message.clone(), event.count)).collect();
    assert_eq!(counts, [("again".into(), 3), ("other".into(), 1)]);
    let metrics = broadcaster.metrics();
    assert_eq!((metrics.recorded, metrics.created, metrics.patched), (4, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_again_with_its_count() {
    let server = server();
    let broadcaster = EventBroadcaster::start(server.clone());
    tell(&broadcaster, "web", "again");
    pass(1).await;
    server.objects().iter().for_each(|event| assert!(server.remove(&event.key())));
    tell(&broadcaster, "web", "again");
    pass(1).await;
    assert_eq!(server.objects()[0].count, 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_cannot_be_reached_is_tried_again() {
    let transport = || Fault::Fails(ApiError::transport("as the test wants it"));
    let invalid = || Fault::Fails(ApiError::invalid_request("as the test wants it"));
    let refused = || Fault::refused(500, Reason::InternalError);
    for (faults, expected, failed) in [
        (vec![invalid(); 99], 1, 1),
        (vec![refused(); 99], 1, 1),
        (vec![transport(); 99], 12, 1),
        (vec![transport()], 2, 0),
    ] {
        let told = format!("{:?}", faults[0]);
        let server = server();
        server.faults().next(faults);
        let broadcaster = EventBroadcaster::start(server.clone());
        tell(&broadcaster, "web", "hello");
        pass(200).await;
        assert_eq!((tries(&server)["hello"], broadcaster.metrics().failed), (expected, failed), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_events_wait_for_a_server_that_comes_back() {
    let server = failing(unreachable(4));
    let broadcaster = EventBroadcaster::start(server.clone());
    (0..1_000).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), &format!("message {index}")));
    pass(50_000).await;
    let metrics = broadcaster.metrics();
    assert_eq!((metrics.created, metrics.dropped, metrics.failed), (1_000, 0, 0));
    let tries = tries(&server);
    assert!((0..1_000).all(|index| tries[&format!("message {index}")] == 5));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_blocks() {
    let server = failing(silent);
    let config = BroadcasterConfig { queue: 10, ..BroadcasterConfig::default() };
    let broadcaster = EventBroadcaster::start_with(server, config);
    (0..25).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), "m"));
    pass(1).await;
    assert_eq!(broadcaster.metrics().dropped, 15);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_what_waits() {
    let server = server();
    let broadcaster = EventBroadcaster::start(server.clone());
    let recorder = broadcaster.recorder(EventSource::default());
    (0..20).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), "m"));
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.created, metrics.failed, server.objects().len()), (20, 0, 20));
    // What comes too late is no one's any more, and harms nobody.
    recorder.event(about("late"), EventType::Normal, "Late", "m");
    assert_eq!(server.objects().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_each_event_one_last_try_and_has_a_deadline() {
    let start = tokio::time::Instant::now();
    let server = failing(unreachable(99));
    let broadcaster = EventBroadcaster::start(server.clone());
    ["a", "b", "c"].iter().for_each(|name| tell(&broadcaster, name, name));
    pass(30).await;
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.failed, start.elapsed().as_secs()), (3, 30), "it did not wait for a pause to end");
    assert_eq!((tries(&server)["b"], tries(&server)["c"]), (1, 1));

    let broadcaster = EventBroadcaster::start(failing(silent));
    ["a", "b"].iter().for_each(|name| tell(&broadcaster, name, name));
    let start = tokio::time::Instant::now();
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.failed, start.elapsed().as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_broadcaster_ends_the_writing() {
    let server = failing(unreachable(99));
    let broadcaster = EventBroadcaster::start(server.clone());
    tell(&broadcaster, "web", "m");
    pass(1).await;
    drop(broadcaster);
    let before = tries(&server)["m"];
    pass(600).await;
    assert_eq!(tries(&server)["m"], before);
}

#[tokio::test(start_paused = true)]
async fn two_broadcasters_count_apart() {
    let (one, other) = (server(), server());
    let broadcasters = [EventBroadcaster::start(one.clone()), EventBroadcaster::start(other.clone())];
    tell(&broadcasters[0], "web", "m");
    tell(&broadcasters[0], "web", "m");
    tell(&broadcasters[1], "web", "m");
    pass(1).await;
    assert_eq!((one.objects()[0].count, other.objects()[0].count), (2, 1));
}
