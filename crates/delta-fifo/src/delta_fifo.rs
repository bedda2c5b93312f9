use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;

use crate::{
    BoxError, DeletedFinalStateUnknown, DeletedObject, Delta, Deltas, KeyError, KeyListerGetter, Queue, Store,
    StoreError,
};

/// A queue of keyed changes that keeps each of them: client-go's `DeltaFIFO`.
///
/// Its producer tells what happens to objects; its consumer takes one key at a time, with all that has happened to it since
/// its last turn. Keys come out in the order in which they went in, and a key keeps its place while changes join it. Of a
/// deletion that follows a deletion one is kept; all other changes stay as they are.
///
/// With *known objects*, which are what the consumer holds, it tells deletions that nobody saw: an object that the consumer
/// knows and a new list does not have is deleted, and comes out as a [tombstone](DeletedFinalStateUnknown). So the consumer
/// has to bring its objects up to date before anything else is done to the queue.
///
/// It is a plain struct: it takes no lock and never waits. [`BlockingDeltaFifo`](crate::BlockingDeltaFifo) puts it between
/// threads.
pub struct DeltaFifo<K, T> {
    key_func: KeyFunc<K, T>,
    known_objects: Option<Box<dyn KeyListerGetter<K, T> + Send + Sync>>,
    transformer: Option<Transformer<T>>,
    on_lookup_error: Option<LookupErrorHandler<K>>,
    emit_replaced: bool,
    /// The same keys as in `queue`.
    items: HashMap<K, Deltas<K, T>>,
    queue: VecDeque<K>,
    /// Whether anything has ever come in.
    populated: bool,
    /// How many keys of the first replacement have still to be popped.
    initial_population: usize,
    closed: bool,
}

/// Tells the key of an object.
type KeyFunc<K, T> = Box<dyn Fn(&T) -> Result<K, KeyError> + Send + Sync>;
type Transformer<T> = Box<dyn Fn(T) -> Result<T, BoxError> + Send + Sync>;
type LookupErrorHandler<K> = Box<dyn Fn(&K, &BoxError) + Send + Sync>;

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
    /// An empty queue of objects whose keys `key_func` tells.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static) -> Self {
        Self {
            key_func: Box::new(key_func),
            known_objects: None,
            transformer: None,
            on_lookup_error: None,
            emit_replaced: false,
            items: HashMap::new(),
            queue: VecDeque::new(),
            populated: false,
            initial_population: 0,
            closed: false,
        }
    }

    /// Sets what the consumer knows.
    pub fn with_known_objects(mut self, known: impl KeyListerGetter<K, T> + Send + Sync + 'static) -> Self {
        self.known_objects = Some(Box::new(known));
        self
    }

    /// Changes each object on its way in, once. Its key is taken before that. Tombstones, and what a resync brings, have
    /// been through it already.
    pub fn with_transformer(mut self, transformer: impl Fn(T) -> Result<T, BoxError> + Send + Sync + 'static) -> Self {
        self.transformer = Some(Box::new(transformer));
        self
    }

    /// Hears of known objects that could not be looked up; the queue goes on without them, as is told at each operation.
    pub fn with_lookup_error_handler(mut self, handler: impl Fn(&K, &BoxError) + Send + Sync + 'static) -> Self {
        self.on_lookup_error = Some(Box::new(handler));
        self
    }

    /// Makes a replacement tell its objects as [`Delta::Replaced`], and not, as it does by default and did of old, as
    /// [`Delta::Sync`]. Take it, unless you depend on the latter.
    pub fn emit_replaced(mut self) -> Self {
        self.emit_replaced = true;
        self
    }

    /// Takes up an object that is new.
    ///
    /// # Errors
    ///
    /// Its key cannot be told, or the transformer refuses it. Then nothing is queued.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.populated = true;
        self.enqueue(object, Delta::Added)
    }

    /// Takes up an object that changed.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.populated = true;
        self.enqueue(object, Delta::Updated)
    }

    /// Takes up that an object is gone; `object` is its last state.
    ///
    /// It is ignored if nobody knows the key: it is not queued, and not among the known objects either. If these cannot be
    /// looked up, it is queued.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add). If the key cannot be told, the queue is as if nothing had been asked.
    pub fn delete(&mut self, object: T) -> Result<(), StoreError> {
        let key = self.key_of(&object)?;
        self.populated = true;
        if !self.is_known(&key) {
            return Ok(());
        }
        let object = self.transform(object)?;
        self.append(key, Delta::Deleted(DeletedObject::Observed(object)));
        Ok(())
    }

    /// Takes up that an object is gone whose last state nobody saw. It is ignored as in [`delete`](Self::delete).
    pub fn delete_unseen(&mut self, tombstone: DeletedFinalStateUnknown<K, T>) {
        self.populated = true;
        if self.is_known(&tombstone.key) {
            self.append(tombstone.key.clone(), Delta::Deleted(DeletedObject::Tombstone(tombstone)));
        }
    }

    /// Takes up that these are all objects there are. Each is queued, and a tombstone for each other key that is queued or
    /// known: with the newest queued state of it, or else the known one, or none if that cannot be looked up.
    ///
    /// The resourceVersion is for other stores.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add). What comes before the object at fault stays queued.
    pub fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let mut keys = HashSet::with_capacity(objects.len());
        for object in objects {
            keys.insert(self.key_of(&object)?);
            self.enqueue(object, if self.emit_replaced { Delta::Replaced } else { Delta::Sync })?;
        }
        // Queued keys first: what is queued is newer than what is known.
        let mut gone: Vec<(K, Option<T>)> = Vec::new();
        for key in self.queue.iter().filter(|key| !keys.contains(*key)) {
            let object = self.items.get(key).and_then(|deltas| deltas.newest().object().cloned());
            gone.push((key.clone(), object));
        }
        if let Some(known) = &self.known_objects {
            for key in known.list_keys() {
                if keys.contains(&key) || self.items.contains_key(&key) {
                    continue;
                }
                let object = known.get_by_key(&key).unwrap_or_else(|error| self.lookup_failed(&key, &error));
                gone.push((key, object));
            }
        }
        let deletions = gone.len();
        for (key, object) in gone {
            let tombstone = DeletedFinalStateUnknown { key: key.clone(), object };
            self.append(key, Delta::Deleted(DeletedObject::Tombstone(tombstone)));
        }
        if !self.populated {
            self.populated = true;
            self.initial_population = keys.len() + deletions;
        }
        Ok(())
    }

    /// Queues each known object again, as [`Delta::Sync`]. Left out are those that are queued, since what is known of them
    /// is old, and those that cannot be looked up. Without known objects it does nothing.
    ///
    /// # Errors
    ///
    /// The key of a known object cannot be told.
    pub fn resync(&mut self) -> Result<(), StoreError> {
        let Some(known) = &self.known_objects else { return Ok(()) };
        let mut objects = Vec::new();
        for key in known.list_keys() {
            if self.items.contains_key(&key) {
                continue;
            }
            let object = known.get_by_key(&key).unwrap_or_else(|error| self.lookup_failed(&key, &error));
            objects.extend(object);
        }
        for object in objects {
            let key = self.key_of(&object)?;
            if !self.items.contains_key(&key) {
                self.append(key, Delta::Sync(object));
            }
        }
        Ok(())
    }

    /// Puts changes that were popped back at the end of the queue, unless there are newer ones of their key by now.
    ///
    /// # Errors
    ///
    /// The key of the newest change cannot be told.
    pub fn add_if_not_present(&mut self, deltas: Deltas<K, T>) -> Result<(), StoreError> {
        let key = self.key_of_deltas(&deltas)?;
        self.populated = true;
        if let Entry::Vacant(entry) = self.items.entry(key.clone()) {
            entry.insert(deltas);
            self.queue.push_back(key);
        }
        Ok(())
    }

    /// Takes out the key that has waited longest, with all its changes.
    pub fn pop(&mut self) -> Option<Popped<K, T>> {
        let key = self.queue.pop_front()?;
        let deltas = self.items.remove(&key)?;
        let is_in_initial_list = !self.has_synced();
        self.initial_population = self.initial_population.saturating_sub(1);
        Some(Popped { key, deltas, is_in_initial_list })
    }

    /// Whether what came first has been popped: all keys of the first replacement, if it came before anything else. It is
    /// true, too, once something else has come first.
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial_population == 0
    }

    /// No more will come. What is there can still be popped; and what comes nevertheless is queued as ever.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The newest state of each queued object. A key that has none, since its newest change is a bare tombstone, is left out.
    pub fn list(&self) -> Vec<T> {
        self.queue.iter().filter_map(|key| self.items.get(key)?.newest().object().cloned()).collect()
    }

    /// The queued keys, in their order.
    pub fn list_keys(&self) -> Vec<K> {
        self.queue.iter().cloned().collect()
    }

    /// The changes that wait for the key of `object`.
    ///
    /// # Errors
    ///
    /// Its key cannot be told.
    pub fn get(&self, object: &T) -> Result<Option<&Deltas<K, T>>, KeyError> {
        Ok(self.get_by_key(&self.key_of(object)?))
    }

    /// The changes that wait for a key.
    pub fn get_by_key(&self, key: &K) -> Option<&Deltas<K, T>> {
        self.items.get(key)
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
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
        match self.items.entry(key) {
            Entry::Occupied(mut entry) => entry.get_mut().push(delta),
            Entry::Vacant(entry) => {
                self.queue.push_back(entry.key().clone());
                entry.insert(Deltas::new(delta));
            }
        }
    }

    fn transform(&self, object: T) -> Result<T, StoreError> {
        match &self.transformer {
            Some(transformer) => transformer(object).map_err(StoreError::Transform),
            None => Ok(object),
        }
    }

    /// Whether anybody knows the key. A known object that cannot be looked up may be there.
    fn is_known(&self, key: &K) -> bool {
        if self.items.contains_key(key) {
            return true;
        }
        match self.known_objects.as_ref().map(|known| known.get_by_key(key)) {
            Some(Ok(object)) => object.is_some(),
            Some(Err(error)) => {
                self.lookup_failed(key, &error);
                true
            }
            None => false,
        }
    }

    fn lookup_failed(&self, key: &K, error: &BoxError) -> Option<T> {
        if let Some(handler) = &self.on_lookup_error {
            handler(key, error);
        }
        None
    }
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

impl<K: Clone + Eq + Hash, T: Clone> Queue<K, T> for DeltaFifo<K, T> {
    type Popped = Popped<K, T>;

    fn pop(&mut self) -> Option<Popped<K, T>> {
        self.pop()
    }

    fn add_if_not_present(&mut self, deltas: Deltas<K, T>) -> Result<(), StoreError> {
        self.add_if_not_present(deltas)
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn close(&mut self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}

impl<K: fmt::Debug, T> fmt::Debug for DeltaFifo<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("queue", &self.queue)
            .field("populated", &self.populated)
            .field("initial_population", &self.initial_population)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
