//! A queue that keeps every change, grouped by key.

use std::fmt;
use std::hash::Hash;

use crate::config::{DeltaFifoConfig, KeyFunc};
use crate::delta::{DeletedFinalStateUnknown, DeletedObject, Delta, Deltas};
use crate::error::{BoxError, KeyError, StoreError};
use crate::line::Line;
use crate::progress::Progress;
use crate::store::Store;

/// A queue that keeps every change, grouped by key, like client-go's `DeltaFIFO`.
///
/// The producer queues changes to objects. The consumer pops one key at a time, together with all changes that were
/// queued since the key was last popped. The queue pops keys in FIFO order. Queuing more changes of a key does not
/// change the position of the key. If two consecutive changes of a key are deletions, the queue keeps only one of them.
/// All other changes stay separate.
///
/// With [known objects](DeltaFifoConfig::known_objects), the queue also detects missed deletions. If a new list does
/// not contain an object that the consumer knows, the queue delivers a deletion with a
/// [tombstone](DeletedFinalStateUnknown). To detect missed deletions, the queue needs up-to-date known objects, so the
/// consumer must apply the changes of each popped key before it calls the queue again.
///
/// The queue takes no lock and never waits. To share the queue between threads or tasks, use a
/// [`SharedFifo`](crate::SharedFifo).
///
/// The queue is unbounded: it keeps each change until the consumer pops it.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{DeltaFifo, DeltaFifoConfig, DeltaType};
///
/// let mut fifo = DeltaFifo::new(|&(name, _): &(&'static str, u32)| Ok(name), DeltaFifoConfig::default());
/// fifo.add(("a", 1))?;
/// fifo.add(("b", 1))?;
/// fifo.update(("a", 2))?;
/// fifo.delete(("a", 2))?;
///
/// let popped = fifo.pop().expect("two keys wait");
/// let types: Vec<DeltaType> = popped.deltas.iter().map(|delta| delta.delta_type()).collect();
/// assert_eq!(popped.key, "a");
/// assert_eq!(types, [DeltaType::Added, DeltaType::Updated, DeltaType::Deleted]);
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct DeltaFifo<K, T> {
    key_func: KeyFunc<K, T>,
    config: DeltaFifoConfig<K, T>,
    line: Line<K, Entry<K, T>>,
    lists: u64,
    progress: Progress,
}

struct Entry<K, T> {
    deltas: Deltas<K, T>,
    list: u64,
}

/// A key and its changes, as popped from a [`DeltaFifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped<K, T> {
    /// The popped key.
    pub key: K,
    /// The changes of the key.
    pub deltas: Deltas<K, T>,
    /// Whether the key was part of the first list.
    pub is_in_initial_list: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> DeltaFifo<K, T> {
    /// Creates an empty queue. `key_func` returns an object's key, and must always return the same key for the same
    /// object.
    pub fn new(
        key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static,
        config: DeltaFifoConfig<K, T>,
    ) -> Self {
        Self { key_func: Box::new(key_func), config, line: Line::new(), lists: 0, progress: Progress::default() }
    }

    /// Queues the addition of an object.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the object has no key, and [`StoreError::Transform`] if the transformer rejects
    /// the object. An object that causes an error is not queued.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.progress.changed();
        self.enqueue(object, Delta::Added)
    }

    /// Queues an update of an object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.progress.changed();
        self.enqueue(object, Delta::Updated)
    }

    /// Queues the deletion of an object. `object` is the final state of the object.
    ///
    /// Does nothing if the key is not queued and no known object has this key. If the lookup of the known object fails,
    /// the deletion is queued.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add). If the error is [`StoreError::Key`], the queue is unchanged.
    pub fn delete(&mut self, object: T) -> Result<(), StoreError> {
        let key = self.key_of(&object)?;
        self.progress.changed();
        if !self.is_known(&key) {
            return Ok(());
        }
        let object = self.transform(object)?;
        self.append(key, Delta::Deleted(DeletedObject::Observed(object)));
        Ok(())
    }

    /// Queues the deletion of an object whose final state was not observed. Like [`delete`](Self::delete), does nothing
    /// if the key is unknown.
    pub fn delete_unseen(&mut self, tombstone: DeletedFinalStateUnknown<K, T>) {
        self.progress.changed();
        if self.is_known(&tombstone.key) {
            self.append(tombstone.key.clone(), Delta::Deleted(DeletedObject::Tombstone(tombstone)));
        }
    }

    /// Queues a list that replaces all objects. The queue delivers each listed object, and a tombstone for every other
    /// key that is queued or known. Each tombstone contains the object's newest queued state, or the known state if no
    /// state is queued. A tombstone contains no state if the lookup of the known object fails.
    ///
    /// This queue ignores `resource_version`, which other stores use.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add). Objects that precede the failed object in the list stay queued.
    pub fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let delta = if self.config.emit_replaced { Delta::Replaced } else { Delta::Sync };
        self.lists += 1;
        for object in objects {
            self.enqueue(object, delta)?;
        }
        // For a key that is both queued and known, use the queued state, which is newer.
        let unlisted = self.line.iter().filter(|(.., entry)| entry.list < self.lists);
        let gone: Vec<_> =
            unlisted.map(|(place, key, entry)| (place, key.clone(), entry.deltas.newest().object().cloned())).collect();
        for (place, key, object) in gone {
            self.line[place].deltas.push(tombstone(key, object));
        }
        for (key, object) in self.unqueued() {
            self.append(key.clone(), tombstone(key, object));
        }
        self.progress.listed(self.line.len());
        Ok(())
    }

    /// Queues each known object again as [`Delta::Sync`]. Skips objects whose lookup fails, and objects with queued
    /// changes, because their known state is outdated. Does nothing if the queue has no known objects.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if a known object has no key.
    pub fn resync(&mut self) -> Result<(), StoreError> {
        for object in self.unqueued().into_iter().filter_map(|(_, object)| object) {
            let key = self.key_of(&object)?;
            if self.line.place_of(&key).is_none() {
                self.append(key, Delta::Sync(object));
            }
        }
        Ok(())
    }

    /// Queues popped changes again, at the end of the queue, unless the queue already contains newer changes to the
    /// same key.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the newest change's object has no key.
    pub fn add_if_not_present(&mut self, deltas: Deltas<K, T>) -> Result<(), StoreError> {
        let key = self.key_of_deltas(&deltas)?;
        self.progress.changed();
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            self.line.push_back(hash, key, Entry { deltas, list: 0 });
        }
        Ok(())
    }

    /// Removes the oldest key and returns it with all its changes. Returns `None` if the queue is empty. `pop` also
    /// marks the previously popped key as [processed](Self::processed).
    pub fn pop(&mut self) -> Option<Popped<K, T>> {
        self.progress.processed();
        let (key, Entry { deltas, .. }) = self.line.pop_front()?;
        Some(Popped { key, deltas, is_in_initial_list: self.progress.popped(1) })
    }

    /// Marks the keys that were popped so far as processed. The first list counts as processed once all its items are
    /// processed.
    pub fn processed(&mut self) {
        self.progress.processed();
    }

    /// Returns `true` if the consumer has processed the first list. A change before the first call to `replace` also
    /// marks the queue as synced.
    pub fn has_synced(&self) -> bool {
        self.progress.has_synced()
    }

    /// Closes the queue. The remaining items can still be popped, and new items can still be queued.
    pub fn close(&mut self) {
        self.progress.close();
    }

    /// Returns `true` if the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// Returns the newest state of each queued object. Skips keys whose newest change is a tombstone without a state.
    pub fn list(&self) -> Vec<T> {
        self.line.iter().filter_map(|(.., entry)| entry.deltas.newest().object().cloned()).collect()
    }

    /// Returns the queued keys, in pop order.
    pub fn list_keys(&self) -> Vec<K> {
        self.line.iter().map(|(_, key, _)| key.clone()).collect()
    }

    /// Returns the queued changes for the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if the object has no key.
    pub fn get(&self, object: &T) -> Result<Option<&Deltas<K, T>>, KeyError> {
        Ok(self.get_by_key(&self.key_of(object)?))
    }

    /// Returns the queued changes for `key`.
    pub fn get_by_key(&self, key: &K) -> Option<&Deltas<K, T>> {
        Some(&self.line[self.line.place_of(key)?].deltas)
    }

    /// Returns the number of queued keys.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns `true` if the queue uses known objects.
    pub fn has_known_objects(&self) -> bool {
        self.config.known_objects.is_some()
    }

    /// Returns the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns an error if the key function fails for the object.
    pub fn key_of(&self, object: &T) -> Result<K, KeyError> {
        (self.key_func)(object)
    }

    /// Returns the key of `delta`. If `delta` contains a tombstone, returns the tombstone's key.
    ///
    /// # Errors
    ///
    /// Returns an error if the key function fails for the object.
    pub fn key_of_delta(&self, delta: &Delta<K, T>) -> Result<K, KeyError> {
        match delta {
            Delta::Deleted(DeletedObject::Tombstone(tombstone)) => Ok(tombstone.key.clone()),
            Delta::Deleted(DeletedObject::Observed(object))
            | Delta::Added(object)
            | Delta::Updated(object)
            | Delta::Replaced(object)
            | Delta::Sync(object) => self.key_of(object),
        }
    }

    /// Returns the key of the newest change in `deltas`.
    ///
    /// # Errors
    ///
    /// Returns an error if the key function fails for the object.
    pub fn key_of_deltas(&self, deltas: &Deltas<K, T>) -> Result<K, KeyError> {
        self.key_of_delta(deltas.newest())
    }

    fn enqueue(&mut self, object: T, delta: fn(T) -> Delta<K, T>) -> Result<(), StoreError> {
        let key = self.key_of(&object)?;
        let object = self.transform(object)?;
        self.append(key, delta(object));
        Ok(())
    }

    fn append(&mut self, key: K, delta: Delta<K, T>) {
        let (hash, list) = (self.line.hash(&key), self.lists);
        match self.line.find(hash, &key) {
            Some(place) => {
                let entry = &mut self.line[place];
                entry.deltas.push(delta);
                entry.list = list;
            }
            None => _ = self.line.push_back(hash, key, Entry { deltas: Deltas::new(delta), list }),
        }
    }

    fn transform(&self, object: T) -> Result<T, StoreError> {
        match &self.config.transformer {
            Some(transformer) => transformer(object).map_err(StoreError::Transform),
            None => Ok(object),
        }
    }

    /// Returns the known objects that are not queued, together with their keys. An object is `None` if its lookup
    /// failed.
    fn unqueued(&self) -> Vec<(K, Option<T>)> {
        let Some(known) = &self.config.known_objects else { return Vec::new() };
        let unqueued = known.list_keys().into_iter().filter(|key| self.line.place_of(key).is_none());
        let look_up = |key| {
            let object = known.get_by_key(&key).unwrap_or_else(|error| self.lookup_failed(&key, &error));
            (key, object)
        };
        unqueued.map(look_up).collect()
    }

    /// Returns `true` if the key is queued or known, or if the lookup of the known object fails.
    fn is_known(&self, key: &K) -> bool {
        if self.line.place_of(key).is_some() {
            return true;
        }
        match self.config.known_objects.as_ref().map(|known| known.get_by_key(key)) {
            Some(Ok(object)) => object.is_some(),
            Some(Err(error)) => {
                self.lookup_failed(key, &error);
                true
            }
            None => false,
        }
    }

    fn lookup_failed(&self, key: &K, error: &BoxError) -> Option<T> {
        if let Some(handler) = &self.config.on_lookup_error {
            handler(key, error);
        }
        None
    }
}

fn tombstone<K, T>(key: K, object: Option<T>) -> Delta<K, T> {
    Delta::Deleted(DeletedObject::Tombstone(DeletedFinalStateUnknown { key, object }))
}

impl<K: Clone + Eq + Hash, T: Clone> Store<K, T> for DeltaFifo<K, T> {
    type Entry = Deltas<K, T>;

    fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.add(object)
    }

    fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.update(object)
    }

    fn delete(&mut self, object: T) -> Result<(), StoreError> {
        self.delete(object)
    }

    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError> {
        self.replace(objects, resource_version)
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        self.resync()
    }

    fn list(&self) -> Vec<T> {
        self.list()
    }

    fn list_keys(&self) -> Vec<K> {
        self.list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<Deltas<K, T>>, KeyError> {
        Ok(self.get(object)?.cloned())
    }

    fn get_by_key(&self, key: &K) -> Option<Deltas<K, T>> {
        self.get_by_key(key).cloned()
    }
}

impl<K: fmt::Debug, T> fmt::Debug for DeltaFifo<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue: Vec<&K> = self.line.iter().map(|(_, key, _)| key).collect();
        f.debug_struct("DeltaFifo").field("queue", &queue).field("progress", &self.progress).finish_non_exhaustive()
    }
}
