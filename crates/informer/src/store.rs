//! A multi-version store of values by key.
//!
//! A stamp is the number of a commit. All values written by a commit have its stamp. The commit becomes visible in one
//! atomic step, when the store sets its own stamp to the stamp of the commit. A reader chooses a stamp, and reads the
//! newest version of each key up to this stamp. A superseded version is kept as long as a [`Pin`] can read it.
//!
//! No lock is held while user code runs. Dropping a value can also run user code. A thread that takes several locks
//! must take them in this order:
//!
//! 1. The informer's locks: first the lock of its list of subscriptions, and then the lock of one subscription's queue,
//!    which reads from a snapshot.
//! 2. The lock `writer`, which is held during a whole commit, so that commits do not overlap.
//! 3. The lock of a shard, which is held while one record is changed, or during a short section of a scan. A thread
//!    never holds the locks of two shards.
//! 4. The lock `now`, which is held while a commit becomes visible and while a pin is created or removed. A
//!    [`View`](crate::View) holds the `now` locks of several stores.

mod now;
mod pages;
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

pub(crate) use pages::Pages;
pub(crate) use pin::{Pin, Reading};
pub(crate) use record::Page;
pub(crate) use writer::Writer;

/// The number of the namespace index. The store derives the values of this index from the keys and adds them to each
/// [`Write`].
pub(crate) const NAMESPACES: u32 = 0;

/// The maximum number of records that are processed while a shard is locked.
const SECTION: usize = 32;

pub(crate) struct Store<V> {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<Shard<V>>]>,
    /// The stamp of the last visible commit. The stamp changes only while the lock `now` is held.
    visible: AtomicU64,
    now: Mutex<Now>,
    writer: Mutex<()>,
}

/// A stored value. Cloning a value must be as cheap as cloning an `Arc`.
pub(crate) trait Value: Clone {
    /// Reads the value's reference count, which brings the count into the processor's cache for a later clone. If
    /// several values are warmed before they are cloned, the processor can fetch their counts concurrently. Always
    /// returns `true`.
    fn warm(&self) -> bool;
}

pub(crate) struct Write<V> {
    pub(crate) key: ObjectKey,
    pub(crate) value: Option<V>,
    /// The index values, each with the number of its index. The indices are always in the same order.
    pub(crate) values: Vec<(u32, String)>,
}

impl<V: Value> Store<V> {
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

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<V> {
        self.get_at(key, || self.visible())
    }

    pub(crate) fn len(&self) -> usize {
        self.now.lock().len
    }

    pub(crate) fn resource_version<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        read(&self.now.lock().resource_version)
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.visible()
    }

    pub(crate) fn pin<R>(self: &Arc<Self>, read: impl FnOnce(&str) -> R) -> (Pin<V>, R) {
        self.hold().pin(read)
    }

    /// Prevents commits from becoming visible until the returned `Held` is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Held<'_, V> {
        Held { store: self, now: self.now.lock() }
    }

    pub(crate) fn writer(&self) -> Writer<'_, V> {
        Writer::new(self, self.writer.lock())
    }

    /// Returns the value of the key at a stamp. This method calls `stamp` while the shard is locked, so that the
    /// version at the returned stamp cannot be removed during the read. A version is removed only while the shard is
    /// locked, and only after the next version is visible.
    fn get_at(&self, key: &ObjectKey, stamp: impl FnOnce() -> u64) -> Option<V> {
        let (shard, hash) = self.home(key.as_str());
        let shard = self.shards[shard as usize].read();
        // Fetch the value of the first slot with this hash while the keys are compared, because this slot almost always
        // has the requested key.
        let likely = shard.find_hash(hash)?;
        let is_there = shard.newest(likely).is_some_and(Value::warm);
        let slot = if is_there && shard.is_of(likely, key) { likely } else { shard.find(hash, key)? };
        shard.value_at(slot, stamp()).cloned()
    }

    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    fn home(&self, key: &str) -> (u32, u32) {
        let hash = self.hasher.hash_one(key);
        ((hash >> 32) as u32 & (self.shards.len() - 1) as u32, hash as u32)
    }

    /// Drops superseded versions that no pin needs.
    fn settle(&self, mut superseded: Vec<Kept>) {
        superseded.sort_unstable_by_key(|kept| kept.place.shard);
        for run in superseded.chunk_by(|one, next| one.place.shard == next.place.shard) {
            for section in run.chunks(SECTION) {
                let mut unwanted = section.to_vec();
                let mut now = self.now.lock();
                unwanted.retain(|kept| !now.claim(*kept));
                drop(now);
                // A pin that is created later reads newer versions, so it does not need the superseded versions.
                let mut shard = self.shards[section[0].place.shard as usize].write();
                let release = |kept: &Kept| shard.release(kept.place.hash, kept.place.slot, kept.from);
                let released: Vec<Option<V>> = unwanted.iter().map(release).collect();
                drop(shard);
                drop(released);
            }
        }
    }
}

/// A guard that prevents commits from becoming visible. Drop it soon, because writers wait for it.
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
