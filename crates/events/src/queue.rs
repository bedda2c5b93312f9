//! Bounded queues for sinks and watchers.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use crate::event::Event;

/// Creates a queue with the given capacity, but at least 1 and at most the maximum of a tokio channel.
pub(crate) fn queue(events: usize) -> (mpsc::Sender<Arc<Event>>, mpsc::Receiver<Arc<Event>>) {
    mpsc::channel(events.clamp(1, Semaphore::MAX_PERMITS))
}
