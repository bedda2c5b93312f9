//! A cache's undecodable objects.

use std::sync::atomic;

use pintle_meta::{Object, ObjectKey};

use super::Cache;
use crate::stored::Stored;
use crate::undecodable::Undecodable;

impl<T: Object> Cache<T> {
    /// Returns an entry for each object whose newest state is not in the cache. The newest state is missing if it
    /// cannot be decoded or an index function failed on it. The entries are ordered by key.
    ///
    /// The result includes all changes that are visible to readers, so this call may wait until the undecodable objects
    /// of the last write are recorded. An object that is [decoded on read](crate::DecodePolicy::OnRead) gets an entry
    /// when it is first read or checked.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        // Read the objects in `found` before the recorded entries, so that no undecodable object is missed. If a commit
        // replaces an object between the two reads, the commit records an entry for this object.
        let found = self.found();
        self.wait_for_commit();
        if found.is_empty() {
            return self.undecodable.lock().values().cloned().collect();
        }
        let mut entries = self.undecodable.lock().clone();
        // If `entries` already has an entry, keep it, because the cache removes the entry of each object that it
        // stores.
        found.into_iter().for_each(|(key, entry)| _ = entries.entry(key).or_insert(entry));
        entries.into_values().collect()
    }

    pub(crate) fn undecodable_len(&self) -> usize {
        let found = self.found();
        let undecodable = self.undecodable.lock();
        undecodable.len() + found.iter().filter(|(key, _)| !undecodable.contains_key(key)).count()
    }

    pub(crate) fn first_undecodable(&self) -> Option<Undecodable> {
        let found = self.found().into_iter().map(|(_, entry)| entry);
        let known = self.undecodable.lock().values().next().cloned();
        found.chain(known).min_by(|one, other| one.key.cmp(&other.key))
    }

    /// Returns entries for stored objects that a reader failed to decode and that have no entry yet.
    fn found(&self) -> Vec<(ObjectKey, Undecodable)> {
        let found = self.source.as_ref().map(|source| source.found()).unwrap_or_default().into_iter();
        let is_current =
            |record: Stored<T>, key: &ObjectKey| self.store.get(key).is_some_and(|known| known.is_same(&record));
        let current = found.filter(|found| {
            found.record.upgrade().is_some_and(|record| is_current(Stored::Lazy(record), &found.entry.key))
        });
        current.map(|found| (found.entry.key.clone(), found.entry)).collect()
    }

    pub(crate) fn is_undecodable(&self, key: impl FnOnce() -> Option<ObjectKey>) -> bool {
        self.has_undecodable.load(atomic::Ordering::Relaxed)
            && key().is_some_and(|key| self.undecodable.lock().contains_key(&key))
    }

    pub(crate) fn entry(&self, key: &ObjectKey) -> Option<Undecodable> {
        self.undecodable.lock().get(key).cloned()
    }

    pub(crate) fn entry_of(&self, state: &Stored<T>) -> Option<Undecodable> {
        let entry = if state.is_bad() { self.entry(&state.key()) } else { None };
        entry.filter(|entry| entry.uid == state.uid() && entry.resource_version == state.resource_version())
    }

    /// Returns the newest known resourceVersion of the object with this key, even if the newest state is undecodable.
    pub(crate) fn version_of(&self, key: &ObjectKey) -> Option<String> {
        if self.has_undecodable.load(atomic::Ordering::Relaxed)
            && let Some(entry) = self.undecodable.lock().get(key)
        {
            return Some(entry.resource_version.clone());
        }
        self.store.get(key).map(|known| known.resource_version().to_owned())
    }

    pub(crate) fn was_replaced(&self, key: &ObjectKey, entry: &Undecodable) -> bool {
        was_replaced(self.store.get(key).as_ref(), entry)
    }

    /// Removes the entries for the keys in `mended`, whose objects can be decoded again, and adds `entries`.
    pub(super) fn note<'a>(
        &self,
        mended: impl IntoIterator<Item = &'a ObjectKey>,
        entries: impl IntoIterator<Item = Undecodable>,
    ) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_none() && !self.has_undecodable.load(atomic::Ordering::Relaxed) {
            return;
        }
        let mut undecodable = self.undecodable.lock();
        mended.into_iter().for_each(|key| _ = undecodable.remove(key));
        undecodable.extend(entries.map(|entry| (entry.key.clone(), entry)));
        self.has_undecodable.store(!undecodable.is_empty(), atomic::Ordering::Relaxed);
    }
}

/// Returns `true` if the undecodable `entry` and `known` are different objects with the same name.
pub(crate) fn was_replaced<T: Object>(known: Option<&T>, entry: &Undecodable) -> bool {
    known.is_some_and(|known| !entry.uid.is_empty() && !known.uid().is_empty() && known.uid() != entry.uid)
}
