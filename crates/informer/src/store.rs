//! Values by key, of which many versions can be seen at once.
//!
//! A commit gives all that it writes one stamp, and becomes visible by one step: the store's stamp becomes its own. Who reads does so at
//! a stamp, and sees of each key the newest version that is not younger. A version that was superseded is kept for as long as a
//! [`Pin`] is of a stamp at which it was visible, and not longer.
//!
//! Locks are taken in this order, and none is held while code of a user's runs, drops of values included:
//!
//! 1. those of an informer: its list of subscriptions, and then the queue of one of them, which reads on in a snapshot.
//! 2. `writer`: by one commit at a time, for the whole of it.
//! 3. that of a shard: for one record, or for a short section of a scan. Nobody holds two.
//! 4. `now`: for the step in which a commit becomes visible, and to pin. A [`View`](crate::View) holds those of several stores.

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

/// The index of namespaces. Its values are told by the keys, the store adds them to what a [`Write`] has.
pub(crate) const NAMESPACES: u32 = 0;

/// So much is done under one lock of a shard while others may wait for it.
const SECTION: usize = 32;

pub(crate) struct Store<V> {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<Shard<V>>]>,
    /// The stamp up to which commits are visible. It changes under `now`.
    visible: AtomicU64,
    now: Mutex<Now>,
    writer: Mutex<()>,
}

/// What a store holds: cheap to clone, which counts a reference.
pub(crate) trait Value: Clone {
    /// Reads the count that a clone is about to change. So several of them come from memory at once, which clones wait for one by one.
    /// True.
    fn warm(&self) -> bool;
}

/// What a commit makes of a key.
pub(crate) struct Write<V> {
    pub(crate) key: ObjectKey,
    /// `None` deletes.
    pub(crate) value: Option<V>,
    /// The values of indices, each with the number of its index, in the same order each time.
    pub(crate) values: Vec<(u32, String)>,
}

impl<V: Value> Store<V> {
    /// With so many shards, rounded up to a power of two.
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

    /// What is there now.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<V> {
        self.get_at(key, || self.visible())
    }

    /// How many values there are now.
    pub(crate) fn len(&self) -> usize {
        self.now.lock().len
    }

    /// The resourceVersion that the last commit was given.
    pub(crate) fn resource_version<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        read(&self.now.lock().resource_version)
    }

    /// The stamp of the last commit.
    pub(crate) fn stamp(&self) -> u64 {
        self.visible()
    }

    /// Keeps what is visible now, and reads the resourceVersion that belongs to it.
    pub(crate) fn pin<R>(self: &Arc<Self>, read: impl FnOnce(&str) -> R) -> (Pin<V>, R) {
        self.hold().pin(read)
    }

    /// Keeps the store from moving on.
    pub(crate) fn hold(self: &Arc<Self>) -> Held<'_, V> {
        Held { store: self, now: self.now.lock() }
    }

    /// The right to write, once others are done.
    pub(crate) fn writer(&self) -> Writer<'_, V> {
        Writer::new(self, self.writer.lock())
    }

    /// The stamp is read under the lock of the shard. So a version that is visible at it is there: it goes under that lock, and only when
    /// the one that supersedes it is visible.
    fn get_at(&self, key: &ObjectKey, stamp: impl FnOnce() -> u64) -> Option<V> {
        let (shard, hash) = self.home(key.as_str());
        let shard = self.shards[shard as usize].read();
        // As good as always it is the one, and its value comes from memory while the keys are compared.
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

    /// The shard of a key, and what its table knows it by.
    fn home(&self, key: &str) -> (u32, u32) {
        let hash = self.hasher.hash_one(key);
        ((hash >> 32) as u32 & (self.shards.len() - 1) as u32, hash as u32)
    }

    /// Lets go of versions that were superseded, unless a pin wants them.
    fn settle(&self, mut superseded: Vec<Kept>) {
        superseded.sort_unstable_by_key(|kept| kept.place.shard);
        for run in superseded.chunk_by(|one, next| one.place.shard == next.place.shard) {
            for section in run.chunks(SECTION) {
                let mut unwanted = section.to_vec();
                let mut now = self.now.lock();
                unwanted.retain(|kept| !now.claim(*kept));
                drop(now);
                // Nobody will want them any more: who pins now pins what superseded them.
                let mut shard = self.shards[section[0].place.shard as usize].write();
                let release = |kept: &Kept| shard.release(kept.place.hash, kept.place.slot, kept.from);
                let released: Vec<Option<V>> = unwanted.iter().map(release).collect();
                drop(shard);
                drop(released);
            }
        }
    }
}

/// A store that does not move on while this is there. Short-lived, since its writer waits.
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
