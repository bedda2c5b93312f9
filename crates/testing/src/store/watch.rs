//! Implements watches on the change log. Each watch has a position in the log. If a test breaks a watch, the watch also
//! stores the log position of the break.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use pintle_meta::{ApiError, Bookmark, ErrorKind, RawObject, WatchEvent, WatchOptions};

use super::select::Selection;
use super::{Entry, Store, errors};
use crate::faults::{Break, Outcome};

pub(crate) type Item = Result<WatchEvent<RawObject>, ApiError>;

pub(crate) struct Watch {
    selection: Selection,
    bookmarks: bool,
    after: u64,
    /// The items that the watch sends before the events from the log.
    first: VecDeque<Item>,
    next: usize,
    /// The break from a queued fault: the number of items before the break, and how the watch breaks.
    breaks: Option<(usize, Break)>,
    /// The break that the test requested: the log position of the break, and how the watch breaks.
    broken: Option<(usize, Break)>,
    pub(super) waker: Option<Waker>,
}

impl Store {
    pub(crate) fn watch(
        &mut self,
        namespace: Option<&str>,
        options: &WatchOptions,
        fault: Option<&Outcome>,
    ) -> Result<u64, ApiError> {
        let selection = self.selection(namespace, &options.label_selector, &options.field_selector)?;
        let revision = self.revision_of(&options.resource_version)?;
        let mut watch = Watch {
            selection,
            bookmarks: options.allow_bookmarks,
            after: revision,
            first: VecDeque::new(),
            next: self.log.len(),
            breaks: None,
            broken: None,
            waker: None,
        };
        if options.send_initial_events && revision > self.revision {
            watch.end(errors::too_large(revision, self.revision));
        } else if options.send_initial_events || revision == 0 {
            let here = self.objects.values().filter(|stored| watch.selection.selects(&stored.json));
            watch.first.extend(here.map(|stored| Ok(WatchEvent::Added(stored.bytes.clone().into()))));
            if options.send_initial_events && options.allow_bookmarks && !matches!(fault, Some(Outcome::NoBookmark)) {
                let mark = Bookmark { resource_version: self.revision.to_string(), initial_events_end: true };
                watch.first.push_back(Ok(WatchEvent::Bookmark(mark)));
            }
        } else if revision < self.compacted {
            watch.end(errors::expired(format!("too old resource version: {revision} ({})", self.compacted)));
        } else {
            watch.next = self.log.partition_point(|entry| entry.revision() <= revision);
        }
        if let Some(Outcome::Breaks { after, how }) = fault {
            watch.breaks = Some((*after, how.clone()));
        }
        self.opened += 1;
        self.watches.insert(self.opened, watch);
        Ok(self.opened)
    }

    pub(crate) fn bookmark(&mut self) {
        self.log.push(Entry::Bookmark(self.revision));
    }

    /// Breaks all watches after they have sent the events that are already in the log.
    pub(crate) fn break_watches(&mut self, how: &Break) {
        let end = self.log.len();
        for watch in self.watches.values_mut() {
            match &mut watch.broken {
                None => watch.broken = Some((end, how.clone())),
                // If the watch is already silent, replace the silent break, but keep its log position.
                Some((_, was)) if matches!(was, Break::Silent) => *was = how.clone(),
                Some(_) => {}
            }
        }
    }

    pub(crate) fn open_watches(&self) -> usize {
        self.watches.values().filter(|watch| !watch.has_ended()).count()
    }

    /// Returns a watch's next item, and a waker that is no longer needed. Stores `waker` if the watch has no item to
    /// return. The caller must drop the returned waker after releasing the lock.
    pub(crate) fn poll_watch(&mut self, id: u64, waker: Waker) -> (Poll<Option<Item>>, Option<Waker>) {
        let Some(watch) = self.watches.get_mut(&id) else { return (Poll::Ready(None), Some(waker)) };
        match watch.poll(&self.log) {
            Poll::Pending => (Poll::Pending, watch.waker.replace(waker)),
            ready => (ready, Some(waker)),
        }
    }

    pub(crate) fn close_watch(&mut self, id: u64) -> Option<Watch> {
        self.watches.remove(&id)
    }
}

impl Watch {
    fn end(&mut self, error: ApiError) {
        self.broken = Some((self.next, Break::Fails(error)));
    }

    /// Returns `true` if a waiting reader must be woken. `end` is the length of the log.
    pub(super) fn has_items(&self, end: usize) -> bool {
        match &self.broken {
            None => self.next < end,
            Some((_, how)) => !matches!(how, Break::Silent),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(&self.broken, Some((_, Break::End | Break::Fails(_))))
            || matches!(&self.breaks, Some((0, Break::End | Break::Fails(_))))
    }

    fn poll(&mut self, log: &[Entry]) -> Poll<Option<Item>> {
        // Keep an interruption that the test has requested. Replacing it would drop the error of the test while the lock
        // is held.
        if let Some((_, how)) = self.breaks.take_if(|(left, _)| *left == 0 && self.broken.is_none()) {
            self.first.clear();
            self.broken = Some((self.next, how));
        }
        let end = self.broken.as_ref().map_or(log.len(), |(end, _)| *end);
        while self.first.is_empty() && self.next < end {
            let event = self.event(&log[self.next]);
            self.first.extend(event.map(Ok));
            self.next += 1;
        }
        if let Some(item) = self.first.pop_front() {
            if let Some((left, _)) = &mut self.breaks {
                *left = left.saturating_sub(1);
            }
            return Poll::Ready(Some(item));
        }
        match &mut self.broken {
            None | Some((_, Break::Silent)) => Poll::Pending,
            Some((_, how)) => match std::mem::replace(how, Break::End) {
                Break::Fails(error) => Poll::Ready(Some(failing(error))),
                _ => Poll::Ready(None),
            },
        }
    }

    fn event(&self, entry: &Entry) -> Option<WatchEvent<RawObject>> {
        let (revision, before, after) = match entry {
            Entry::Change { revision, .. } if *revision <= self.after => return None,
            Entry::Change { revision, before, after, .. } => (revision, before, after),
            Entry::Bookmark(revision) => {
                let mark = Bookmark { resource_version: revision.to_string(), initial_events_end: false };
                return self.bookmarks.then_some(WatchEvent::Bookmark(mark));
            }
        };
        let before = before.as_ref().filter(|stored| self.selection.selects(&stored.json));
        let after = after.as_ref().filter(|stored| self.selection.selects(&stored.json));
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(WatchEvent::Added(after.bytes.clone().into())),
            (Some(_), Some(after)) => Some(WatchEvent::Modified(after.bytes.clone().into())),
            (Some(before), None) => Some(WatchEvent::Deleted(before.at(*revision).into())),
        }
    }
}

impl Entry {
    fn revision(&self) -> u64 {
        match self {
            Self::Change { revision, .. } | Self::Bookmark(revision) => *revision,
        }
    }
}

/// Converts an error to an item of a watch. As on a real server, an error with a status becomes an ERROR event.
fn failing(error: ApiError) -> Item {
    match &error.kind {
        ErrorKind::Status(status) => Ok(WatchEvent::Error(status.clone())),
        _ => Err(error),
    }
}
