//! What a cache remembers of its last changes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

use super::version::{is_number, is_older};
use crate::guarded::Guarded;

/// A change that a cache remembers: see [`Cache::changes_since`](crate::Cache::changes_since).
#[derive(Debug)]
pub struct Remembered<T> {
    /// The key of the object.
    pub key: ObjectKey,
    /// What was there before. `None`: nothing.
    pub old: Option<Arc<T>>,
    /// What is there since then. `None`: it was deleted.
    pub new: Option<Arc<T>>,
    /// The revision that the cache had with it. Changes that came in one step have the same.
    pub resource_version: Arc<str>,
}

/// A key, what was there, and what is there now.
pub(super) type Step<T> = (ObjectKey, Option<Guarded<T>>, Option<Guarded<T>>);

/// A change that is [`Remembered`].
pub(crate) struct Past<T> {
    key: ObjectKey,
    old: Option<Guarded<T>>,
    new: Option<Guarded<T>>,
    resource_version: Arc<str>,
    /// They came with that revision, and it was there before.
    is_at_rest: bool,
}

/// The last changes, of which there are as many as it may hold at most.
pub(super) struct History<T> {
    /// How much each guard wants.
    bounds: Vec<usize>,
    /// In the order in which they came.
    changes: VecDeque<Past<T>>,
    /// The revision before the first of these.
    since: Arc<str>,
    /// It changed within that one, so that only later ones can be asked for.
    is_after: bool,
}

impl<T> History<T> {
    /// From here on so many changes are remembered at least.
    fn add(&mut self, bound: usize, resource_version: &str) {
        if !self.is_on() {
            (self.since, self.is_after) = (resource_version.into(), false);
        }
        self.bounds.push(bound);
    }

    /// Gives the changes that are not remembered any more.
    fn remove(&mut self, bound: usize) -> VecDeque<Past<T>> {
        if let Some(at) = self.bounds.iter().position(|known| *known == bound) {
            self.bounds.swap_remove(at);
        }
        self.trim()
    }

    fn bound(&self) -> usize {
        self.bounds.iter().copied().max().unwrap_or_default()
    }

    /// Whether anything is to be noted.
    fn is_on(&self) -> bool {
        self.bound() > 0
    }

    /// Takes changes in that came in one step, and gives what is forgotten for them. `earlier` is the revision before.
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
            // The server's history has begun anew, so nothing before can be asked for.
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

    /// Begins anew: what became of that revision, and what was before, cannot be asked for.
    pub(super) fn forget(&mut self, resource_version: &str) -> VecDeque<Past<T>> {
        (self.since, self.is_after) = (resource_version.into(), true);
        std::mem::take(&mut self.changes)
    }

    /// What came after a revision. `None`: that is further back than it remembers, or neither the store nor any change has come to it.
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
        (is_remembered && is_number(resource_version)).then(|| later.map(Past::told).collect())
    }

    fn trim(&mut self) -> VecDeque<Past<T>> {
        let excess = self.changes.len().saturating_sub(self.bound());
        let rest = self.changes.split_off(excess);
        let forgotten = std::mem::replace(&mut self.changes, rest);
        if let Some(last) = forgotten.back() {
            // Who asks for that revision would have to be told of what came when it was there already.
            (self.since, self.is_after) = (last.resource_version.clone(), last.is_at_rest);
        }
        forgotten
    }
}

/// The history of a cache, and whether anybody wants it.
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

/// Has a cache remember its last changes: see [`Cache::remember`](crate::Cache::remember). Dropping it gives up its claim, and
/// leaves those of other guards.
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
        // The objects are a user's, and are dropped under no lock.
        let forgotten = self.memory.change(|history| history.remove(self.changes));
        drop(forgotten);
    }
}

impl<T> fmt::Debug for HistoryGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryGuard").field("changes", &self.changes).finish_non_exhaustive()
    }
}

/// Whether nothing has changed.
pub(super) fn is_same<T>(old: Option<&Guarded<T>>, new: Option<&Guarded<T>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { bounds: Vec::new(), changes: VecDeque::new(), since: "".into(), is_after: false }
    }
}

impl<T> Past<T> {
    fn told(&self) -> Remembered<T> {
        let told = |object: &Option<Guarded<T>>| object.clone().map(Guarded::into_arc);
        let (old, new, resource_version) = (told(&self.old), told(&self.new), self.resource_version.clone());
        Remembered { key: self.key.clone(), old, new, resource_version }
    }
}
