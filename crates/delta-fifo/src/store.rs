//! The contracts of stores.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::{BoxError, KeyError, StoreError, TransactionError};

/// Holds objects by key.
///
/// For each key it holds an `Entry`: the object itself in a cache, its waiting changes in a
/// [`DeltaFifo`](crate::DeltaFifo).
pub trait Store<K, T> {
    /// What is held for a key.
    type Entry;

    /// Stores or queues that an object is new.
    ///
    /// # Errors
    ///
    /// [`StoreError::Key`] if it has no key, or another one if the store refuses it.
    fn add(&mut self, object: T) -> Result<(), StoreError>;

    /// Stores or queues that an object changed.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    fn update(&mut self, object: T) -> Result<(), StoreError>;

    /// Stores or queues that an object is gone; `object` is its last state.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    fn delete(&mut self, object: T) -> Result<(), StoreError>;

    /// Stores or queues that these are all objects there are, as of `resource_version`.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError>;

    /// Makes a queue deliver the known objects again. A cache has nothing to do.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    fn resync(&mut self) -> Result<(), StoreError>;

    /// Does these writes, in their order. Those that fail do not keep the others from being done.
    ///
    /// A store that is shared may override this, so that all of them are seen at once.
    ///
    /// # Errors
    ///
    /// Which writes were done, and why the others were not.
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

    /// The newest state of each object, in no particular order.
    fn list(&self) -> Vec<T>;

    /// The keys, in no particular order.
    fn list_keys(&self) -> Vec<K>;

    /// What is held for the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function if the object has no key.
    fn get(&self, object: &T) -> Result<Option<Self::Entry>, KeyError>;

    /// What is held for a key.
    fn get_by_key(&self, key: &K) -> Option<Self::Entry>;
}

/// One write of several: see [`Store::transaction`]. The name is client-go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction<T> {
    /// [`Store::add`].
    Add(T),
    /// [`Store::update`].
    Update(T),
    /// [`Store::delete`].
    Delete(T),
}

/// A [`Store`] that finds objects by more than their key.
pub trait Indexer<K, T>: Store<K, T> {
    /// The objects that have `value` in the index `name`. None: there is no such index.
    fn by_index(&self, name: &str, value: &str) -> Option<Vec<T>>;

    /// The keys of these, in order. None: there is no such index.
    fn index_keys(&self, name: &str, value: &str) -> Option<Vec<K>>;

    /// The values that the index `name` knows, in no particular order. None: there is no such index.
    fn index_values(&self, name: &str) -> Option<Vec<String>>;
}

/// Knows which keys there are.
pub trait KeyLister<K> {
    /// The keys, in any order.
    fn list_keys(&self) -> Vec<K>;
}

/// Knows the objects by key.
pub trait KeyGetter<K, T> {
    /// The object of that key, if there is one.
    ///
    /// # Errors
    ///
    /// Any error that kept it from being looked up.
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError>;
}

/// Read access to the objects that the consumer of a queue knows.
///
/// A store behind a lock is one, so that the consumer can keep it up to date while the queue looks at it:
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
/// assert_eq!(fifo.pop().map(|popped| popped.key), Some(1)); // It is gone.
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub trait KeyListerGetter<K, T>: KeyLister<K> + KeyGetter<K, T> {}

impl<K, T, S: KeyLister<K> + KeyGetter<K, T> + ?Sized> KeyListerGetter<K, T> for S {}

/// Takes the lock for each call. So the consumer of a queue must not hold it while the queue is used: it brings its objects up to date
/// and lets go of the lock.
impl<K, S: KeyLister<K> + ?Sized> KeyLister<K> for Mutex<S> {
    fn list_keys(&self) -> Vec<K> {
        self.lock().unwrap_or_else(PoisonError::into_inner).list_keys()
    }
}

/// Takes the lock for each call, as [`KeyLister`] does.
impl<K, T, S: KeyGetter<K, T> + ?Sized> KeyGetter<K, T> for Mutex<S> {
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError> {
        self.lock().unwrap_or_else(PoisonError::into_inner).get_by_key(key)
    }
}

/// Takes the lock to read for each call. So the consumer of a queue must not hold it to write while the queue is used.
impl<K, S: KeyLister<K> + ?Sized> KeyLister<K> for RwLock<S> {
    fn list_keys(&self) -> Vec<K> {
        self.read().unwrap_or_else(PoisonError::into_inner).list_keys()
    }
}

/// Takes the lock to read for each call, as [`KeyLister`] does.
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
