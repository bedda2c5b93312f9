//! From a recorder to the server, which fails as told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource, EventType, ObjectReference};
use pintle_meta::{ApiError, DeleteOptions, Object, ObjectApi, ObjectKey, Patch, PostOptions, Reason, Status};

#[derive(Clone, Debug, Default)]
struct Server(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    events: BTreeMap<ObjectKey, Event>,
    tries: BTreeMap<String, u32>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The first so many tries of each message find no connection.
    Unreachable {
        tries: u32,
    },
    Refused,
    Invalid,
    Silent,
}

impl Server {
    fn failing(fault: Fault) -> Self {
        let server = Self::default();
        server.0.lock().unwrap().fault = Some(fault);
        server
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().events.values().cloned().collect()
    }

    fn tries(&self, message: &str) -> u32 {
        self.0.lock().unwrap().tries.get(message).copied().unwrap_or(0)
    }

    async fn meet(&self, message: &str) -> Result<(), ApiError> {
        let (fault, nth) = {
            let mut inner = self.0.lock().unwrap();
            let nth = inner.tries.entry(message.to_owned()).or_default();
            *nth += 1;
            let nth = *nth;
            (inner.fault, nth)
        };
        match fault {
            Some(Fault::Unreachable { tries }) if nth <= tries => Err(ApiError::transport("as the test wants it")),
            Some(Fault::Refused) => Err(Status::failure(500, Reason::InternalError, "as told").into()),
            Some(Fault::Invalid) => Err(ApiError::invalid_request("as the test wants it")),
            Some(Fault::Silent) => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

impl ObjectApi<Event> for Server {
    async fn get(&self, _: &ObjectKey) -> Result<Event, ApiError> {
        panic!("a recorder reads")
    }

    async fn create(&self, event: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        self.meet(&event.message).await?;
        assert!(event.resource_version().is_empty(), "a create with a resourceVersion");
        self.0.lock().unwrap().events.insert(event.key(), event.clone());
        Ok(event.clone())
    }

    async fn update(&self, _: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        panic!("a recorder updates")
    }

    async fn update_status(&self, _: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        panic!("a recorder updates")
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, _: &PostOptions) -> Result<Event, ApiError> {
        let Patch::Merge(patch) = patch else { panic!("not a merge patch") };
        self.meet(patch["message"].as_str().unwrap()).await?;
        let mut inner = self.0.lock().unwrap();
        let Some(event) = inner.events.get_mut(key) else {
            return Err(Status::failure(404, Reason::NotFound, "expired").into());
        };
        event.count = patch["count"].as_i64().unwrap() as i32;
        Ok(event.clone())
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteOptions) -> Result<(), ApiError> {
        panic!("a recorder deletes")
    }
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
    let server = Server::default();
    let broadcaster = EventBroadcaster::start(server.clone());
    (0..3).for_each(|_| tell(&broadcaster, "web", "again"));
    tell(&broadcaster, "web", "other");
    pass(1).await;
    let counts: Vec<_> = server.events().iter().map(|event| (event.message.clone(), event.count)).collect();
    assert_eq!(counts, [("again".into(), 3), ("other".into(), 1)]);
    let metrics = broadcaster.metrics();
    assert_eq!((metrics.recorded, metrics.created, metrics.patched), (4, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_again_with_its_count() {
    let server = Server::default();
    let broadcaster = EventBroadcaster::start(server.clone());
    tell(&broadcaster, "web", "again");
    pass(1).await;
    server.0.lock().unwrap().events.clear();
    tell(&broadcaster, "web", "again");
    pass(1).await;
    assert_eq!(server.events()[0].count, 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_cannot_be_reached_is_tried_again() {
    for (fault, tries, failed) in [
        (Fault::Invalid, 1, 1),
        (Fault::Refused, 1, 1),
        (Fault::Unreachable { tries: 99 }, 12, 1),
        (Fault::Unreachable { tries: 1 }, 2, 0),
    ] {
        let server = Server::failing(fault);
        let broadcaster = EventBroadcaster::start(server.clone());
        tell(&broadcaster, "web", "hello");
        pass(200).await;
        assert_eq!((server.tries("hello"), broadcaster.metrics().failed), (tries, failed), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_events_wait_for_a_server_that_comes_back() {
    let server = Server::failing(Fault::Unreachable { tries: 4 });
    let broadcaster = EventBroadcaster::start(server.clone());
    (0..1_000).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), &format!("message {index}")));
    pass(50_000).await;
    let metrics = broadcaster.metrics();
    assert_eq!((metrics.created, metrics.dropped, metrics.failed), (1_000, 0, 0));
    assert!((0..1_000).all(|index| server.tries(&format!("message {index}")) == 5));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_blocks() {
    let server = Server::failing(Fault::Silent);
    let config = BroadcasterConfig { queue: 10, ..BroadcasterConfig::default() };
    let broadcaster = EventBroadcaster::start_with(server, config);
    (0..25).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), "m"));
    pass(1).await;
    assert_eq!(broadcaster.metrics().dropped, 15);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_what_waits() {
    let server = Server::default();
    let broadcaster = EventBroadcaster::start(server.clone());
    let recorder = broadcaster.recorder(EventSource::default());
    (0..20).for_each(|index| tell(&broadcaster, &format!("pod-{index}"), "m"));
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.created, metrics.failed, server.events().len()), (20, 0, 20));
    // What comes too late is no one's any more, and harms nobody.
    recorder.event(about("late"), EventType::Normal, "Late", "m");
    assert_eq!(server.events().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_each_event_one_last_try_and_has_a_deadline() {
    let start = tokio::time::Instant::now();
    let server = Server::failing(Fault::Unreachable { tries: 99 });
    let broadcaster = EventBroadcaster::start(server.clone());
    ["a", "b", "c"].iter().for_each(|name| tell(&broadcaster, name, name));
    pass(30).await;
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.failed, start.elapsed().as_secs()), (3, 30), "it did not wait for a pause to end");
    assert_eq!((server.tries("b"), server.tries("c")), (1, 1));

    let broadcaster = EventBroadcaster::start(Server::failing(Fault::Silent));
    ["a", "b"].iter().for_each(|name| tell(&broadcaster, name, name));
    let start = tokio::time::Instant::now();
    let metrics = broadcaster.shutdown(Duration::from_secs(5)).await;
    assert_eq!((metrics.failed, start.elapsed().as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_broadcaster_ends_the_writing() {
    let server = Server::failing(Fault::Unreachable { tries: 99 });
    let broadcaster = EventBroadcaster::start(server.clone());
    tell(&broadcaster, "web", "m");
    pass(1).await;
    drop(broadcaster);
    let tries = server.tries("m");
    pass(600).await;
    assert_eq!(server.tries("m"), tries);
}

#[tokio::test(start_paused = true)]
async fn two_broadcasters_count_apart() {
    let (one, other) = (Server::default(), Server::default());
    let broadcasters = [EventBroadcaster::start(one.clone()), EventBroadcaster::start(other.clone())];
    tell(&broadcasters[0], "web", "m");
    tell(&broadcasters[0], "web", "m");
    tell(&broadcasters[1], "web", "m");
    pass(1).await;
    assert_eq!((one.events()[0].count, other.events()[0].count), (2, 1));
}
