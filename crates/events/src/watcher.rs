//! Who watches events as they are recorded.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::{Event, hub};

/// Gets events as they are recorded, in their order, before they are counted or combined. Dropping it ends the watch.
///
/// What comes while its queue is full is dropped, for this watcher alone, and counted.
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
    /// The next event, or `None` once the broadcaster is gone and all that it passed on has been taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.events.recv().await
    }

    /// An event that is there already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.events.try_recv().ok()
    }

    /// How many events this watcher has lost, since it was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The other end: what an [`EventWatcher`] gets comes in here.
#[derive(Clone)]
pub(crate) struct Watch {
    queue: mpsc::Sender<Arc<Event>>,
    filter: Arc<dyn Fn(&Event) -> bool + Send + Sync>,
    dropped: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn new(queue: usize, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> (Self, EventWatcher) {
        let (queue, events) = hub::queue(queue);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { queue, filter: Arc::new(filter), dropped: dropped.clone() }, EventWatcher { events, dropped })
    }

    /// Whether the watcher is still there.
    pub(crate) fn offer(&self, event: &Arc<Event>) -> bool {
        if self.is_left() {
            return false;
        }
        // It is the watcher's code, and whoever records an event does not pay for its faults.
        let Ok(wanted) = catch_unwind(AssertUnwindSafe(|| (self.filter)(event))) else {
            tracing::error!(reason = event.reason, "the filter of a watcher of events panicked");
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        if wanted && let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(event.clone()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    pub(crate) fn is_left(&self) -> bool {
        self.queue.is_closed()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}
