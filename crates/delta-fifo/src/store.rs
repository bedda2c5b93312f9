use std::sync::Arc;

use crate::{BoxError, KeyError, StoreError};

/// Holds objects by key.
///
/// What it holds of an object is an `Entry`: the object itself in a cache, its waiting changes in a
/// [`DeltaFifo`](crate::DeltaFifo).
pub trait Store<K, T> {
    /// What is held for a key.
    type Entry;

    /// Takes up an object that is new.
    ///
    /// # Errors
    ///
    /// The key cannot be told, or the store refuses the object.
    fn add(&mut self, object: T) -> Result<(), StoreError>;

    /// Takes up an object that changed.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    fn update(&mut self, object: T) -> Result<(), StoreError>;

    /// Takes up that an object is gone; `object` is its last state.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    fn delete(&mut self, object: T) -> Result<(), StoreError>;

    /// Takes up that these are all objects there are, as of `resource_version`.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError>;

    /// Brings what the store holds back to mind, where that means something.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    fn resync(&mut self) -> Result<(), StoreError>;

    /// The newest state of each object, in no particular order.
    fn list(&self) -> Vec<T>;

    /// The keys, in no particular order.
    fn list_keys(&self) -> Vec<K>;

    /// What is held for the key of `object`.
    ///
    /// # Errors
    ///
    /// The key cannot be told.
    fn get(&self, object: &T) -> Result<Option<Self::Entry>, KeyError>;

    /// What is held for a key.
    fn get_by_key(&self, key: &K) -> Option<Self::Entry>;
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

/// A [`Store`] that gives what it holds away again, one key at a time.
pub trait Queue<K, T>: Store<K, T> {
    /// What is given away.
    type Popped;

    /// Takes the next out.
    fn pop(&mut self) -> Option<Self::Popped>;

    /// Puts back what was popped, unless there is news of its key by now.
    ///
    /// # Errors
    ///
    /// The key cannot be told.
    fn add_if_not_present(&mut self, entry: Self::Entry) -> Result<(), StoreError>;

    /// Whether what came first, be it a first change or a whole first [`replace`](Store::replace), has been popped.
    fn has_synced(&self) -> bool;

    /// No more will come. What is there can still be popped.
    fn close(&mut self);

    /// Whether it was closed.
    fn is_closed(&self) -> bool;
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
    /// It could not be looked up.
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError>;
}

/// Read access to the objects that the consumer of a queue knows.
pub trait KeyListerGetter<K, T>: KeyLister<K> + KeyGetter<K, T> {}

impl<K, T, S: KeyLister<K> + KeyGetter<K, T> + ?Sized> KeyListerGetter<K, T> for S {}

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
