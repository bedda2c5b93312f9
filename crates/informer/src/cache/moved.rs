//! Wakes tasks that wait for a revision.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Notifies waiting tasks when the cache's revision changes, or when the cache has ended.
///
/// A write performs only one additional atomic load if no task is waiting. The order of the following operations
/// ensures that no wake-up is lost. A waiting task increments `waiting` *before* it reads the store, and a writer reads
/// `waiting` *after* it has committed. Between these two steps, the task and the writer both take the same lock of the
/// store. As a result, the task reads the committed state, or the writer sees the incremented `waiting`.
#[derive(Default)]
pub(super) struct Moved {
    notify: Notify,
    waiting: AtomicUsize,
}

pub(super) struct Waiting<'a>(&'a Moved);

impl Moved {
    /// Wakes the waiting tasks. Call this method after a commit.
    pub(super) fn announce(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.announce_end();
        }
    }

    /// Wakes the waiting tasks, even if nothing was committed.
    pub(super) fn announce_end(&self) {
        self.notify.notify_waiters();
    }

    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

impl Waiting<'_> {
    pub(super) fn next(&self) -> Notified<'_> {
        self.0.notify.notified()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
