//! The queue of changes that a follower of several resources has not read yet.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use pintle_meta::__private::Mutex;
use tokio::sync::Notify;

use crate::Change;

/// The maximum number of unread changes, above which the follower must list again.
const MAX_CHANGES: usize = 16_384;

/// A stream of the changes to several resources, in revision order.
#[derive(Debug)]
pub struct Changes(Arc<Backlog>);

/// The error for a follower that has missed changes because it reads too slowly. The follower must then list again, and
/// receives all later changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lagged;

#[derive(Debug)]
struct Backlog {
    unread: Mutex<UnreadChanges>,
    notify: Notify,
    /// The approximate maximum size of all unread changes, in bytes. Without a size limit, unread changes could keep
    /// too many superseded objects in memory.
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct UnreadChanges {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// `true` if changes were lost. The backlog then stays empty until the follower has received the [`Lagged`] error.
    lagged: bool,
}

#[derive(Debug)]
pub(super) struct ChangeSender(Weak<Backlog>);

impl Changes {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self(Arc::new(Backlog { unread: Mutex::default(), notify: Notify::new(), max_bytes }))
    }

    pub(super) fn sender(&self) -> ChangeSender {
        ChangeSender(Arc::downgrade(&self.0))
    }

    /// Returns the next change, or `None` if there are no unread changes.
    pub fn try_next(&mut self) -> Option<Result<Arc<Change>, Lagged>> {
        let mut unread = self.0.unread.lock();
        if std::mem::take(&mut unread.lagged) {
            return Some(Err(Lagged));
        }
        let change = unread.changes.pop_front()?;
        unread.bytes -= change.new.weight();
        Some(Ok(change))
    }

    /// Waits for the next change.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no change is lost.
    pub async fn next(&mut self) -> Result<Arc<Change>, Lagged> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            self.0.notify.notified().await;
        }
    }

    /// Returns `true` if the follower has read all changes. A [`Lagged`] error that the follower has not received yet
    /// counts as an unread change.
    pub fn is_empty(&self) -> bool {
        let unread = self.0.unread.lock();
        unread.changes.is_empty() && !unread.lagged
    }
}

impl ChangeSender {
    /// Adds a change to the backlog. Returns `false` if the follower has been dropped.
    pub(super) fn send(&self, change: &Arc<Change>) -> bool {
        let Some(backlog) = self.0.upgrade() else { return false };
        let mut unread = backlog.unread.lock();
        if !unread.lagged {
            unread.bytes += change.new.weight();
            unread.changes.push_back(change.clone());
            if unread.changes.len() > MAX_CHANGES || unread.bytes > backlog.max_bytes {
                *unread = UnreadChanges { lagged: true, ..UnreadChanges::default() };
            }
        }
        drop(unread);
        backlog.notify.notify_one();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pintle_json::json;

    use super::*;
    use crate::{ChangeKind, Draft, Order, Stored};

    fn object(bytes: usize) -> Arc<Stored> {
        let object = json!({"apiVersion": "v1", "data": {"k": "x".repeat(bytes)}});
        Arc::new(Stored::of(Draft::new(&Default::default(), &object, Order::Declared, Vec::new())))
    }

    fn change(revision: u64, new: &Arc<Stored>) -> Arc<Change> {
        let (kind, new) = (ChangeKind::Created, Arc::new(new.at(revision)));
        Arc::new(Change { at: Instant::now(), kind, key: "k".into(), old: None, new })
    }

    #[test]
    fn overflow_drops_all_changes_and_reports_lagged_once() {
        const BACKLOG_BYTES: usize = 1 << 20;
        for (bytes, max) in [(1, MAX_CHANGES), (BACKLOG_BYTES / 16, 16)] {
            let mut changes = Changes::new(if bytes == 1 { usize::MAX } else { BACKLOG_BYTES });
            let sender = changes.sender();
            let object = object(bytes);
            let first = change(0, &object);
            let kept = Arc::downgrade(&first);
            assert!(sender.send(&first));
            drop(first);
            let mut sent = 1;
            while !changes.0.unread.lock().lagged {
                assert!(kept.upgrade().is_some() && sent <= max, "{sent}");
                sender.send(&change(sent as u64, &object));
                sent += 1;
            }
            assert!(kept.upgrade().is_none() && sent * 10 > max * 9, "{sent}");
            sender.send(&change(0, &object));
            assert!(!changes.is_empty());
            assert_eq!(changes.try_next().map(|next| next.err()), Some(Some(Lagged)));
            assert!(changes.is_empty() && changes.try_next().is_none());
            sender.send(&change(7, &object));
            assert_eq!(changes.try_next().and_then(Result::ok).map(|change| change.revision()), Some(7));
            assert_eq!(changes.0.unread.lock().bytes, 0);
            drop(changes);
            assert!(!sender.send(&change(8, &object)), "the follower is dropped");
        }
    }

    #[tokio::test]
    async fn sent_change_wakes_a_waiting_follower() {
        let mut changes = Changes::new(1 << 20);
        let sender = changes.sender();
        let (next, sent) = tokio::join!(changes.next(), async { sender.send(&change(3, &object(1))) });
        assert_eq!((next.map(|change| change.revision()), sent), (Ok(3), true));
    }
}
