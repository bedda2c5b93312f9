//! Tests how the server stores Events and how it returns them in both API groups.

use std::time::Duration;

use pintle::Cluster;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::events::{
    BroadcasterConfig, Event, EventBroadcaster, EventSource, EventType, ObjectReference, SeriesEvent,
};
use pintle::meta::ListOptions;
use pintle::restreq::Api;

use crate::support::{ConfigMap, create, soon};

/// Records one Event three times and another Event with the maximum size. Returns the stored Events from both API
/// groups.
async fn record_and_list(cluster: &Cluster) -> (Vec<SeriesEvent>, Vec<Event>) {
    let (new, old): (Api<SeriesEvent>, Api<Event>) = (cluster.api(), cluster.api());
    let map = create(&cluster.api::<ConfigMap>(), "probe").await;
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    broadcaster.start_recording_series_to_sink(new.clone(), old.clone());
    let component = "example.com/tester".into();
    let recorder = broadcaster.recorder(EventSource { component, host: String::new() });
    (0..3).for_each(|_| recorder.event(&map, EventType::Warning, "Again", "it happened again"));
    recorder.record(Event {
        involved_object: ObjectReference { field_path: "data.a".into(), ..ObjectReference::from(&map) },
        related: Some(ObjectReference { kind: "Node".into(), name: "node-1".into(), ..ObjectReference::default() }),
        action: "Checking".into(),
        reason: "Checked".into(),
        message: "ä".repeat(1_000),
        ..Event::default()
    });
    let counts = soon(broadcaster.shutdown(Duration::from_secs(30))).await;
    assert_eq!((counts.recorded, counts.failed, counts.dropped), (4, 0, 0), "{counts:?}");
    let new = new.list(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
    (new, old.list(&ListOptions::default()).await.unwrap().items)
}

#[tokio::test]
async fn event_series_is_one_object_in_both_groups() {
    let cluster = Cluster::embedded().await.unwrap();
    let (mut new, mut old) = record_and_list(&cluster).await;
    new.sort_by(|one, other| one.reason.cmp(&other.reason));
    old.sort_by(|one, other| one.reason.cmp(&other.reason));
    assert_eq!((new.len(), old.len()), (2, 2));
    for (new, old) in new.iter().zip(&old) {
        assert_eq!(new.metadata.uid, old.metadata.uid);
        assert_eq!((&new.note, &new.reporting_controller), (&old.message, &old.reporting_component));
        assert_eq!((&new.series, &new.related, &new.action), (&old.series, &old.related, &old.action));
    }
    assert_eq!((new[0].series.as_ref().unwrap().count, &*new[0].action), (3, "Again"));
    assert_eq!(new[0].event_type, "Warning");
    assert_eq!((&*new[1].action, &*new[1].regarding.field_path), ("Checking", "data.a"));
    assert!(new[1].note.len() <= 1_024 && new[1].related.is_some());
    soon(cluster.shutdown()).await;
}

#[tokio::test]
async fn events_fall_back_to_v1_without_the_newer_group() {
    let cluster = Cluster::embedded().await.unwrap();
    let none = Fault::Answer(Answer { body: Some("404 page not found\n".into()), ..Answer::new(404) });
    let rule = Rule { group: Some("events.k8s.io".into()), times: None, ..Rule::new(none) };
    cluster.server().unwrap().faults().add(rule);
    let (new, mut old) = record_and_list(&cluster).await;
    old.sort_by(|one, other| one.reason.cmp(&other.reason));
    assert_eq!((new.len(), old.len()), (0, 2));
    assert_eq!((old[0].count, &*old[0].event_type, &*old[0].source.component), (3, "Warning", "example.com/tester"));
    assert!(old[0].event_time.is_none() && old[0].series.is_none());
    assert_eq!((&*old[1].action, old[1].message.len()), ("Checking", 2_000), "nothing is cut, and nothing lost");
    soon(cluster.shutdown()).await;
}
