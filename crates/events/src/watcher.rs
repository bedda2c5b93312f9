//! Watchers, which receive recorded events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::event::Event;
use crate::queue;

/// Receives events in the order in which they are recorded, before sinks count or combine them. Dropping the watcher
/// cancels its subscription.
///
/// If the queue of a watcher is full, only this watcher misses and counts the new events.
///
/// # Examples
///
/// ```
/// use pintle_events::{BroadcasterConfig, EventBroadcaster, EventSource, EventType, ObjectReference};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
/// let mut warnings = broadcaster.watch(|event| event.event_type == "Warning");
///
/// let recorder = broadcaster.recorder(EventSource::default());
/// recorder.event(ObjectReference::default(), EventType::Normal, "Published", "The site is up");
/// recorder.event(ObjectReference::default(), EventType::Warning, "BadTemplate", "The template does not exist");
/// assert_eq!(warnings.next().await.unwrap().reason, "BadTemplate");
/// drop(broadcaster);
/// assert!(warnings.next().await.is_none());
/// # }
/// ```
#[derive(Debug)]
pub struct EventWatcher {
    events: mpsc::Receiver<Arc<Event>>,
    dropped: Arc<AtomicU64>,
}

impl EventWatcher {
    /// Returns the next event, or `None` once the broadcaster has been dropped and the queue of the watcher is
    /// empty.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.events.recv().await
    }

    /// Returns the next event, or `None` if the queue is empty.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.events.try_recv().ok()
    }

    /// Returns the number of events that were dropped because this watcher's queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
pub(crate) struct Watch {
    queue: mpsc::Sender<Arc<Event>>,
    filter: Arc<dyn Fn(&Event) -> bool + Send + Sync>,
    dropped: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn new(queue: usize, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> (Self, EventWatcher) {
        let (queue, events) = queue::queue(queue);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { queue, filter: Arc::new(filter), dropped: dropped.clone() }, EventWatcher { events, dropped })
    }

    /// Queues the event if the filter accepts it, and returns `false` if the watcher was dropped.
    pub(crate) fn offer(&self, event: &Arc<Event>) -> bool {
        if self.is_closed() {
            return false;
        }
        // Catch panics of the user's filter, so that they do not reach the code that records the event.
        let Ok(wanted) = catch_unwind(AssertUnwindSafe(|| (self.filter)(event))) else {
            tracing::error!(reason = event.reason, "the filter of an event watcher panicked");
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        if wanted && let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(event.clone()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

pintle_meta::debug_struct!(Watch { dropped, .. });
