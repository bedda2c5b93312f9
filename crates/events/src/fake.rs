//! A recorder that stores events for tests.

use std::sync::Arc;

use crate::event::{Event, EventSource};
use crate::hub::{Hub, Listener};
use crate::metrics::Counters;
use crate::recorder::EventRecorder;
use crate::watcher::{EventWatcher, Watch};

/// A recorder that stores events for tests, like client-go's `FakeRecorder`. The fake recorder does not need a server
/// or a tokio runtime.
///
/// The `Display` output of an [`Event`] matches client-go, so tests can compare strings. Unlike in client-go, recording an
/// event never blocks the caller. While the buffer of the fake recorder is full, new events are dropped and
/// [counted](Self::dropped).
///
/// # Examples
///
/// ```
/// use pintle_events::{EventRecorder, EventType, FakeRecorder, ObjectReference};
///
/// fn check(template: Option<&str>, recorder: &EventRecorder) {
///     if template.is_none() {
///         let site = ObjectReference { kind: "Website".into(), api_version: "example.com/v1".into(), ..Default::default() };
///         recorder.event(site, EventType::Warning, "BadTemplate", "The template does not exist");
///     }
/// }
///
/// let mut fake = FakeRecorder::new(10);
/// check(None, &fake.recorder());
/// let event = &fake.take()[0];
/// assert_eq!(event.to_string(), "Warning BadTemplate The template does not exist");
/// assert!(format!("{event:#}").ends_with(" involvedObject{kind=Website,apiVersion=example.com/v1}"));
/// assert!(fake.take().is_empty());
/// ```
#[derive(Debug)]
pub struct FakeRecorder {
    hub: Arc<Hub>,
    events: EventWatcher,
}

impl FakeRecorder {
    /// Creates a fake recorder that stores up to `buffer` events until a call to [`take`](Self::take). A `buffer` of 0 is
    /// treated as 1.
    pub fn new(buffer: usize) -> Self {
        let (watch, events) = Watch::new(buffer, |_| true);
        let hub = Arc::new(Hub::new(Counters::new(None)));
        hub.add(Listener::Watcher(watch));
        Self { hub, events }
    }

    /// Returns a recorder for the code under test.
    pub fn recorder(&self) -> EventRecorder {
        EventRecorder::new(EventSource::default(), self.hub.clone())
    }

    /// Removes and returns all stored events, in the order in which they were recorded.
    pub fn take(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_next()).map(Arc::unwrap_or_clone).collect()
    }

    /// Returns the number of events that were dropped because the buffer was full.
    pub fn dropped(&self) -> u64 {
        self.events.dropped()
    }
}
