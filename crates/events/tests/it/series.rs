//! Tests of events on servers with and without the `events.k8s.io/v1` API.

use std::time::Duration;

use pintle_events::{
    BroadcasterConfig, Event, EventBroadcaster, EventCounts, EventRecorder, EventSource, EventType, ObjectReference,
    SeriesEvent,
};
use pintle_meta::{ApiError, Object, Reason, Status, StatusCause, StatusDetails};
use pintle_testing::{Collection, Outcome, Verb};

/// A broadcaster, and a server with a separate collection for each API group. The collections show in which
/// group each event was written.
struct Rig {
    new: Collection<SeriesEvent>,
    old: Collection<Event>,
    broadcaster: EventBroadcaster,
    recorder: EventRecorder,
}

impl Rig {
    fn new() -> Self {
        let (new, old) = (Collection::default(), Collection::default());
        let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
        broadcaster.start_recording_series_to_sink(new.clone(), old.clone());
        let recorder =
            broadcaster.recorder(EventSource { component: "example.com/tester".into(), host: String::new() });
        Self { new, old, broadcaster, recorder }
    }

    fn record_event(&self, message: &str) {
        self.recorder.event(about("web"), EventType::Normal, "Told", message);
    }

    fn stored(&self) -> Vec<(String, i32)> {
        let count = |event: &SeriesEvent| event.series.as_ref().map_or(1, |series| series.count);
        self.new.objects().iter().map(|event| (event.note.clone(), count(event))).collect()
    }

    async fn shutdown(self) -> EventCounts {
        self.broadcaster.shutdown(Duration::from_secs(5)).await
    }
}

fn about(name: &str) -> ObjectReference {
    ObjectReference { kind: "Pod".into(), namespace: "ns".into(), name: name.into(), ..ObjectReference::default() }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn second_event_starts_a_series_written_at_end() {
    let rig = Rig::new();
    (0..5).for_each(|nth| rig.record_event(&format!("message {nth}")));
    pass(1).await;
    assert_eq!(rig.stored(), [("message 0".into(), 2)]);
    let requests = rig.new.requests().len();
    pass(13 * 60).await;
    assert_eq!(rig.stored(), [("message 0".into(), 5)]);
    assert_eq!(rig.new.requests().len(), requests + 1);
    rig.record_event("later");
    pass(1).await;
    assert_eq!(rig.stored(), [("message 0".into(), 5), ("later".into(), 1)]);
    let counts = rig.shutdown().await;
    assert_eq!((counts.created, counts.patched, counts.counted, counts.failed), (2, 1, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn ongoing_series_is_written_every_half_hour() {
    let rig = Rig::new();
    for _ in 0..75 {
        rig.record_event("again");
        pass(60).await;
    }
    // The sink creates the event, turns it into a series, and updates this series twice.
    assert_eq!(rig.new.requests().len(), 4);
    assert!((65..=74).contains(&rig.stored()[0].1), "{:?}", rig.stored());
}

#[tokio::test(start_paused = true)]
async fn shutdown_writes_series_counts() {
    let rig = Rig::new();
    (0..5).for_each(|_| rig.record_event("again"));
    pass(1).await;
    let new = rig.new.clone();
    let counts = rig.shutdown().await;
    assert_eq!(new.objects()[0].series.as_ref().unwrap().count, 5);
    assert_eq!((counts.recorded, counts.failed), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn series_with_deleted_event_is_created_again() {
    let rig = Rig::new();
    rig.record_event("again");
    pass(1).await;
    assert!(rig.new.remove(&rig.new.objects()[0].key()));
    rig.record_event("again");
    pass(1).await;
    assert_eq!(rig.stored(), [("again".into(), 2)]);
}

/// The patch fails because the event does not exist. The create that follows fails because another client has
/// created the event.
#[tokio::test(start_paused = true)]
async fn existing_series_is_patched_on_retry() {
    let rig = Rig::new();
    rig.record_event("again");
    pass(1).await;
    rig.new.faults().next_of(Verb::Patch, [Outcome::refused(404, Reason::NotFound)]);
    rig.record_event("again");
    pass(30).await;
    assert_eq!(rig.stored(), [("again".into(), 2)]);
    assert_eq!(rig.shutdown().await.patched, 1);
}

#[tokio::test(start_paused = true)]
async fn server_without_events_api_gets_v1_events() {
    let rig = Rig::new();
    rig.new.faults().when(|_| Some(Outcome::refused(404, Reason::NotFound)));
    (0..3).for_each(|_| rig.record_event("again"));
    pass(1).await;
    assert_eq!((rig.old.objects()[0].message.as_str(), rig.old.objects()[0].count), ("again", 3));
    assert_eq!(rig.new.requests().len(), 1, "the API is tried once");
    let counts = rig.shutdown().await;
    assert_eq!((counts.created, counts.patched, counts.failed), (1, 2, 0));
}

/// Returns a 404 error whose response body is `text` instead of a `Status`.
fn page(text: &str) -> Outcome {
    let cause = StatusCause { reason: "UnexpectedServerResponse".into(), message: text.into(), ..<_>::default() };
    let details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
    Outcome::Fails(Status { details, ..Status::failure(404, Reason::NotFound, "not found") }.into())
}

/// kube-apiserver responds to requests for unknown API groups without a `Status`.
#[tokio::test(start_paused = true)]
async fn page_of_kube_apiserver_means_a_missing_api() {
    let rig = Rig::new();
    rig.new.faults().next([page("404 page not found")]);
    rig.record_event("stored");
    pass(1).await;
    assert_eq!((rig.stored().len(), rig.old.objects().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn page_of_a_proxy_is_retried() {
    let rig = Rig::new();
    rig.new.faults().next([page("<h1>no backend</h1>")]);
    rig.record_event("again");
    pass(30).await;
    assert_eq!((rig.stored(), rig.old.objects().len()), (vec![("again".into(), 1)], 0));
    // This error does not mean that the event is missing, so the sink must not create it again.
    rig.new.faults().next_of(Verb::Patch, [page("404 page not found")]);
    rig.record_event("again");
    pass(30).await;
    assert_eq!(rig.stored(), [("again".into(), 2)]);
    let counts = rig.shutdown().await;
    assert_eq!((counts.created, counts.patched, counts.failed), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn missing_namespace_is_not_a_missing_api() {
    let rig = Rig::new();
    let mut missing = Status::failure(404, Reason::NotFound, "namespaces \"ns\" not found");
    missing.details = Some(StatusDetails { kind: "namespaces".into(), name: "ns".into(), ..StatusDetails::default() });
    rig.new.faults().next([Outcome::Fails(ApiError::from(missing))]);
    rig.record_event("lost");
    pass(1).await;
    // A missing namespace does not mean that the server lacks the API.
    rig.recorder.event(about("other"), EventType::Normal, "Told", "stored");
    pass(1).await;
    rig.new.faults().next([Outcome::refused(404, Reason::NotFound)]);
    rig.recorder.event(about("third"), EventType::Normal, "Told", "lost");
    pass(1).await;
    assert_eq!((rig.stored(), rig.old.objects().len()), (vec![("stored".into(), 1)], 0));
    assert_eq!(rig.shutdown().await.failed, 2);
}

#[tokio::test(start_paused = true)]
async fn writes_are_retried_only_if_server_is_unreachable() {
    let transport = || Outcome::Fails(ApiError::transport("an injected failure"));
    let refused = || Outcome::refused(500, Reason::InternalError);
    for (faults, expected, failed) in
        [(vec![refused(); 99], 1, 1), (vec![transport(); 99], 12, 1), (vec![transport(); 4], 5, 0)]
    {
        let kind = format!("{:?}", faults[0]);
        let rig = Rig::new();
        rig.new.faults().next(faults);
        rig.record_event("hello");
        pass(200).await;
        assert_eq!(rig.new.requests().len(), expected, "{kind}");
        assert_eq!(rig.shutdown().await.failed, failed, "{kind}");
    }
}

/// If the first repetition cannot be written, the sink retries at the next due time of the series.
#[tokio::test(start_paused = true)]
async fn failed_series_write_is_repeated_when_due() {
    let rig = Rig::new();
    rig.record_event("again");
    pass(1).await;
    rig.new.faults().next(vec![Outcome::Fails(ApiError::transport("an injected failure")); 12]);
    rig.record_event("again");
    pass(20 * 60).await;
    assert_eq!(rig.stored(), [("again".into(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn required_fields_are_filled_and_long_ones_cut() {
    let rig = Rig::new();
    rig.recorder.record(Event {
        involved_object: about("web"),
        related: Some(about("other")),
        reason: "R".repeat(200),
        message: "m".repeat(2_000),
        ..Event::default()
    });
    pass(1).await;
    let event = rig.new.objects().remove(0);
    assert_eq!((event.reason.len(), event.action.len(), event.note.len()), (128, 128, 1024));
    assert!(event.note.ends_with("m ..."));
    assert_eq!(event.reporting_controller, "example.com/tester");
    assert!(event.reporting_instance.len() > "example.com/tester-".len(), "{}", event.reporting_instance);
    assert!(event.event_time.is_some() && event.series.is_none() && event.other.is_empty());
    assert_eq!((event.regarding, event.related), (about("web"), Some(about("other"))));
}

/// The server creates the event, but the first attempt gets no response.
#[tokio::test(start_paused = true)]
async fn series_event_created_by_earlier_attempt_is_not_failure() {
    let rig = Rig::new();
    let lost = Outcome::AnswerFails(ApiError::transport("an injected failure"));
    rig.new.faults().next_of(Verb::Create, [lost]);
    rig.record_event("again");
    pass(30).await;
    rig.record_event("again");
    pass(1).await;
    assert_eq!(rig.stored(), [("again".into(), 2)]);
    let counts = rig.shutdown().await;
    assert_eq!((counts.created, counts.patched, counts.failed), (1, 1, 0));
}
