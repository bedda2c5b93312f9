//! Traits for stores of keyed objects.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::error::{BoxError, KeyError, StoreError, TransactionError};

/// A store of objects by key.
///
/// A store contains one `Entry` per key. In a cache, the entry is the object. In a [`DeltaFifo`](crate::DeltaFifo), the
/// entry contains the queued changes.
pub trait Store<K, T> {
    /// The type of the entries.
    type Entry;

    /// Stores or queues a new object.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the object has no key, and another error if the store rejects the object.
    fn add(&mut self, object: T) -> Result<(), StoreError>;

    /// Stores or queues a changed object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    fn update(&mut self, object: T) -> Result<(), StoreError>;

    /// Deletes an object, or queues its deletion. `object` is the final state of the object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    fn delete(&mut self, object: T) -> Result<(), StoreError>;

    /// Replaces all objects with a list, or queues the list. `resource_version` is the list's resourceVersion.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError>;

    /// Makes a queue deliver the known objects again. Does nothing if the store is a cache.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    fn resync(&mut self) -> Result<(), StoreError>;

    /// Applies `writes` in order. If a write fails, the other writes are still applied.
    ///
    /// A shared store can override this method so that readers see all writes at the same time.
    ///
    /// # Errors
    ///
    /// Returns an error if any write failed. The error contains the indices of the writes that were applied, and the
    /// errors of the failed writes.
    fn transaction(&mut self, writes: Vec<Transaction<T>>) -> Result<(), TransactionError> {
        let total = writes.len();
        let (mut successful, mut causes) = (Vec::with_capacity(total), Vec::new());
        for (index, write) in writes.into_iter().enumerate() {
            let done = match write {
                Transaction::Add(object) => self.add(object),
                Transaction::Update(object) => self.update(object),
                Transaction::Delete(object) => self.delete(object),
            };
            match done {
                Ok(()) => successful.push(index),
                Err(cause) => causes.push(cause),
            }
        }
        if causes.is_empty() { Ok(()) } else { Err(TransactionError { successful, total, causes }) }
    }

    /// Returns the newest state of each object, in no particular order.
    fn list(&self) -> Vec<T>;

    /// Returns all keys, in no particular order.
    fn list_keys(&self) -> Vec<K>;

    /// Returns the entry with the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if the object has no key.
    fn get(&self, object: &T) -> Result<Option<Self::Entry>, KeyError>;

    /// Returns the entry with key `key`.
    fn get_by_key(&self, key: &K) -> Option<Self::Entry>;
}

/// A write in a [`Store::transaction`]. The name of this type comes from client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction<T> {
    /// A call of [`Store::add`].
    Add(T),
    /// A call of [`Store::update`].
    Update(T),
    /// A call of [`Store::delete`].
    Delete(T),
}

/// A [`Store`] with indexes.
pub trait Indexer<K, T>: Store<K, T> {
    /// Returns the objects that have `value` in the index `name`. Returns `None` if there is no such index.
    fn by_index(&self, name: &str, value: &str) -> Option<Vec<T>>;

    /// Returns the keys of the objects that have `value` in the index `name`, in ascending order. Returns `None` if
    /// there is no such index.
    fn index_keys(&self, name: &str, value: &str) -> Option<Vec<K>>;

    /// Returns all values in the index `name`, in no particular order. Returns `None` if there is no such index.
    fn index_values(&self, name: &str) -> Option<Vec<String>>;
}

/// Lists the keys of objects.
pub trait KeyLister<K> {
    /// Returns all keys, in no particular order.
    fn list_keys(&self) -> Vec<K>;
}

/// Looks up objects by key.
pub trait KeyGetter<K, T> {
    /// Returns the object with key `key`, if any.
    ///
    /// # Errors
    ///
    /// Returns an error if the lookup fails.
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError>;
}

/// Read access to the objects that a queue's consumer knows.
///
/// The trait is implemented for stores behind a lock, because the queue and the consumer share the store:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use pintle_delta_fifo::{DeltaFifo, DeltaFifoConfig, MemoryStore, Store};
///
/// let known = Arc::new(Mutex::new(MemoryStore::new(|n: &u32| Ok(*n))));
/// let config = DeltaFifoConfig { known_objects: Some(Box::new(known.clone())), ..DeltaFifoConfig::default() };
/// let mut fifo = DeltaFifo::new(|n: &u32| Ok(*n), config);
/// fifo.replace(vec![1, 2], "1")?;
/// while let Some(popped) = fifo.pop() {
///     for delta in popped.deltas {
///         if let Some(object) = delta.into_object() {
///             known.lock().unwrap().add(object)?;
///         }
///     }
/// }
/// fifo.replace(vec![2], "2")?;
/// assert_eq!(fifo.pop().map(|popped| popped.key), Some(2));
/// assert_eq!(fifo.pop().map(|popped| popped.key), Some(1)); // 1 was deleted.
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub trait KeyListerGetter<K, T>: KeyLister<K> + KeyGetter<K, T> {}

impl<K, T, S: KeyLister<K> + KeyGetter<K, T> + ?Sized> KeyListerGetter<K, T> for S {}

/// Each method locks the store only during the call. Before a consumer calls the queue, it must update its objects and
/// release this lock.
impl<K, S: KeyLister<K> + ?Sized> KeyLister<K> for Mutex<S> {
    fn list_keys(&self) -> Vec<K> {
        self.lock().unwrap_or_else(PoisonError::into_inner).list_keys()
    }
}

/// Each method locks the store only during the call. A consumer must not hold this lock while it calls the queue.
impl<K, T, S: KeyGetter<K, T> + ?Sized> KeyGetter<K, T> for Mutex<S> {
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError> {
        self.lock().unwrap_or_else(PoisonError::into_inner).get_by_key(key)
    }
}

/// Each method holds the store's read lock only during the call. A consumer must not hold the write lock while it calls
/// the queue.
impl<K, S: KeyLister<K> + ?Sized> KeyLister<K> for RwLock<S> {
    fn list_keys(&self) -> Vec<K> {
        self.read().unwrap_or_else(PoisonError::into_inner).list_keys()
    }
}

/// Each method holds the store's read lock only during the call. A consumer must not hold the write lock while it calls
/// the queue.
impl<K, T, S: KeyGetter<K, T> + ?Sized> KeyGetter<K, T> for RwLock<S> {
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError> {
        self.read().unwrap_or_else(PoisonError::into_inner).get_by_key(key)
    }
}

impl<K, S: KeyLister<K> + ?Sized> KeyLister<K> for Arc<S> {
    fn list_keys(&self) -> Vec<K> {
        (**self).list_keys()
    }
}

impl<K, T, S: KeyGetter<K, T> + ?Sized> KeyGetter<K, T> for Arc<S> {
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError> {
        (**self).get_by_key(key)
    }
}
