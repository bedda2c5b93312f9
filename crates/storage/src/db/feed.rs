//! The followers of one resource, grouped by scope, and their feeds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::Db;
use crate::{Change, ResourceKey};

/// The limits of one read from the log: the number of returned changes, their approximate size in bytes, and the number
/// of examined changes.
const MAX_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 1 << 20;
const MAX_SCANNED: usize = 4096;

/// The objects whose changes a feed returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedScope {
    All,
    Namespace(String),
    /// The object with this key.
    Object(String),
    /// All objects whose selectable field with the index `at` has this value before or after the change.
    Field {
        at: usize,
        value: String,
    },
}

impl FeedScope {
    fn contains(&self, change: &Change) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => namespace_of(&change.key) == Some(namespace),
            Self::Object(object) => **object == *change.key,
            Self::Field { at, value } => values_of(change, *at).any(|found| found == value),
        }
    }
}

fn namespace_of(key: &str) -> Option<&str> {
    key.split_once('/').map(|(namespace, _)| namespace)
}

/// Returns a field's value after a change, and the previous value if it was different.
fn values_of(change: &Change, at: usize) -> impl Iterator<Item = &str> {
    let new = change.new.kept_field(at);
    let old = change.old.as_ref().and_then(|old| old.kept_field(at));
    new.into_iter().chain(old.filter(|_| old != new))
}

/// The followers of one resource, grouped by scope. Notifying one scope does not depend on the number of followers of
/// other scopes.
#[derive(Debug, Default)]
pub(super) struct Followers {
    all: Option<RecentChanges>,
    namespaces: HashMap<String, RecentChanges>,
    objects: HashMap<String, RecentChanges>,
    /// The followers of field values, by field index and value.
    fields: HashMap<usize, HashMap<String, RecentChanges>>,
    /// The number of scopes at which an insertion first removes all scopes without followers.
    sweep_at: usize,
}

#[derive(Debug)]
struct RecentChanges {
    revisions: VecDeque<u64>,
    /// The last revision that has been removed from `revisions`, which contains all later changes of the scope.
    dropped: u64,
    last: watch::Sender<u64>,
}

impl RecentChanges {
    fn new(now: u64) -> Self {
        Self { revisions: VecDeque::new(), dropped: now, last: watch::Sender::new(now) }
    }

    fn add(&mut self, revision: u64, max: usize) {
        self.revisions.push_back(revision);
        while self.revisions.len() > max {
            self.dropped = self.revisions.pop_front().unwrap_or(self.dropped);
        }
        self.last.send_replace(revision);
    }

    /// Returns the changes after `revision`, or `None` if some of these changes were dropped.
    fn since(&self, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let first = self.revisions.partition_point(|change| *change <= revision);
        (revision >= self.dropped).then(|| self.revisions.range(first..).copied())
    }
}

impl Followers {
    /// Adds a follower of `scope`. Returns a receiver for the revision of each change after `now`. Dropping this
    /// receiver removes the follower.
    pub(super) fn follow(&mut self, scope: &FeedScope, now: u64) -> watch::Receiver<u64> {
        if self.parts() >= self.sweep_at {
            let places = [&mut self.namespaces, &mut self.objects].into_iter().chain(self.fields.values_mut());
            places.for_each(|recent| recent.retain(|_, recent| recent.last.receiver_count() > 0));
            self.sweep_at = 64 + 2 * self.parts();
        }
        let recent = match scope {
            FeedScope::All => self.all.get_or_insert_with(|| RecentChanges::new(now)),
            FeedScope::Namespace(name) => {
                self.namespaces.entry(name.clone()).or_insert_with(|| RecentChanges::new(now))
            }
            FeedScope::Object(key) => self.objects.entry(key.clone()).or_insert_with(|| RecentChanges::new(now)),
            FeedScope::Field { at, value } => {
                let values = self.fields.entry(*at).or_default();
                values.entry(value.clone()).or_insert_with(|| RecentChanges::new(now))
            }
        };
        recent.last.subscribe()
    }

    fn parts(&self) -> usize {
        self.namespaces.len() + self.objects.len() + self.fields.values().map(HashMap::len).sum::<usize>()
    }

    /// Notifies the followers of all scopes that contain the change. Each scope keeps at most `max` revisions.
    pub(super) fn notify(&mut self, change: &Change, max: usize) {
        let namespace = namespace_of(&change.key).and_then(|namespace| self.namespaces.get_mut(namespace));
        let object = self.objects.get_mut(&*change.key);
        for recent in self.all.iter_mut().chain(namespace).chain(object) {
            recent.add(change.revision(), max);
        }
        for (at, values) in &mut self.fields {
            for value in values_of(change, *at) {
                if let Some(recent) = values.get_mut(value) {
                    recent.add(change.revision(), max);
                }
            }
        }
    }

    fn since(&self, scope: &FeedScope, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let recent = match scope {
            FeedScope::All => self.all.as_ref(),
            FeedScope::Namespace(name) => self.namespaces.get(name),
            FeedScope::Object(key) => self.objects.get(key),
            FeedScope::Field { at, value } => self.fields.get(at)?.get(value),
        };
        recent?.since(revision)
    }
}

/// A stream of the changes of a resource in one scope. The feed reads these changes from the log. Even if it is read
/// slowly, a feed buffers at most one batch of changes.
#[derive(Debug)]
pub struct Feed {
    resource: ResourceKey,
    scope: FeedScope,
    after: u64,
    /// Whether the feed has reached the end of the log. A feed that starts at a past revision first reads all later
    /// changes of the resource from the log. Until it reaches the end of the log, the number of its unread changes is
    /// not limited.
    live: bool,
    last: watch::Receiver<u64>,
    ready: VecDeque<Arc<Change>>,
}

/// The reason why a feed has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// The feed has missed changes because it was read too slowly.
    TooSlow,
    /// The resource was removed, or replaced by a new resource without its history.
    Ended,
}

impl Feed {
    pub(super) fn new(resource: ResourceKey, scope: FeedScope, after: u64, last: watch::Receiver<u64>) -> Self {
        Self { resource, scope, after, live: true, last, ready: VecDeque::new() }
    }

    /// Makes the feed start with the first change after `revision`, which may be in the past.
    pub fn starting_after(mut self, revision: u64) -> Self {
        self.after = revision;
        self.live = false;
        self
    }

    /// Waits for the next change.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no changes.
    pub async fn next(&mut self, db: &Db) -> Result<Arc<Change>, FeedEnd> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Ok(change);
            }
            let last_revision = *self.last.borrow_and_update();
            let ended = self.has_ended();
            match self.read(db, if ended { last_revision } else { u64::MAX }) {
                Err(_) if ended => return Err(FeedEnd::Ended),
                Err(over) => return Err(over),
                Ok(at_end) if at_end && self.ready.is_empty() => {
                    if ended {
                        return Err(FeedEnd::Ended);
                    }
                    self.live = true;
                    // If the sender was dropped, ignore the error, because the next iteration ends the feed.
                    let _ = self.last.changed().await;
                }
                Ok(_) => (),
            }
        }
    }

    /// Returns `true` if the resource's history was dropped, because the resource was removed or replaced. After this,
    /// the feed returns no more changes.
    pub fn has_ended(&self) -> bool {
        self.last.has_changed().is_err()
    }

    /// Returns `true` if the next read may return a change or the end of the feed without waiting.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.last.has_changed().unwrap_or(true)
    }

    /// Reads the next batch of changes from the log, up to the revision `last`. Returns `true` if the feed has reached
    /// the end of the log.
    fn read(&mut self, db: &Db, last: u64) -> Result<bool, FeedEnd> {
        let inner = db.inner.lock();
        if self.live {
            let Some(followers) = inner.followers.get(&self.resource) else { return Ok(true) };
            let unread = followers.since(&self.scope, self.after).ok_or(FeedEnd::TooSlow)?;
            for revision in unread.take_while(|revision| *revision <= last) {
                let change = inner.store.change(&self.resource, revision).ok_or(FeedEnd::TooSlow)?;
                self.after = revision;
                self.ready.push_back(change.clone());
                if self.is_full() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let changes = inner.store.followed(&self.resource, self.after).ok_or(FeedEnd::TooSlow)?;
        for (at, change) in changes.take_while(|change| change.revision() <= last).enumerate() {
            if self.is_full() || at == MAX_SCANNED {
                return Ok(false);
            }
            self.after = change.revision();
            if self.scope.contains(change) {
                self.ready.push_back(change.clone());
            }
        }
        // Continue from the current revision, because the log contains no more changes in this scope.
        self.after = self.after.max(inner.store.revision());
        Ok(true)
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.ready.iter().map(|change| change.new.weight()).sum();
        self.ready.len() >= MAX_BATCH || bytes > MAX_BATCH_BYTES
    }

    pub(super) fn is_read(&self, inner: &super::Inner) -> bool {
        let is_at_end = || {
            if self.live {
                inner.followers.get(&self.resource)?.since(&self.scope, self.after)?.next().is_none().then_some(())
            } else {
                let mut left = inner.store.followed(&self.resource, self.after)?;
                (!left.any(|change| self.scope.contains(change))).then_some(())
            }
        };
        self.ready.is_empty() && is_at_end().is_some()
    }
}
