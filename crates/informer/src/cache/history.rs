//! The last changes of a cache.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

use crate::stored::Stored;
use crate::version::{is_number, is_older};

/// A recorded change of a cache, as [`Cache::changes_since`](crate::Cache::changes_since) returns it.
#[derive(Debug)]
pub struct Remembered<T> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The previous object. `None` if the cache had no object with this key.
    pub old: Option<Arc<T>>,
    /// The new object. `None` if the object was deleted.
    pub new: Option<Arc<T>>,
    /// The revision of the cache after the change. All changes that one write made at the same time have the same revision.
    pub resource_version: Arc<str>,
}

/// The key of a changed object, its previous state and its new state.
pub(super) type Step<T> = (ObjectKey, Option<Stored<T>>, Option<Stored<T>>);

/// A change that the history has recorded.
pub(crate) struct Past<T> {
    key: ObjectKey,
    old: Option<Stored<T>>,
    new: Option<Stored<T>>,
    resource_version: Arc<str>,
    /// Whether the commit of this change did not change the revision of the cache.
    is_at_rest: bool,
}

/// The last changes of a cache, up to a maximum number.
pub(super) struct History<T> {
    /// For each guard, the number of changes that the guard asks the cache to keep. The history keeps as many changes
    /// as the largest of these numbers.
    bounds: Vec<usize>,
    /// The recorded changes, oldest first.
    changes: VecDeque<Past<T>>,
    /// The revision of the cache before the first recorded change.
    since: Arc<str>,
    /// Whether the history may have dropped some of the changes with the revision `since`. A query for changes must
    /// then use a later revision than `since`.
    is_after: bool,
}

impl<T> History<T> {
    /// Registers a guard that asks the cache to keep the last `bound` changes.
    fn add(&mut self, bound: usize, resource_version: &str) {
        if !self.is_on() {
            (self.since, self.is_after) = (resource_version.into(), false);
        }
        self.bounds.push(bound);
    }

    /// Removes a guard. Returns the changes that the history no longer keeps, because no guard requests them.
    fn remove(&mut self, bound: usize) -> VecDeque<Past<T>> {
        if let Some(at) = self.bounds.iter().position(|known| *known == bound) {
            self.bounds.swap_remove(at);
        }
        self.trim()
    }

    fn bound(&self) -> usize {
        self.bounds.iter().copied().max().unwrap_or_default()
    }

    fn is_on(&self) -> bool {
        self.bound() > 0
    }

    /// Adds the changes of one commit. Returns the changes that the history no longer keeps. `earlier` is the revision
    /// of the cache before the commit.
    pub(super) fn note(
        &mut self,
        changes: impl Iterator<Item = Step<T>>,
        earlier: &str,
        resource_version: &str,
    ) -> VecDeque<Past<T>> {
        let resource_version: Arc<str> = resource_version.into();
        let last = self.changes.back().map_or(&self.since, |change| &change.resource_version);
        let is_at_rest = *resource_version == *earlier || resource_version == *last;
        let mut forgotten = VecDeque::new();
        if is_older(&resource_version, last) {
            // The server's revisions went back, so changes since an earlier revision can no longer be queried.
            forgotten = std::mem::take(&mut self.changes);
            (self.since, self.is_after) = (resource_version.clone(), false);
        }
        let changes = changes.filter(|(_, old, new)| !is_same(old.as_ref(), new.as_ref()));
        self.changes.extend(changes.map(|(key, old, new)| {
            let resource_version = resource_version.clone();
            Past { key, old, new, resource_version, is_at_rest }
        }));
        forgotten.append(&mut self.trim());
        forgotten
    }

    /// Drops all changes up to and including the revision `resource_version`.
    pub(super) fn forget(&mut self, resource_version: &str) -> VecDeque<Past<T>> {
        (self.since, self.is_after) = (resource_version.into(), true);
        std::mem::take(&mut self.changes)
    }

    /// Returns the changes that were made after a revision. Returns `None` if the revision is older than the history,
    /// or newer than both the cache and its last change.
    pub(super) fn since(&self, resource_version: &str, reached: &str) -> Option<Vec<Remembered<T>>> {
        let last = self.changes.back().map_or(&self.since, |change| &change.resource_version);
        let has_come = !is_older(reached, resource_version) || !is_older(last, resource_version);
        let is_known = has_come
            && match self.is_after {
                true => is_older(&self.since, resource_version),
                false => !is_older(resource_version, &self.since),
            };
        let is_remembered = self.is_on() && !self.since.is_empty() && is_known;
        let is_later = |change: &&Past<T>| match change.is_at_rest {
            true => !is_older(&change.resource_version, resource_version),
            false => is_older(resource_version, &change.resource_version),
        };
        let later = self.changes.iter().filter(is_later);
        (is_remembered && is_number(resource_version)).then(|| later.map(Past::to_remembered).collect())
    }

    fn trim(&mut self) -> VecDeque<Past<T>> {
        let excess = self.changes.len().saturating_sub(self.bound());
        let rest = self.changes.split_off(excess);
        let forgotten = std::mem::replace(&mut self.changes, rest);
        if let Some(last) = forgotten.back() {
            // Other dropped changes may have the same revision as the last dropped change, if this change did not
            // advance the revision.
            (self.since, self.is_after) = (last.resource_version.clone(), last.is_at_rest);
        }
        forgotten
    }
}

/// The history of a cache. The cache records its changes as long as a [`HistoryGuard`] exists.
pub(super) struct Memory<T> {
    history: Mutex<History<T>>,
    is_on: AtomicBool,
}

impl<T> Memory<T> {
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, History<T>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut History<T>) -> R) -> R {
        let mut history = self.lock();
        let changed = change(&mut history);
        self.is_on.store(history.is_on(), Ordering::Relaxed);
        changed
    }
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self { history: Mutex::default(), is_on: AtomicBool::new(false) }
    }
}

/// A guard that keeps the history of a cache enabled: see [`Cache::remember`](crate::Cache::remember). When a guard is
/// dropped, the cache no longer keeps changes for this guard. The cache still keeps the changes that other guards asked
/// for. When the last guard is dropped, the cache drops its history.
#[must_use = "the cache forgets its changes as soon as this is dropped"]
pub struct HistoryGuard<T> {
    memory: Arc<Memory<T>>,
    changes: usize,
}

impl<T> HistoryGuard<T> {
    pub(super) fn new(memory: Arc<Memory<T>>, changes: usize, resource_version: &str) -> Self {
        memory.change(|history| history.add(changes, resource_version));
        Self { memory, changes }
    }
}

impl<T> Drop for HistoryGuard<T> {
    fn drop(&mut self) {
        // Drop the values after the lock is released, because dropping them can run user-defined `Drop` code.
        let forgotten = self.memory.change(|history| history.remove(self.changes));
        drop(forgotten);
    }
}

impl<T> fmt::Debug for HistoryGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryGuard").field("changes", &self.changes).finish_non_exhaustive()
    }
}

/// Returns whether the two values are the same object, or both are `None`.
pub(super) fn is_same<T>(old: Option<&Stored<T>>, new: Option<&Stored<T>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.is_same(new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { bounds: Vec::new(), changes: VecDeque::new(), since: "".into(), is_after: false }
    }
}

impl<T> Past<T> {
    fn to_remembered(&self) -> Remembered<T> {
        let cloned = |object: &Option<Stored<T>>| object.as_ref().and_then(Stored::read);
        let (old, new, resource_version) = (cloned(&self.old), cloned(&self.new), self.resource_version.clone());
        Remembered { key: self.key.clone(), old, new, resource_version }
    }
}
