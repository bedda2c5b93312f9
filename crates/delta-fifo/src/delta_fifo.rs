//! The queue that keeps every change, grouped by key.

use std::fmt;
use std::hash::Hash;

use crate::config::KeyFunc;
use crate::line::Line;
use crate::progress::Progress;
use crate::{
    BoxError, DeletedFinalStateUnknown, DeletedObject, Delta, DeltaFifoConfig, Deltas, KeyError, Store, StoreError,
};

/// A queue that keeps every change, grouped by key: client-go's `DeltaFIFO`.
///
/// Its producer says what happens to objects; its consumer takes one key at a time, with everything that has happened to it
/// since its last turn. Keys come out in the order in which they went in, and a key keeps its place while changes join it. Of
/// two deletions in a row one is kept; all other changes stay as they are.
///
/// With [known objects](DeltaFifoConfig::known_objects), which are what the consumer holds, it finds deletions that nobody saw: an object that the consumer
/// knows and a new list does not have is deleted, and comes out as a [tombstone](DeletedFinalStateUnknown). So the consumer
/// has to bring its objects up to date before anything else is done to the queue.
///
/// It is a plain struct: it takes no lock and never waits. [`SharedFifo`](crate::SharedFifo) puts it between threads or tasks.
///
/// It has no bound: a producer that is faster than the consumer fills it with one delta a change.
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
    /// How many lists have come.
    lists: u64,
    progress: Progress,
}

struct Entry<K, T> {
    deltas: Deltas<K, T>,
    /// The newest list when a change of the key last came.
    list: u64,
}

/// What a queue gives its consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped<K, T> {
    /// Whose changes these are.
    pub key: K,
    /// The changes.
    pub deltas: Deltas<K, T>,
    /// Whether the key belongs to the first list.
    pub is_in_initial_list: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> DeltaFifo<K, T> {
    /// Creates an empty queue. `key_func` returns the key of an object and must always return the same key for the same object.
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
    /// [`StoreError::Key`] if it has no key, [`StoreError::Transform`] if the transformer refuses it. Then nothing is queued.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.progress.changed();
        self.enqueue(object, Delta::Added)
    }

    /// Queues an update of an object.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.progress.changed();
        self.enqueue(object, Delta::Updated)
    }

    /// Queues that an object is gone; `object` is its last state.
    ///
    /// This does nothing if the key is neither queued nor among the known objects. If the known object cannot be looked up, the
    /// deletion is queued.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add). After [`StoreError::Key`] the queue is as if it had not been called.
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

    /// Queues that an object is gone whose last state nobody saw. Like [`delete`](Self::delete), it does nothing for an unknown
    /// key.
    pub fn delete_unseen(&mut self, tombstone: DeletedFinalStateUnknown<K, T>) {
        self.progress.changed();
        if self.is_known(&tombstone.key) {
            self.append(tombstone.key.clone(), Delta::Deleted(DeletedObject::Tombstone(tombstone)));
        }
    }

    /// Queues that these are all objects there are: each of them, and a tombstone for every other key that is queued or known.
    /// The tombstone has the newest queued state, or else the known one, or none if that cannot be looked up.
    ///
    /// The resourceVersion is for other stores.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add). What comes before the object at fault stays queued.
    pub fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let delta = if self.config.emit_replaced { Delta::Replaced } else { Delta::Sync };
        self.lists += 1;
        for object in objects {
            self.enqueue(object, delta)?;
        }
        // Queued keys first: what is queued is newer than what is known.
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

    /// Queues each known object again, as [`Delta::Sync`], except those that are queued, whose known state is old, and those
    /// that cannot be looked up. Without known objects it does nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Key`] if a known object has no key.
    pub fn resync(&mut self) -> Result<(), StoreError> {
        for object in self.unqueued().into_iter().filter_map(|(_, object)| object) {
            let key = self.key_of(&object)?;
            if self.line.place_of(&key).is_none() {
                self.append(key, Delta::Sync(object));
            }
        }
        Ok(())
    }

    /// Puts changes that were popped back at the end of the queue, unless newer ones of their key have been queued since.
    ///
    /// # Errors
    ///
    /// [`StoreError::Key`] if the object of the newest change has no key.
    pub fn add_if_not_present(&mut self, deltas: Deltas<K, T>) -> Result<(), StoreError> {
        let key = self.key_of_deltas(&deltas)?;
        self.progress.changed();
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            self.line.push_back(hash, key, Entry { deltas, list: 0 });
        }
        Ok(())
    }

    /// Takes out the key that has waited longest, with all its changes. The call also says that the one before has been
    /// [processed](Self::processed). None: no key waits.
    pub fn pop(&mut self) -> Option<Popped<K, T>> {
        self.progress.processed();
        let (key, Entry { deltas, .. }) = self.line.pop_front()?;
        Some(Popped { key, deltas, is_in_initial_list: self.progress.popped(1) })
    }

    /// Marks the popped items as processed.
    pub fn processed(&mut self) {
        self.progress.processed();
    }

    /// Whether the first list has been processed: all keys of the first replacement, if that came before anything else. If
    /// something else came first, it is true from then on.
    pub fn has_synced(&self) -> bool {
        self.progress.has_synced()
    }

    /// Closes the queue. Queued items can still be popped, and later additions are still queued.
    pub fn close(&mut self) {
        self.progress.close();
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// The newest state of each queued object. A key that has none, since its newest change is a bare tombstone, is left out.
    pub fn list(&self) -> Vec<T> {
        self.line.iter().filter_map(|(.., entry)| entry.deltas.newest().object().cloned()).collect()
    }

    /// The queued keys, in their order.
    pub fn list_keys(&self) -> Vec<K> {
        self.line.iter().map(|(_, key, _)| key.clone()).collect()
    }

    /// The changes that wait for the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function if the object has no key.
    pub fn get(&self, object: &T) -> Result<Option<&Deltas<K, T>>, KeyError> {
        Ok(self.get_by_key(&self.key_of(object)?))
    }

    /// The changes that wait for a key.
    pub fn get_by_key(&self, key: &K) -> Option<&Deltas<K, T>> {
        Some(&self.line[self.line.place_of(key)?].deltas)
    }

    /// Returns the number of queued keys.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether the queue looks at the objects that its consumer knows.
    pub fn has_known_objects(&self) -> bool {
        self.config.known_objects.is_some()
    }

    /// The key of an object.
    ///
    /// # Errors
    ///
    /// The key function's.
    pub fn key_of(&self, object: &T) -> Result<K, KeyError> {
        (self.key_func)(object)
    }

    /// The key of a change: a tombstone brings its own.
    ///
    /// # Errors
    ///
    /// The key function's.
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

    /// The key of changes, which is that of the newest.
    ///
    /// # Errors
    ///
    /// The key function's.
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

    /// What is known and not queued. Without an object: it cannot be looked up.
    fn unqueued(&self) -> Vec<(K, Option<T>)> {
        let Some(known) = &self.config.known_objects else { return Vec::new() };
        let unqueued = known.list_keys().into_iter().filter(|key| self.line.place_of(key).is_none());
        let look_up = |key| {
            let object = known.get_by_key(&key).unwrap_or_else(|error| self.lookup_failed(&key, &error));
            (key, object)
        };
        unqueued.map(look_up).collect()
    }

    /// Whether the key is queued or known. A known object that cannot be looked up may be there.
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
