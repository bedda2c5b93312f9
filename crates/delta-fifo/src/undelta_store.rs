//! A store that passes all its objects to a function after each change.

use std::fmt;

use crate::error::{KeyError, StoreError, TransactionError};
use crate::store::{Store, Transaction};

/// A [`Store`] that passes the list of all its objects to a function after each change, like client-go's
/// `UndeltaStore`.
///
/// Use this store for a small number of objects, if the consumer needs the current objects and not the changes. The
/// cost of each change is proportional to the number of objects.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
///
/// use pintle_delta_fifo::{MemoryStore, Store, UndeltaStore};
///
/// let (lists, received) = mpsc::channel();
/// let mut store = UndeltaStore::new(MemoryStore::new(|name: &&'static str| Ok(*name)), move |all| _ = lists.send(all));
/// store.add("a")?;
/// store.delete("a")?;
/// assert_eq!(received.try_iter().collect::<Vec<_>>(), [vec!["a"], vec![]]);
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct UndeltaStore<S, F> {
    store: S,
    push: F,
}

impl<S, F> UndeltaStore<S, F> {
    /// Creates a store that calls `push` after each successful change. `push` receives all objects in `store`, in no
    /// particular order. A [transaction](Store::transaction) calls `push` once if at least one write succeeded.
    pub fn new(store: S, push: F) -> Self {
        Self { store, push }
    }

    fn push<K, T>(&mut self)
    where
        S: Store<K, T>,
        F: FnMut(Vec<T>),
    {
        (self.push)(self.store.list());
    }
}

impl<K, T, S: Store<K, T>, F: FnMut(Vec<T>)> Store<K, T> for UndeltaStore<S, F> {
    type Entry = S::Entry;

    fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.store.add(object).map(|()| self.push::<K, T>())
    }

    fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.store.update(object).map(|()| self.push::<K, T>())
    }

    fn delete(&mut self, object: T) -> Result<(), StoreError> {
        self.store.delete(object).map(|()| self.push::<K, T>())
    }

    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError> {
        self.store.replace(objects, resource_version).map(|()| self.push::<K, T>())
    }

    fn transaction(&mut self, writes: Vec<Transaction<T>>) -> Result<(), TransactionError> {
        let result = self.store.transaction(writes);
        if result.as_ref().err().is_none_or(|error| !error.successful.is_empty()) {
            self.push::<K, T>();
        }
        result
    }

    /// Does not call `push`, because a resync changes no object.
    fn resync(&mut self) -> Result<(), StoreError> {
        self.store.resync()
    }

    fn list(&self) -> Vec<T> {
        self.store.list()
    }

    fn list_keys(&self) -> Vec<K> {
        self.store.list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<S::Entry>, KeyError> {
        self.store.get(object)
    }

    fn get_by_key(&self, key: &K) -> Option<S::Entry> {
        self.store.get_by_key(key)
    }
}

impl<S: fmt::Debug, F> fmt::Debug for UndeltaStore<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeltaStore").field("store", &self.store).finish_non_exhaustive()
    }
}
