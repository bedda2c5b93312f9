use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pintle_meta::ObjectKey;

/// Gives the values under which an object is found in an index.
pub(crate) type IndexFn<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

/// One index: which keys have which value.
pub(crate) struct Index<T> {
    pub(crate) name: String,
    pub(crate) function: IndexFn<T>,
    /// No set is empty: a value that no object has any more takes no memory.
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

impl<T> Index<T> {
    pub(crate) fn new(name: String, function: IndexFn<T>) -> Self {
        Self { name, function, keys: HashMap::new() }
    }

    /// An index of the same name and function with nothing in it.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.name.clone(), self.function.clone())
    }

    pub(crate) fn values_of(&self, object: &T) -> Vec<String> {
        (self.function)(object)
    }

    pub(crate) fn insert(&mut self, key: &ObjectKey, values: &[String]) {
        for value in values {
            match self.keys.get_mut(value) {
                Some(keys) => _ = keys.insert(key.clone()),
                None => _ = self.keys.insert(value.clone(), BTreeSet::from([key.clone()])),
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, values: &[String]) {
        for value in values {
            let Some(keys) = self.keys.get_mut(value) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(value);
            }
        }
    }

    pub(crate) fn keys(&self, value: &str) -> impl Iterator<Item = &ObjectKey> {
        self.keys.get(value).into_iter().flatten()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }
}
