//! Writes to a store, and makes them visible in atomic commits.

use pintle_meta::ObjectKey;

use super::now::{Kept, Now, Place};
use super::record::{PAGE, Version};
use super::{Store, Value, Write};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// A guard with the exclusive right to write to a store. Readers wait only while a single record is changed, not for
/// the whole commit. Dropping the writer drops the superseded versions that no pin needs.
pub(crate) struct Writer<'a, V: Value> {
    store: &'a Store<V>,
    superseded: Vec<Kept>,
    _one: MutexGuard<'a, ()>,
}

pub(crate) struct Replaced<V> {
    pub(crate) before: Vec<Option<V>>,
    pub(crate) deleted: Vec<(ObjectKey, V)>,
}

/// A commit that is not visible yet: the versions that it supersedes, and the numbers of keys that it adds and removes.
#[derive(Default)]
struct Pending {
    superseded: Vec<Kept>,
    added: usize,
    removed: usize,
}

impl Pending {
    fn count(&mut self, existed: bool, is_there: bool) {
        self.added += usize::from(is_there && !existed);
        self.removed += usize::from(existed && !is_there);
    }

    fn publish(&self, now: &mut Now, set_version: impl FnOnce(&mut String)) {
        now.len = now.len + self.added - self.removed;
        set_version(&mut now.resource_version);
    }
}

impl<'a, V: Value> Writer<'a, V> {
    pub(super) fn new(store: &'a Store<V>, one: MutexGuard<'a, ()>) -> Self {
        Self { store, superseded: Vec::new(), _one: one }
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.store.visible.load(Ordering::Relaxed)
    }

    /// Changes one key, and returns its previous value. `set_version` changes the
    /// resourceVersion in the same atomic step.
    pub(crate) fn write(&mut self, write: Write<V>, set_version: impl FnOnce(&mut String)) -> Option<V> {
        let Store { hasher, shards, .. } = self.store;
        let stamp = self.stamp() + 1;
        let is_there = write.value.is_some();
        let (home, hash) = self.store.home(write.key.as_str());
        let mut pending = Pending::default();
        let mut shard = shards[home as usize].write();
        let put = shard.put(hasher, hash, write, stamp);
        pending.count(put.as_ref().is_some_and(|(_, before)| existed(before)), is_there);
        // The commit becomes visible while the shard is locked. Until then, no reader can access the shard, so the
        // superseded version is kept only if a pin needs it.
        let mut now = self.store.now.lock();
        pending.publish(&mut now, set_version);
        self.store.visible.store(stamp, Ordering::Release);
        let (slot, before) = put?;
        let before = before?;
        let kept = Kept { place: Place { shard: home, hash, slot }, from: before.stamp, until: stamp };
        if before.value.is_some() && now.claim(kept) {
            drop(now);
            let value = before.value.clone();
            shard.keep(slot, before, stamp);
            return value;
        }
        drop(now);
        shard.discard(hash, slot, before)
    }

    /// Changes several keys in one atomic step, and returns their previous values. If several writes have the same key,
    /// the last one takes effect.
    pub(crate) fn write_all(&mut self, writes: Vec<Write<V>>, set_version: impl FnOnce(&mut String)) -> Vec<Option<V>> {
        let stamp = self.stamp() + 1;
        let mut pending = Pending::default();
        let before = writes.into_iter().map(|write| self.put(write, stamp, &mut pending).1).collect();
        self.publish(stamp, pending, set_version);
        before
    }

    /// Replaces all values whose keys satisfy `within`, in one atomic step. `within` must return `true` for the keys of
    /// all writes. A value is not written if `is_same` returns `true` for the stored value and the new value.
    pub(crate) fn replace(
        &mut self,
        writes: Vec<Write<V>>,
        within: impl Fn(&ObjectKey) -> bool,
        is_same: impl Fn(&V, &V) -> bool,
        set_version: impl FnOnce(&mut String),
    ) -> Replaced<V> {
        let stamp = self.stamp() + 1;
        let mut pending = Pending::default();
        // The slots that the writes use, as one bit per slot and one word per page.
        let mut seen = vec![Vec::<u64>::new(); self.store.shards.len()];
        let mut before = Vec::with_capacity(writes.len());
        for write in writes {
            let (place, value) = match self.same(&write, &is_same) {
                Some((place, value)) => (Some(place), Some(value)),
                None => self.put(write, stamp, &mut pending),
            };
            if let Some(Place { shard, slot, .. }) = place {
                let (seen, page) = (&mut seen[shard as usize], slot as usize / PAGE);
                seen.resize(seen.len().max(page + 1), 0);
                seen[page] |= 1 << (slot as usize % PAGE);
            }
            before.push(value);
        }
        let mut deleted = Vec::new();
        for (shard, seen) in seen.iter().enumerate() {
            let mut at = 0;
            while let Some(gone) = self.unseen(shard, at, seen.get(at).copied().unwrap_or_default()) {
                for key in gone.into_iter().filter(&within) {
                    let write = Write { key: key.clone(), value: None, values: Vec::new() };
                    deleted.extend(self.put(write, stamp, &mut pending).1.map(|value| (key, value)));
                }
                at += 1;
            }
        }
        self.publish(stamp, pending, set_version);
        Replaced { before, deleted }
    }

    pub(crate) fn set_version(&mut self, set_version: impl FnOnce(&mut String)) {
        set_version(&mut self.store.now.lock().resource_version);
    }

    pub(crate) fn add_values(&mut self, key: &ObjectKey, stamp: u64, index: u32, values: &[String]) {
        let (home, hash) = self.store.home(key.as_str());
        let mut shard = self.store.shards[home as usize].write();
        if let Some(slot) = shard.find(hash, key) {
            shard.add_values(&self.store.hasher, slot, stamp, index, values);
        }
    }

    pub(crate) fn forget_index(&mut self, index: u32) {
        for shard in &self.store.shards {
            let mut page = 0;
            loop {
                let mut shard = shard.write();
                if shard.page(page).is_none() {
                    break;
                }
                shard.forget_index(page, index);
                page += 1;
            }
        }
    }

    fn same(&self, write: &Write<V>, is_same: impl Fn(&V, &V) -> bool) -> Option<(Place, V)> {
        let (home, hash) = self.store.home(write.key.as_str());
        let shard = self.store.shards[home as usize].read();
        let slot = shard.find(hash, &write.key)?;
        let known = shard.newest(slot)?;
        is_same(known, write.value.as_ref()?).then(|| (Place { shard: home, hash, slot }, known.clone()))
    }

    /// Writes a version that is not visible yet. The superseded version is kept at least until the commit is visible.
    fn put(&self, write: Write<V>, stamp: u64, pending: &mut Pending) -> (Option<Place>, Option<V>) {
        let is_there = write.value.is_some();
        let (home, hash) = self.store.home(write.key.as_str());
        let mut shard = self.store.shards[home as usize].write();
        let Some((slot, before)) = shard.put(&self.store.hasher, hash, write, stamp) else { return (None, None) };
        let place = Place { shard: home, hash, slot };
        pending.count(existed(&before), is_there);
        let value = match before {
            // No reader can read the version in `before`, because it is a deletion or was written by the current
            // commit.
            Some(before) if before.value.is_none() || before.stamp == stamp => shard.discard(hash, slot, before),
            Some(before) => {
                pending.superseded.push(Kept { place, from: before.stamp, until: stamp });
                let value = before.value.clone();
                shard.keep(slot, before, stamp);
                value
            }
            None => None,
        };
        (Some(place), value)
    }

    fn publish(&mut self, stamp: u64, mut pending: Pending, set_version: impl FnOnce(&mut String)) {
        let mut now = self.store.now.lock();
        pending.publish(&mut now, set_version);
        self.store.visible.store(stamp, Ordering::Release);
        drop(now);
        self.superseded.append(&mut pending.superseded);
    }

    /// Returns the keys in a page whose bits are not set in `seen`. Returns `None` if there is no such page.
    fn unseen(&self, shard: usize, page: usize, seen: u64) -> Option<Vec<ObjectKey>> {
        let shard = self.store.shards[shard].read();
        let page = shard.page(page)?;
        let gone = (0..PAGE).filter(|at| seen & 1 << at == 0 && page.newest(*at).is_some());
        Some(gone.filter_map(|at| page.key(at).cloned()).collect())
    }
}

impl<V: Value> Drop for Writer<'_, V> {
    fn drop(&mut self) {
        self.store.settle(std::mem::take(&mut self.superseded));
    }
}

fn existed<V>(before: &Option<Version<V>>) -> bool {
    before.as_ref().is_some_and(|version| version.value.is_some())
}
