//! The changes of several resources, for one who follows them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::store::Change;

/// How many changes of its resources together who follows them may lag before it is to look at everything anew.
const MOST: usize = 16_384;

/// The changes of several resources as they happen, in the order of their revisions.
#[derive(Debug)]
pub(crate) struct Changes(Arc<Backlog>);

/// What has changed since was more than is kept: everything is to be looked at anew. What changes from now on is told again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lagged;

#[derive(Debug)]
struct Backlog {
    unread: Mutex<UnreadChanges>,
    news: Notify,
    /// How many bytes of changes may be unread, about: what is written over and over is there no more, and kept by its changes alone.
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct UnreadChanges {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// Whether there were more than are kept: then none are.
    lagged: bool,
}

/// Tells one who follows.
#[derive(Debug)]
pub(super) struct Teller(Weak<Backlog>);

impl Changes {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self(Arc::new(Backlog { unread: Mutex::default(), news: Notify::new(), most_bytes }))
    }

    pub(super) fn teller(&self) -> Teller {
        Teller(Arc::downgrade(&self.0))
    }

    /// The next one, if there is one.
    pub(crate) fn try_next(&mut self) -> Option<Result<Arc<Change>, Lagged>> {
        let mut unread = self.0.unread();
        if std::mem::take(&mut unread.lagged) {
            return Some(Err(Lagged));
        }
        let change = unread.changes.pop_front()?;
        unread.bytes -= change.new.weight();
        Some(Ok(change))
    }

    /// The next one. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Arc<Change>, Lagged> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            self.0.news.notified().await;
        }
    }

    /// Whether there is nothing to be read.
    pub(crate) fn is_empty(&self) -> bool {
        let unread = self.0.unread();
        unread.changes.is_empty() && !unread.lagged
    }
}

impl Teller {
    /// Answers whether anybody still follows.
    pub(super) fn tell(&self, change: &Arc<Change>) -> bool {
        let Some(backlog) = self.0.upgrade() else { return false };
        let mut unread = backlog.unread();
        if !unread.lagged {
            unread.bytes += change.new.weight();
            unread.changes.push_back(change.clone());
            if unread.changes.len() > MOST || unread.bytes > backlog.most_bytes {
                *unread = UnreadChanges { lagged: true, ..UnreadChanges::default() };
            }
        }
        drop(unread);
        backlog.news.notify_one();
        true
    }
}

impl Backlog {
    fn unread(&self) -> MutexGuard<'_, UnreadChanges> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pintle_json::json;

    use super::*;
    use crate::store::{ChangeKind, Stored, sample};

    fn object(bytes: usize) -> Arc<Stored> {
        Arc::new(sample(&json!({"data": {"k": "x".repeat(bytes)}})))
    }

    fn change(revision: u64, new: &Arc<Stored>) -> Arc<Change> {
        let (kind, new) = (ChangeKind::Created, Arc::new(new.at(revision)));
        Arc::new(Change { at: Instant::now(), kind, key: "k".into(), old: None, new })
    }

    #[test]
    fn who_lags_by_more_changes_or_bytes_than_are_kept_is_told_so_once_and_keeps_none_of_them() {
        const BACKLOG_BYTES: usize = 1 << 20;
        for (bytes, most) in [(1, MOST), (BACKLOG_BYTES / 16, 16)] {
            let mut changes = Changes::new(if bytes == 1 { usize::MAX } else { BACKLOG_BYTES });
            let teller = changes.teller();
            let object = object(bytes);
            let first = change(0, &object);
            let kept = Arc::downgrade(&first);
            assert!(teller.tell(&first));
            drop(first);
            let mut told = 1;
            while !changes.0.unread().lagged {
                assert!(kept.upgrade().is_some() && told <= most, "{told}");
                teller.tell(&change(told as u64, &object));
                told += 1;
            }
            assert!(kept.upgrade().is_none() && told * 10 > most * 9, "{told}");
            teller.tell(&change(0, &object));
            assert!(!changes.is_empty());
            assert_eq!(changes.try_next().map(|next| next.err()), Some(Some(Lagged)));
            assert!(changes.is_empty() && changes.try_next().is_none());
            teller.tell(&change(7, &object));
            assert_eq!(changes.try_next().and_then(Result::ok).map(|change| change.revision()), Some(7));
            assert_eq!(changes.0.unread().bytes, 0);
            drop(changes);
            assert!(!teller.tell(&change(8, &object)), "nobody follows any more");
        }
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let mut changes = Changes::new(1 << 20);
        let teller = changes.teller();
        let (next, told) = tokio::join!(changes.next(), async { teller.tell(&change(3, &object(1))) });
        assert_eq!((next.map(|change| change.revision()), told), (Ok(3), true));
    }
}
