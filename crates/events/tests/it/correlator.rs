//! The test cases of client-go's correlator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_events::{COMBINED_PREFIX, Correlator, CorrelatorConfig, Event, ObjectReference, Verdict};
use pintle_meta::{Object, ObjectMeta};

/// A correlator with a simulated server that counts the stored events.
struct Rig {
    correlator: Correlator,
    start: Instant,
    names: u32,
}

impl Rig {
    fn new(config: CorrelatorConfig) -> Self {
        Self { correlator: Correlator::new(config), start: Instant::now(), names: 0 }
    }

    fn correlate(&mut self, event: Event, seconds: u64) -> Verdict {
        let verdict = self.correlator.correlate(event, self.start + Duration::from_secs(seconds));
        if let Verdict::Create(correlated) | Verdict::Patch(correlated, ..) = &verdict {
            self.names += 1;
            let mut stored = correlated.event.clone();
            stored.metadata.resource_version = self.names.to_string();
            self.correlator.stored(correlated, &stored);
        }
        verdict
    }
}

fn event(reason: &str, message: &str, field_path: &str) -> Event {
    Event {
        metadata: ObjectMeta::new("ns", format!("{message}.1")),
        involved_object: ObjectReference {
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: "web".into(),
            uid: "uid-1".into(),
            field_path: field_path.into(),
            ..ObjectReference::default()
        },
        reason: reason.into(),
        message: message.into(),
        event_type: "Normal".into(),
        count: 1,
        ..Event::default()
    }
}

fn same(index: u32) -> Event {
    let _ = index;
    event("Pulled", "done", "")
}

fn unique(index: u32) -> Event {
    event(&format!("Reason{index}"), &format!("message {index}"), "")
}

fn similar(index: u32) -> Event {
    event("Pulled", &format!("message {index}"), "")
}

#[derive(Debug, PartialEq)]
enum Last {
    Created(i32),
    Counted(i32),
    CreatedCombined(i32),
    CountedCombined(i32),
    Skipped,
}

fn check(before: u32, make: fn(u32) -> Event, interval: u64, last: Event, expected: Last) {
    let mut rig = Rig::new(CorrelatorConfig::default());
    for index in 0..before {
        rig.correlate(make(index), u64::from(index) * interval);
    }
    let verdict = rig.correlate(last, u64::from(before) * interval);
    let found = match &verdict {
        Verdict::Create(correlated) if correlated.is_combined => Last::CreatedCombined(correlated.event.count),
        Verdict::Create(correlated) => Last::Created(correlated.event.count),
        Verdict::Patch(correlated, ..) if correlated.is_combined => Last::CountedCombined(correlated.event.count),
        Verdict::Patch(correlated, ..) => Last::Counted(correlated.event.count),
        Verdict::Skip => Last::Skipped,
    };
    assert_eq!(found, expected, "{before} events {interval} s apart, and one more");
    if let Verdict::Create(correlated) | Verdict::Patch(correlated, ..) = verdict {
        assert_eq!(correlated.event.message.starts_with(COMBINED_PREFIX), correlated.is_combined);
    }
}

#[test]
fn repetitions_are_counted() {
    check(0, same, 30, same(0), Last::Created(1));
    check(1, same, 30, same(0), Last::Counted(2));
    check(10, same, 30, same(0), Last::Counted(11));
}

#[test]
fn different_events_are_each_created() {
    check(30, unique, 600, unique(99), Last::Created(1));
}

#[test]
fn many_similar_events_are_combined() {
    check(8, similar, 1, similar(99), Last::Created(1));
    check(9, similar, 1, similar(99), Last::CreatedCombined(1));
    check(10, similar, 1, similar(99), Last::CountedCombined(2));
    check(9, similar, 601, similar(99), Last::Created(1));
}

#[test]
fn field_paths_of_an_object_are_counted_separately() {
    let of_container = event("Pulled", "done", "spec.containers{other}");
    check(5, same, 30, of_container, Last::Created(1));
}

#[test]
fn flood_about_one_object_is_rate_limited() {
    check(24, same, 1, same(0), Last::Counted(25));
    check(25, same, 1, same(0), Last::Skipped);
    check(25, unique, 1, unique(99), Last::Skipped);
    check(25, same, 13, same(0), Last::Counted(26));
}

#[test]
fn rate_limited_events_are_counted() {
    let mut rig = Rig::new(CorrelatorConfig::default());
    (0..30).for_each(|_| drop(rig.correlate(same(0), 0)));
    let Verdict::Patch(correlated, key, patch) = rig.correlate(same(0), 301) else { panic!("not patched") };
    assert_eq!((correlated.event.count, key.to_string().as_str()), (31, "ns/done.1"));
    assert_eq!(patch["count"], 31);
    assert_eq!(correlated.event.resource_version(), "25", "the resourceVersion of the last stored event");
}

#[test]
fn spam_key_is_configurable() {
    let burst_of_one = || CorrelatorConfig { spam_burst: 1, ..CorrelatorConfig::default() };
    let mut by_object = Rig::new(burst_of_one());
    by_object.correlate(event("A", "m", ""), 0);
    assert_eq!(by_object.correlate(event("B", "m", ""), 0), Verdict::Skip);

    let mut config = burst_of_one();
    config.spam_key = Arc::new(|event| event.reason.clone());
    let mut by_reason = Rig::new(config);
    by_reason.correlate(event("A", "m", ""), 0);
    assert!(matches!(by_reason.correlate(event("B", "m", ""), 0), Verdict::Create(_)));
    assert_eq!(by_reason.correlate(event("A", "another", ""), 0), Verdict::Skip);
}

#[test]
fn evicted_event_starts_with_a_new_count() {
    let mut config = CorrelatorConfig { spam_burst: 1_000, ..CorrelatorConfig::default() };
    config.cache_size = 5;
    let mut rig = Rig::new(config);
    rig.correlate(same(0), 0);
    (0..6).for_each(|index| drop(rig.correlate(unique(index), 0)));
    assert!(matches!(rig.correlate(same(0), 0), Verdict::Create(correlated) if correlated.event.count == 1));
}
