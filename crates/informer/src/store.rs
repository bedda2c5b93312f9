//! A multi-version store of values by key.
//!
//! A commit writes all its values with one stamp, and becomes visible in one step: the store takes over the
//! commit's stamp. A reader reads at a stamp, and sees the newest version of each key that is not newer than the
//! stamp. A superseded version is kept as long as a [`Pin`] has a stamp at which the version was visible.
//!
//! Locks are taken in this order. No lock is held while user code runs, including drops of values:
//!
//! 1. The locks of an informer: its list of subscriptions, and then the queue of one of them, which reads from a
//!    snapshot.
//! 2. `writer`: held by one commit at a time, for the whole commit.
//! 3. The lock of a shard: held for one record, or for a short section of a scan. No thread holds two.
//! 4. `now`: held for the step in which a commit becomes visible, and to pin. A [`View`](crate::View) holds the locks
//!    of several stores.

mod now;
mod pin;
mod record;
mod shard;
mod table;
mod terms;
#[cfg(test)]
mod tests;
mod writer;

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use pintle_meta::ObjectKey;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock};

use now::{Kept, Now};
use shard::Shard;

pub(crate) use pin::{Pin, Reading};
pub(crate) use record::Page;
pub(crate) use writer::Writer;

/// The index of namespaces. The store derives its values from the keys and adds them to the values of a [`Write`].
pub(crate) const NAMESPACES: u32 = 0;

/// The number of records that are processed in one critical section of a shard.
const SECTION: usize = 32;

pub(crate) struct Store<V> {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<Shard<V>>]>,
    /// The stamp up to which commits are visible. It changes under the lock of `now`.
    visible: AtomicU64,
    now: Mutex<Now>,
    writer: Mutex<()>,
}

/// A value of a store. A clone must be cheap, such as a reference count.
pub(crate) trait Value: Clone {
    /// Reads the reference count that a clone will change, to prefetch several counts from memory at once. Returns
    /// `true`.
    fn warm(&self) -> bool;
}

/// The change of one key in a commit.
pub(crate) struct Write<V> {
    pub(crate) key: ObjectKey,
    /// `None` deletes.
    pub(crate) value: Option<V>,
    /// The index values, each with the number of its index, always in the same order.
    pub(crate) values: Vec<(u32, String)>,
}

impl<V: Value> Store<V> {
    /// Creates a store. The number of shards is rounded up to a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let shards = (0..shards.max(1).next_power_of_two()).map(|_| RwLock::new(Shard::new())).collect();
        Self {
            hasher: DefaultHashBuilder::default(),
            shards,
            visible: AtomicU64::new(0),
            now: Mutex::default(),
            writer: Mutex::default(),
        }
    }

    /// Returns the current value.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<V> {
        self.get_at(key, || self.visible())
    }

    /// Returns the current number of values.
    pub(crate) fn len(&self) -> usize {
        self.now.lock().len
    }

    /// Reads the resourceVersion of the last commit.
    pub(crate) fn resource_version<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        read(&self.now.lock().resource_version)
    }

    /// Returns the stamp of the last commit.
    pub(crate) fn stamp(&self) -> u64 {
        self.visible()
    }

    /// Pins the current state, and reads its resourceVersion.
    pub(crate) fn pin<R>(self: &Arc<Self>, read: impl FnOnce(&str) -> R) -> (Pin<V>, R) {
        self.hold().pin(read)
    }

    /// Prevents commits from becoming visible.
    pub(crate) fn hold(self: &Arc<Self>) -> Held<'_, V> {
        Held { store: self, now: self.now.lock() }
    }

    /// Waits for other writers and returns the right to write.
    pub(crate) fn writer(&self) -> Writer<'_, V> {
        Writer::new(self, self.writer.lock())
    }

    /// The stamp is read under the lock of the shard. So the version that is visible at the stamp exists: a version is
    /// only removed under that lock, and after the version that supersedes it is visible.
    fn get_at(&self, key: &ObjectKey, stamp: impl FnOnce() -> u64) -> Option<V> {
        let (shard, hash) = self.home(key.as_str());
        let shard = self.shards[shard as usize].read();
        // This is almost always the right slot, and its value is fetched from memory while the keys are compared.
        let likely = shard.find_hash(hash)?;
        let is_there = shard.newest(likely).is_some_and(Value::warm);
        let slot = match is_there && shard.is_of(likely, key) {
            true => likely,
            false => shard.find(hash, key)?,
        };
        shard.value_at(slot, stamp()).cloned()
    }

    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Returns the shard of a key, and the hash for its table.
    fn home(&self, key: &str) -> (u32, u32) {
        let hash = self.hasher.hash_one(key);
        ((hash >> 32) as u32 & (self.shards.len() - 1) as u32, hash as u32)
    }

    /// Drops superseded versions, unless a pin needs them.
    fn settle(&self, mut superseded: Vec<Kept>) {
        superseded.sort_unstable_by_key(|kept| kept.place.shard);
        for run in superseded.chunk_by(|one, next| one.place.shard == next.place.shard) {
            for section in run.chunks(SECTION) {
                let mut unwanted = section.to_vec();
                let mut now = self.now.lock();
                unwanted.retain(|kept| !now.claim(*kept));
                drop(now);
                // No later pin can need them, since it pins the newer versions.
                let mut shard = self.shards[section[0].place.shard as usize].write();
                let release = |kept: &Kept| shard.release(kept.place.hash, kept.place.slot, kept.from);
                let released: Vec<Option<V>> = unwanted.iter().map(release).collect();
                drop(shard);
                drop(released);
            }
        }
    }
}

/// A store in which no commit can become visible. Use it only briefly, because writers wait.
pub(crate) struct Held<'a, V> {
    store: &'a Arc<Store<V>>,
    now: MutexGuard<'a, Now>,
}

impl<V: Value> Held<'_, V> {
    pub(crate) fn pin<R>(mut self, read: impl FnOnce(&str) -> R) -> (Pin<V>, R) {
        let stamp = self.store.visible.load(Ordering::Relaxed);
        self.now.pin(stamp);
        (Pin::new(self.store.clone(), stamp, self.now.len), read(&self.now.resource_version))
    }
}
