//! Where a program records events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use pintle_meta::{ObjectMeta, Time, TypeMeta};
use tokio::sync::mpsc;

use crate::metrics::Counters;
use crate::{Event, EventSource, EventType, ObjectReference};

/// Records events, for one component. Cheap to clone.
///
/// It never waits and never fails: when more events come than can be written, the newest are dropped and counted. Events are
/// for people; no program may depend on one.
///
/// # Examples
///
/// ```
/// use pintle_events::{EventRecorder, EventType, ObjectReference};
///
/// fn warn(recorder: &EventRecorder, about: ObjectReference) {
///     recorder.event(about, EventType::Warning, "BadTemplate", "The template does not exist");
/// }
/// ```
#[derive(Clone, Debug)]
pub struct EventRecorder {
    source: EventSource,
    queue: mpsc::Sender<Event>,
    counters: Arc<Counters>,
    last_nanos: Arc<AtomicI64>,
}

impl EventRecorder {
    pub(crate) fn new(source: EventSource, queue: mpsc::Sender<Event>, counters: Arc<Counters>) -> Self {
        Self { source, queue, counters, last_nanos: Arc::default() }
    }

    /// Records that something happened to an object: a `&T` of any resource, or an [`ObjectReference`].
    ///
    /// `reason` is one word in upper camel case, the same for all events of one sort; `message` is a sentence for people.
    pub fn event(
        &self,
        about: impl Into<ObjectReference>,
        event_type: EventType,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        let event = self.make(about.into(), event_type, reason.into(), message.into());
        self.counters.recorded.add(1);
        if let Err(error) = self.queue.try_send(event) {
            self.counters.dropped.add(1);
            let (mpsc::error::TrySendError::Full(event) | mpsc::error::TrySendError::Closed(event)) = error;
            tracing::debug!(reason = event.reason, object = event.involved_object.name, "an event was dropped");
        }
    }

    fn make(&self, about: ObjectReference, event_type: EventType, reason: String, message: String) -> Event {
        let now = Timestamp::now();
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let time = Some(Time(now));
        Event {
            types: TypeMeta { api_version: "v1".into(), kind: "Event".into() },
            metadata: ObjectMeta::new(namespace, self.name(&about.name, now)),
            reason,
            message,
            source: self.source.clone(),
            first_timestamp: time,
            last_timestamp: time,
            count: 1,
            event_type: event_type.as_str().into(),
            reporting_component: self.source.component.clone(),
            reporting_instance: self.source.host.clone(),
            involved_object: about,
            ..Event::default()
        }
    }

    /// The object's name and a number that no other event of this recorder has.
    fn name(&self, object: &str, now: Timestamp) -> String {
        const LONGEST: usize = 253;
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let nanos = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let name = format!("{object}.{nanos:x}");
        if name.len() <= LONGEST && is_subdomain(object) { name } else { format!("event.{nanos:x}") }
    }
}

/// Whether a server would accept it as part of an event's name.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(capacity: usize) -> (EventRecorder, mpsc::Receiver<Event>) {
        let (queue, events) = mpsc::channel(capacity);
        let source = EventSource { component: "tester".into(), host: "node-1".into() };
        (EventRecorder::new(source, queue, Arc::new(Counters::new(None))), events)
    }

    fn about(namespace: &str, name: &str) -> ObjectReference {
        ObjectReference { namespace: namespace.into(), name: name.into(), ..ObjectReference::default() }
    }

    #[test]
    fn an_event_says_who_what_and_when() {
        let (recorder, mut events) = recorder(1);
        recorder.event(about("ns", "web"), EventType::Warning, "Broken", "it broke");
        let event = events.try_recv().unwrap();
        assert_eq!((&*event.reason, &*event.message, &*event.event_type), ("Broken", "it broke", "Warning"));
        assert_eq!((&*event.source.component, &*event.reporting_instance, event.count), ("tester", "node-1", 1));
        assert_eq!((&*event.metadata.namespace, event.first_timestamp), ("ns", event.last_timestamp));
        assert!(event.metadata.name.starts_with("web."), "{}", event.metadata.name);
    }

    #[test]
    fn names_are_valid_and_never_the_same() {
        let (recorder, mut events) = recorder(300);
        let long = "x".repeat(250);
        for name in ["web", "Web", "system:node", long.as_str(), "-a", "a..b"].repeat(50) {
            recorder.event(about("", name), EventType::Normal, "R", "m");
        }
        let mut names = std::collections::BTreeSet::new();
        while let Ok(event) = events.try_recv() {
            assert_eq!(event.metadata.namespace, "default");
            let name = event.metadata.name;
            assert!(is_subdomain(&name) && name.len() <= 253, "{name}");
            assert!(names.insert(name));
        }
        assert_eq!(names.len(), 300);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (recorder, events) = recorder(2);
        (0..5).for_each(|_| recorder.event(about("ns", "web"), EventType::Normal, "R", "m"));
        assert_eq!(recorder.counters.snapshot().dropped, 3);
        drop(events);
        recorder.event(about("ns", "web"), EventType::Normal, "R", "m");
        let counts = recorder.counters.snapshot();
        assert_eq!((counts.recorded, counts.dropped), (6, 4));
    }
}
