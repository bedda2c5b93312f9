//! The recorder, with which a program records events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use pintle_meta::__private::is_dns_subdomain;
use pintle_meta::{Time, TypeMeta};

use crate::event::{Event, EventSource, EventType, ObjectReference};
use crate::hub::Hub;

/// Records events for one component. An `EventRecorder` is cheap to clone.
///
/// Recording an event does not block the caller and does not fail. If events are recorded faster than the sinks can
/// write them, the newest events are dropped and counted. A program must therefore not depend on an event being
/// written.
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
    hub: Arc<Hub>,
    last_nanos: Arc<AtomicI64>,
}

impl EventRecorder {
    pub(crate) fn new(source: EventSource, hub: Arc<Hub>) -> Self {
        Self { source, hub, last_nanos: Arc::default() }
    }

    /// Records an event about an object. The argument `about` is an [`ObjectReference`] or a reference to any object
    /// that implements [`Resource`](pintle_meta::Resource).
    ///
    /// `reason` is one word in upper camel case, and is the same for all events of a kind. `message` is a
    /// human-readable sentence.
    pub fn event(
        &self,
        about: impl Into<ObjectReference>,
        event_type: EventType,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.record(Event {
            involved_object: about.into(),
            event_type: event_type.as_str().into(),
            reason: reason.into(),
            message: message.into(),
            ..Event::default()
        });
    }

    /// Records an event with additional fields, such as an action, a related object, annotations or labels.
    ///
    /// The recorder fills in a missing source, time, namespace or name. The default type is `Normal`. The recorder
    /// drops events with an unknown type, because servers would reject them.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_events::{Event, EventRecorder, ObjectReference};
    ///
    /// fn bound(recorder: &EventRecorder, pod: ObjectReference, node: ObjectReference) {
    ///     let message = format!("{} runs on {}", pod.name, node.name);
    ///     recorder.record(Event {
    ///         involved_object: pod,
    ///         related: Some(node),
    ///         action: "Binding".into(),
    ///         reason: "Scheduled".into(),
    ///         message,
    ///         ..Event::default()
    ///     });
    /// }
    /// ```
    pub fn record(&self, event: Event) {
        self.hub.record(self.completed(event));
    }

    fn completed(&self, mut event: Event) -> Event {
        let fill = |text: &mut String, with: &str| {
            if text.is_empty() {
                text.push_str(with);
            }
        };
        let Time(now) = Time::now();
        event.types = TypeMeta { api_version: "v1".into(), kind: "Event".into() };
        fill(&mut event.metadata.namespace, &event.involved_object.namespace);
        fill(&mut event.metadata.namespace, "default");
        if event.metadata.name.is_empty() {
            event.metadata.name = self.name(&event.involved_object.name, now);
        }
        fill(&mut event.event_type, EventType::Normal.as_str());
        if event.source == EventSource::default() {
            event.source = self.source.clone();
        }
        fill(&mut event.reporting_component, &event.source.component);
        fill(&mut event.reporting_instance, &event.source.host);
        event.first_timestamp = event.first_timestamp.or(Some(Time(now)));
        event.last_timestamp = event.last_timestamp.or(event.first_timestamp);
        event.count = event.count.max(1);
        event
    }

    /// Returns a name for an event: the name of the object, and a number that is unique in this recorder.
    fn name(&self, object: &str, now: Timestamp) -> String {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let nanos = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let name = format!("{object}.{nanos:x}");
        if is_dns_subdomain(&name) { name } else { format!("event.{nanos:x}") }
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::ObjectMeta;

    use super::*;
    use crate::FakeRecorder;
    use crate::hub::Listener;
    use crate::metrics::Counters;

    fn about(namespace: &str, name: &str) -> ObjectReference {
        ObjectReference { namespace: namespace.into(), name: name.into(), ..ObjectReference::default() }
    }

    #[test]
    fn recorded_event_has_source_object_and_time() {
        let mut fake = FakeRecorder::new(2);
        let source = EventSource { component: "tester".into(), host: "node-1".into() };
        let recorder = EventRecorder { source, ..fake.recorder() };
        recorder.event(about("ns", "web"), EventType::Warning, "Broken", "it broke");
        let event = fake.take().remove(0);
        assert_eq!((&*event.reason, &*event.message, &*event.event_type), ("Broken", "it broke", "Warning"));
        assert_eq!((&*event.source.component, &*event.reporting_instance, event.count), ("tester", "node-1", 1));
        assert_eq!((&*event.metadata.namespace, event.first_timestamp), ("ns", event.last_timestamp));
        assert!(event.metadata.name.starts_with("web."), "{}", event.metadata.name);

        let metadata = ObjectMeta { annotations: [("a".into(), "b".into())].into(), ..ObjectMeta::default() };
        let detailed = Event { metadata, action: "Act".into(), related: Some(about("", "node")), ..Event::default() };
        recorder.record(Event { involved_object: about("ns", "web"), reporting_instance: "mine".into(), ..detailed });
        let event = fake.take().remove(0);
        assert_eq!((&*event.action, event.related, &*event.event_type), ("Act", Some(about("", "node")), "Normal"));
        assert_eq!((&*event.reporting_component, &*event.reporting_instance), ("tester", "mine"));
        assert_eq!(event.metadata.annotations["a"], "b");
    }

    #[test]
    fn event_of_unknown_type_is_dropped_and_counted() {
        let mut fake = FakeRecorder::new(1);
        let recorder = fake.recorder();
        recorder.record(Event { event_type: "Error".into(), ..Event::default() });
        let counts = recorder.hub.counters.snapshot();
        assert_eq!((counts.recorded, counts.dropped, fake.take().len()), (1, 1, 0));
    }

    #[test]
    fn event_names_are_valid_and_unique() {
        let mut fake = FakeRecorder::new(300);
        let recorder = fake.recorder();
        let long = "x".repeat(250);
        for name in ["web", "Web", "system:node", long.as_str(), "-a", "a..b"].repeat(50) {
            recorder.event(about("", name), EventType::Normal, "R", "m");
        }
        let mut names = std::collections::BTreeSet::new();
        for event in fake.take() {
            assert_eq!(event.metadata.namespace, "default");
            let name = event.metadata.name;
            assert!(is_dns_subdomain(&name) && name.len() <= 253, "{name}");
            assert!(names.insert(name));
        }
        assert_eq!(names.len(), 300);
    }

    #[test]
    fn event_above_the_buffer_is_dropped_and_counted() {
        let (queue, events) = tokio::sync::mpsc::channel(2);
        let hub = Arc::new(Hub::new(Counters::new(None)));
        hub.add(Listener::Sink(queue));
        let recorder = EventRecorder::new(EventSource::default(), hub.clone());
        (0..5).for_each(|_| recorder.event(about("ns", "web"), EventType::Normal, "R", "m"));
        assert_eq!(hub.counters.snapshot().dropped, 3);
        drop(events);
        recorder.event(about("ns", "web"), EventType::Normal, "R", "m");
        hub.close();
        recorder.event(about("ns", "web"), EventType::Normal, "R", "m");
        let counts = hub.counters.snapshot();
        assert_eq!((counts.recorded, counts.dropped), (7, 5));
    }
}
