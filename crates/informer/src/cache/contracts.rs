//! Implements `Debug` and `pintle_delta_fifo`'s store traits for the cache.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_delta_fifo::{
    BoxError, Indexer, KeyError, KeyGetter, KeyLister, Store, StoreError, Transaction, TransactionError,
};
use pintle_meta::{Object, ObjectKey};

use super::Cache;
use crate::version;

impl<T: Object> Store<ObjectKey, Arc<T>> for Cache<T> {
    type Entry = Arc<T>;

    fn add(&mut self, object: Arc<T>) -> Result<(), StoreError> {
        self.upsert(object).map(drop).map_err(|error| StoreError::Index(error.into()))
    }

    fn update(&mut self, object: Arc<T>) -> Result<(), StoreError> {
        self.upsert(object).map(drop).map_err(|error| StoreError::Index(error.into()))
    }

    fn delete(&mut self, object: Arc<T>) -> Result<(), StoreError> {
        Self::delete(self, &object.key(), "");
        Ok(())
    }

    fn replace(&mut self, objects: Vec<Arc<T>>, resource_version: &str) -> Result<(), StoreError> {
        Self::replace(self, objects, resource_version);
        Ok(())
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Applies the writes in order. Consecutive writes with distinct keys form one atomic step, and a repeated key
    /// starts a new step.
    fn transaction(&mut self, writes: Vec<Transaction<Arc<T>>>) -> Result<(), TransactionError> {
        let total = writes.len();
        let (mut successful, mut causes) = (Vec::with_capacity(total), Vec::new());
        let mut writes = writes.into_iter().map(change).peekable();
        let mut done = 0;
        while writes.peek().is_some() {
            let (mut keys, mut step, mut resource_version) = (HashSet::new(), Vec::new(), String::new());
            while let Some((key, object)) = writes.next_if(|(key, _)| keys.insert(key.clone())) {
                if let Some(object) = &object {
                    version::advance(&mut resource_version, object.resource_version());
                }
                step.push((key, object));
            }
            for written in Self::transaction(self, step, &resource_version) {
                match written {
                    Ok(_) => successful.push(done),
                    Err(error) => causes.push(StoreError::Index(error.into())),
                }
                done += 1;
            }
        }
        if causes.is_empty() { Ok(()) } else { Err(TransactionError { successful, total, causes }) }
    }

    fn list(&self) -> Vec<Arc<T>> {
        self.list().into_iter().collect()
    }

    fn list_keys(&self) -> Vec<ObjectKey> {
        self.list_keys()
    }

    fn get(&self, object: &Arc<T>) -> Result<Option<Arc<T>>, KeyError> {
        Ok(self.get(&object.key()))
    }

    fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.get(key)
    }
}

fn change<T: Object>(write: Transaction<Arc<T>>) -> (ObjectKey, Option<Arc<T>>) {
    match write {
        Transaction::Add(object) | Transaction::Update(object) => (object.key(), Some(object)),
        Transaction::Delete(object) => (object.key(), None),
    }
}

impl<T: Object> Indexer<ObjectKey, Arc<T>> for Cache<T> {
    fn by_index(&self, name: &str, value: &str) -> Option<Vec<Arc<T>>> {
        self.by_index(name, value).ok()
    }

    fn index_keys(&self, name: &str, value: &str) -> Option<Vec<ObjectKey>> {
        self.index_keys(name, value).ok()
    }

    fn index_values(&self, name: &str) -> Option<Vec<String>> {
        self.index_values(name).ok()
    }
}

/// Lets a [`DeltaFifo`](pintle_delta_fifo::DeltaFifo) treat the cached objects as its known objects.
impl<T: Object> KeyLister<ObjectKey> for Cache<T> {
    fn list_keys(&self) -> Vec<ObjectKey> {
        self.list_keys()
    }
}

impl<T: Object> KeyGetter<ObjectKey, Arc<T>> for Cache<T> {
    fn get_by_key(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, BoxError> {
        Ok(self.get(key))
    }
}

pintle_meta::debug_struct!(Cache<T: Object> |self| {
    len = self.len(),
    resource_version = self.resource_version(),
    ..
});

impl<T: Object> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}
