//! The news that a store has moved on.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The resourceVersion has changed, or there will be no other.
///
/// Who waits counts itself in *before* it looks at the store, and who writes looks at the count *after* the commit. Both look under one
/// lock of the store's, which orders them: one of the two sees the other. So a write without anybody who waits costs one load.
#[derive(Default)]
pub(super) struct Moved {
    notify: Notify,
    waiting: AtomicUsize,
}

/// One who waits.
pub(super) struct Waiting<'a>(&'a Moved);

impl Moved {
    /// Tells those who wait, after a commit.
    pub(super) fn announce(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.announce_end();
        }
    }

    /// Tells those who wait of what is no commit.
    pub(super) fn announce_end(&self) {
        self.notify.notify_waiters();
    }

    /// Counts one in, until it is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

impl Waiting<'_> {
    /// Ready with the next announcement after this call.
    pub(super) fn next(&self) -> Notified<'_> {
        self.0.notify.notified()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
