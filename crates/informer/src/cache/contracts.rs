//! A cache by the contracts of stores.

use std::sync::Arc;

use pintle_delta_fifo::{BoxError, Indexer, KeyError, KeyGetter, KeyLister, Store, StoreError};
use pintle_meta::{Object, ObjectKey};

use super::Cache;

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

    fn list(&self) -> Vec<Arc<T>> {
        self.list()
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

/// So that a queue of deltas can stand before it.
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
