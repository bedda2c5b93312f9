//! A queue that keeps every change to every object, in order.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use crate::config::{KeyFunc, RealFifoConfig};
use crate::delta::{DeletedFinalStateUnknown, DeletedObject, Delta};
use crate::error::{KeyError, StoreError};
use crate::progress::Progress;

/// A queue that keeps every change in order, like client-go's `RealFIFO`.
///
/// The queue does not group or merge changes, so the consumer receives all states of all objects in FIFO order. The
/// queue also delivers deletions of objects that the consumer does not know.
///
/// The queue can deliver a list in two ways. With [known objects](RealFifoConfig::known_objects), the queue first
/// delivers a tombstone for each object that is missing from the list. After the tombstones, the queue delivers each
/// listed object as [`Delta::Replaced`]. Without known objects, the queue is *atomic*: it delivers the list as a single
/// item. The consumer compares an atomic list with its own objects, and can replace all objects atomically.
///
/// The queue takes no lock and never waits. The queue is unbounded: it keeps each change as a separate item until the
/// consumer pops the item. Use a [`SharedFifo`](crate::SharedFifo) to share the queue between threads or tasks, or to
/// limit its length.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{Item, RealFifo, RealFifoConfig};
///
/// let mut fifo = RealFifo::new(|&(name, _): &(&'static str, u32)| Ok(name), RealFifoConfig::default());
/// fifo.replace(vec![("a", 1), ("b", 1)], "17")?;
/// fifo.update(("a", 2))?;
/// fifo.update(("b", 2))?;
/// fifo.update(("a", 3))?;
///
/// let list = fifo.pop_batch(10).expect("four items wait");
/// assert!(list.is_in_initial_list && matches!(&list.items[..], [Item::ReplacedAll { .. }]), "a list comes alone");
/// let batch = fifo.pop_batch(10).expect("three items wait");
/// let keys: Vec<_> = batch.items.iter().filter_map(Item::key).collect();
/// assert_eq!(keys, [&"a", &"b"], "the next change of a waits for the next batch");
/// assert!(fifo.has_synced());
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct RealFifo<K, T> {
    key_func: KeyFunc<K, T>,
    config: RealFifoConfig<K, T>,
    items: VecDeque<Item<K, T>>,
    progress: Progress,
    hasher: DefaultHashBuilder,
    /// The keys of the current batch, each as the hash of the key and the index of the item. This table is a field, so that
    /// all batches reuse its memory.
    keys: HashTable<(u64, usize)>,
}

/// An item of a [`RealFifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<K, T> {
    /// One object changed.
    One {
        /// The key of the object.
        key: K,
        /// The change to the object.
        delta: Delta<K, T>,
    },
    /// A list replaces all objects.
    ReplacedAll {
        /// The listed objects.
        objects: Vec<T>,
        /// The revision of the list.
        resource_version: String,
    },
    /// A resync: the queue delivers all objects again.
    SyncAll,
    /// A bookmark: the queue has delivered all changes up to the bookmark's revision.
    Bookmark {
        /// The revision of the bookmark.
        resource_version: String,
    },
}

/// An item that was popped from a [`RealFifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoppedItem<K, T> {
    /// The popped item.
    pub item: Item<K, T>,
    /// Whether the item was part of the first list.
    pub is_in_initial_list: bool,
}

/// Items that the consumer can process together. A batch contains at least one item. No two items in a batch have the
/// same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<K, T> {
    /// The items, oldest first.
    pub items: Vec<Item<K, T>>,
    /// Whether the items were part of the first list.
    pub is_in_initial_list: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> RealFifo<K, T> {
    /// Creates an empty queue. `key_func` returns an object's key, and must always return the same key for the same object.
    pub fn new(
        key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static,
        config: RealFifoConfig<K, T>,
    ) -> Self {
        Self {
            key_func: Box::new(key_func),
            config,
            items: VecDeque::new(),
            progress: Progress::default(),
            hasher: DefaultHashBuilder::default(),
            keys: HashTable::new(),
        }
    }

    /// Queues the addition of an object.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the object has no key, and [`StoreError::Transform`] if the transformer rejects
    /// the object. An object that causes an error is not queued.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.enqueue(object, Delta::Added)
    }

    /// Queues an update of an object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.enqueue(object, Delta::Updated)
    }

    /// Queues the deletion of an object, even if the object is unknown. `object` is the final state of the object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn delete(&mut self, object: T) -> Result<(), StoreError> {
        self.enqueue(object, |object| Delta::Deleted(DeletedObject::Observed(object)))
    }

    /// Queues the deletion of an object whose final state was not observed. `tombstone` contains the last observed
    /// state of the object.
    pub fn delete_unseen(&mut self, tombstone: DeletedFinalStateUnknown<K, T>) {
        self.progress.changed();
        self.push_tombstone(tombstone);
    }

    /// Queues a list that replaces all objects.
    ///
    /// # Errors
    ///
    /// - [`StoreError::Key`] if an object has no key. After a key error, the queue contains none of the listed objects.
    ///   An atomic queue computes no keys, so it never returns this error.
    /// - [`StoreError::Transform`] if the transformer rejects an object. After a transform error, an atomic queue
    ///   contains no listed objects, and a queue with known objects keeps the objects that precede the rejected object.
    pub fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError> {
        if self.config.known_objects.is_some() {
            self.replace_each(objects)?;
        } else {
            let objects = objects.into_iter().map(|object| self.transform(object)).collect::<Result<_, _>>()?;
            self.items.push_back(Item::ReplacedAll { objects, resource_version: resource_version.into() });
        }
        self.progress.listed(self.items.len());
        Ok(())
    }

    /// Queues a resync of all objects. An atomic queue delivers one [`Item::SyncAll`]. A queue with known objects
    /// delivers each known object that is not queued as a [`Delta::Sync`].
    pub fn resync(&mut self) {
        let Some(known) = &self.config.known_objects else {
            self.items.push_back(Item::SyncAll);
            return;
        };
        let mut keys = known.list_keys();
        {
            let queued: HashSet<&K> = self.items.iter().filter_map(Item::key).collect();
            keys.retain(|key| !queued.contains(key));
        }
        let sync = |key| {
            let delta = Delta::Sync(self.look_up(&key)?);
            Some(Item::One { key, delta })
        };
        let syncs: Vec<_> = keys.into_iter().filter_map(sync).collect();
        self.items.extend(syncs);
    }

    /// Queues a bookmark. A queue with known objects ignores bookmarks.
    pub fn bookmark(&mut self, resource_version: &str) {
        if self.config.known_objects.is_none() {
            self.items.push_back(Item::Bookmark { resource_version: resource_version.into() });
        }
    }

    /// Removes and returns the oldest item, or `None` if the queue is empty. `pop` also marks the previously popped
    /// item as [processed](Self::processed).
    pub fn pop(&mut self) -> Option<PoppedItem<K, T>> {
        self.progress.processed();
        let item = self.items.pop_front()?;
        Some(PoppedItem { item, is_in_initial_list: self.progress.popped(1) })
    }

    /// Removes and returns the oldest items that the consumer can process together: at least one item, and at most
    /// `most` items. Returns `None` if the queue is empty. `pop_batch` also marks the previous batch as
    /// [processed](Self::processed).
    ///
    /// A batch contains no two items with the same key. A batch never mixes items of the initial list with later items.
    /// An item that affects all objects, such as a list, is always returned in a separate batch.
    pub fn pop_batch(&mut self, most: usize) -> Option<Batch<K, T>> {
        self.progress.processed();
        let most = self.progress.initial().map_or(most, |initial| most.min(initial));
        // Limit the capacity, because the batch may contain far fewer than `most` items.
        let mut items = Vec::with_capacity(most.min(self.items.len()).clamp(1, 128));
        items.push(self.items.pop_front()?);
        self.keys.clear();
        while items.len() < most
            && let Some(next) = self.items.front()
        {
            // Hash the first key only if the queue contains a second item.
            let is_apart = (items.len() > 1 || is_new(&mut self.keys, &self.hasher, &[], &items[0]))
                && is_new(&mut self.keys, &self.hasher, &items, next);
            if !is_apart {
                break;
            }
            items.extend(self.items.pop_front());
        }
        let is_in_initial_list = self.progress.popped(items.len());
        Some(Batch { items, is_in_initial_list })
    }

    /// Marks the items that were popped so far as processed.
    pub fn processed(&mut self) {
        self.progress.processed();
    }

    /// Returns `true` if the consumer has processed the first list. A change before the first call to
    /// [`replace`](Self::replace) also marks the queue as synced.
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

    /// Returns the number of queued items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns `true` if the queue uses known objects. A queue without known objects is atomic.
    pub fn has_known_objects(&self) -> bool {
        self.config.known_objects.is_some()
    }

    fn replace_each(&mut self, objects: Vec<T>) -> Result<(), StoreError> {
        let with_key = |object| Ok(((self.key_func)(&object)?, object));
        let objects = objects.into_iter().map(with_key).collect::<Result<Vec<(K, T)>, KeyError>>()?;
        for tombstone in self.unlisted(&objects) {
            self.push_tombstone(tombstone);
        }
        for (key, object) in objects {
            let delta = Delta::Replaced(self.transform(object)?);
            self.items.push_back(Item::One { key, delta });
        }
        Ok(())
    }

    /// Returns a tombstone for each queued or known object that is not in `listed`. The tombstones of queued objects come
    /// first in the result. If an object is both queued and known, its tombstone contains the queued state, which is newer.
    fn unlisted(&self, listed: &[(K, T)]) -> Vec<DeletedFinalStateUnknown<K, T>> {
        let keys: HashSet<&K> = listed.iter().map(|(key, _)| key).collect();
        let mut queued: HashMap<&K, &Delta<K, T>> = HashMap::new();
        let mut order: Vec<&K> = Vec::new();
        for item in &self.items {
            if let Item::One { key, delta } = item
                && queued.insert(key, delta).is_none()
            {
                order.push(key);
            }
        }
        let is_there = |key: &&K| queued.get(key).is_some_and(|delta| !matches!(delta, Delta::Deleted(_)));
        let mut unlisted = Vec::new();
        for key in order.into_iter().filter(|key| !keys.contains(key) && is_there(key)) {
            let object = queued.get(key).and_then(|delta| delta.object().cloned());
            unlisted.push(DeletedFinalStateUnknown { key: key.clone(), object });
        }
        let known = self.config.known_objects.iter().flat_map(|known| known.list_keys());
        for key in known.filter(|key| !keys.contains(key) && !queued.contains_key(key)) {
            let object = self.look_up(&key);
            unlisted.push(DeletedFinalStateUnknown { key, object });
        }
        unlisted
    }

    fn enqueue(&mut self, object: T, delta: fn(T) -> Delta<K, T>) -> Result<(), StoreError> {
        self.progress.changed();
        let key = (self.key_func)(&object)?;
        let delta = delta(self.transform(object)?);
        self.items.push_back(Item::One { key, delta });
        Ok(())
    }

    fn push_tombstone(&mut self, tombstone: DeletedFinalStateUnknown<K, T>) {
        let key = tombstone.key.clone();
        self.items.push_back(Item::One { key, delta: Delta::Deleted(DeletedObject::Tombstone(tombstone)) });
    }

    fn transform(&self, object: T) -> Result<T, StoreError> {
        match &self.config.transformer {
            Some(transformer) => transformer(object).map_err(StoreError::Transform),
            None => Ok(object),
        }
    }

    fn look_up(&self, key: &K) -> Option<T> {
        self.config.known_objects.as_ref()?.get_by_key(key).unwrap_or_else(|error| {
            if let Some(handler) = &self.config.on_lookup_error {
                handler(key, &error);
            }
            None
        })
    }
}

/// Adds the key of `item` to `keys` and returns `true`, unless an item in `items` has the same key or `item` has no key.
fn is_new<K: Eq + Hash, T>(
    keys: &mut HashTable<(u64, usize)>,
    hasher: &DefaultHashBuilder,
    items: &[Item<K, T>],
    item: &Item<K, T>,
) -> bool {
    let Some(key) = item.key() else { return false };
    let hash = hasher.hash_one(key);
    let is_key = |&(_, at): &(u64, usize)| items.get(at).and_then(Item::key) == Some(key);
    match keys.entry(hash, is_key, |&(hash, _)| hash) {
        Entry::Occupied(_) => false,
        Entry::Vacant(entry) => {
            entry.insert((hash, items.len()));
            true
        }
    }
}

impl<K, T> Item<K, T> {
    /// Returns the changed object's key, or `None` if the item affects all objects.
    pub fn key(&self) -> Option<&K> {
        match self {
            Self::One { key, .. } => Some(key),
            Self::ReplacedAll { .. } | Self::SyncAll | Self::Bookmark { .. } => None,
        }
    }
}

impl<K, T> fmt::Debug for RealFifo<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFifo")
            .field("len", &self.items.len())
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
