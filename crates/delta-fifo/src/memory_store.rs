//! A store of objects by key, with indexes.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

use hashbrown::HashMap;

use crate::config::{KeyFunc, Transformer};
use crate::error::{BoxError, KeyError, StoreError};
use crate::keyed::Keyed;
use crate::store::{Indexer, KeyGetter, KeyLister, Store};

/// A store that keeps objects by key and has named indexes, like client-go's `Store` and `Indexer`.
///
/// The store computes an object's index values once, when the object is stored. The store takes no lock.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{MemoryStore, Store};
///
/// // Pods with a name and a node.
/// let mut pods = MemoryStore::new(|&(name, _): &(&'static str, &str)| Ok(name));
/// pods.add_index("node", |(_, node)| vec![node.to_string()]);
/// pods.add(("a", "n1"))?;
/// pods.add(("b", "n2"))?;
/// pods.update(("b", "n1"))?;
///
/// let of_node: Vec<_> = pods.keys_by_index("node", "n1").expect("the index exists").collect();
/// assert_eq!(of_node, [&"a", &"b"]);
/// assert_eq!(pods.by_key(&"b"), Some(&("b", "n1")));
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct MemoryStore<K, T> {
    key_func: KeyFunc<K, T>,
    transformer: Option<Transformer<T>>,
    objects: Keyed<K, Stored<T>>,
    indices: Vec<Index<K, T>>,
}

type IndexFunc<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

struct Stored<T> {
    object: T,
    values: Vec<Vec<String>>,
}

struct Index<K, T> {
    name: String,
    function: IndexFunc<T>,
    /// Maps each index value to the keys of the objects that have this value. The map contains no index value without
    /// objects.
    keys: HashMap<String, BTreeSet<K>>,
}

/// The difference between the objects in a store and a list that replaces them.
#[derive(Debug)]
pub struct Replacement<T> {
    /// The removed objects, ordered by key.
    pub deleted: Vec<T>,
    /// The listed objects, in list order. Each tuple contains the previous object with the same key, if any, and the
    /// listed object.
    pub present: Vec<(Option<T>, T)>,
}

impl<K: Clone + Eq + Hash + Ord, T: Clone> MemoryStore<K, T> {
    /// Creates an empty store. `key_func` returns an object's key, and must always return the same key for the same object.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static) -> Self {
        Self { key_func: Box::new(key_func), transformer: None, objects: Keyed::new(), indices: Vec::new() }
    }

    /// Sets a transformer for objects that are stored after this call. The store computes keys before the
    /// transformation, and index values after the transformation.
    pub fn set_transformer(&mut self, transformer: impl Fn(T) -> Result<T, BoxError> + Send + Sync + 'static) {
        self.transformer = Some(Box::new(transformer));
    }

    /// Adds an index over the values that `function` returns. The index also includes objects that are already stored.
    ///
    /// If an index with this name exists, does nothing and returns `false`.
    pub fn add_index(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> bool {
        let name = name.into();
        if self.has_index(&name) {
            return false;
        }
        let mut index = Index { name, function: Box::new(function), keys: HashMap::new() };
        // Compute all values first, so that the store stays unchanged if the index function panics.
        let values: Vec<_> = self.objects().map(&index.function).collect();
        for ((key, stored), values) in self.objects.iter_mut().zip(values) {
            index.insert(key, &values);
            stored.values.push(values);
        }
        self.indices.push(index);
        true
    }

    /// Returns `true` if an index with this name exists.
    pub fn has_index(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Returns the names of the indexes, oldest index first.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indices.iter().map(|index| index.name.as_str())
    }

    /// Stores an object under a key that is already known, for example from a queue. Returns the previous object.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Transform`] if the transformer rejects the object, and leaves the store unchanged.
    pub fn insert(&mut self, key: K, object: T) -> Result<Option<T>, StoreError> {
        let stored = self.transformed(object)?;
        Ok(self.put(key, stored))
    }

    /// Removes and returns the object with key `key`.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let place = self.objects.find(self.objects.hash(key), key)?;
        let (key, Stored { object, values }) = self.objects.remove(place)?;
        for (index, values) in self.indices.iter_mut().zip(&values) {
            index.remove(&key, values);
        }
        Some(object)
    }

    /// Returns the object with key `key`.
    pub fn by_key(&self, key: &K) -> Option<&T> {
        Some(&self.objects[self.objects.find(self.objects.hash(key), key)?].object)
    }

    /// Returns all objects, in no particular order.
    pub fn objects(&self) -> impl Iterator<Item = &T> {
        self.objects.iter().map(|(_, stored)| &stored.object)
    }

    /// Returns all keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.objects.iter().map(|(key, _)| key)
    }

    /// Returns the keys of the objects that have `value` in the index `name`, in ascending order. Returns `None` if
    /// there is no such index.
    pub fn keys_by_index(&self, name: &str, value: &str) -> Option<impl Iterator<Item = &K>> {
        Some(self.index(name)?.keys.get(value).into_iter().flatten())
    }

    /// Returns the objects that have `value` in the index `name`, ordered by key. Returns `None` if there is no such
    /// index.
    pub fn objects_by_index(&self, name: &str, value: &str) -> Option<impl Iterator<Item = &T>> {
        Some(self.keys_by_index(name, value)?.filter_map(|key| self.by_key(key)))
    }

    /// Returns all values in the index `name`, in no particular order. Returns `None` if there is no such index.
    pub fn values_of_index(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        Some(self.index(name)?.keys.keys().map(String::as_str))
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns `true` if the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn keyed(&self, object: T) -> Result<(K, Stored<T>), StoreError> {
        Ok(((self.key_func)(&object)?, self.transformed(object)?))
    }

    /// Transforms an object and computes its index values. User code runs before the store changes, so the store stays
    /// consistent after a panic.
    fn transformed(&self, object: T) -> Result<Stored<T>, StoreError> {
        let object = match &self.transformer {
            Some(transformer) => transformer(object).map_err(StoreError::Transform)?,
            None => object,
        };
        let values = self.indices.iter().map(|index| (index.function)(&object)).collect();
        Ok(Stored { object, values })
    }

    fn put(&mut self, key: K, stored: Stored<T>) -> Option<T> {
        let hash = self.objects.hash(&key);
        let Some(place) = self.objects.find(hash, &key) else {
            for (index, values) in self.indices.iter_mut().zip(&stored.values) {
                index.insert(&key, values);
            }
            self.objects.insert(hash, key, stored);
            return None;
        };
        let old = std::mem::replace(&mut self.objects[place], stored);
        let new = &self.objects[place].values;
        for (index, (old, new)) in self.indices.iter_mut().zip(old.values.iter().zip(new)) {
            if old != new {
                index.remove(&key, old);
                index.insert(&key, new);
            }
        }
        Some(old.object)
    }

    fn index(&self, name: &str) -> Option<&Index<K, T>> {
        self.indices.iter().find(|index| index.name == name)
    }
}

/// The methods `add` and `update` are identical. `resync` has no effect, and neither does deleting an unknown key. If a
/// list contains several objects with one key, the store keeps the last one. If the store rejects an object in the
/// list, nothing is replaced.
impl<K: Clone + Eq + Hash + Ord, T: Clone> Store<K, T> for MemoryStore<K, T> {
    type Entry = T;

    fn add(&mut self, object: T) -> Result<(), StoreError> {
        let (key, stored) = self.keyed(object)?;
        self.put(key, stored);
        Ok(())
    }

    fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.add(object)
    }

    fn delete(&mut self, object: T) -> Result<(), StoreError> {
        self.remove(&(self.key_func)(&object)?);
        Ok(())
    }

    fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let objects = objects.into_iter().map(|object| self.keyed(object)).collect::<Result<Vec<_>, _>>()?;
        self.objects = Keyed::new();
        self.indices.iter_mut().for_each(|index| index.keys.clear());
        for (key, stored) in objects {
            self.put(key, stored);
        }
        Ok(())
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn list(&self) -> Vec<T> {
        self.objects().cloned().collect()
    }

    fn list_keys(&self) -> Vec<K> {
        self.keys().cloned().collect()
    }

    fn get(&self, object: &T) -> Result<Option<T>, KeyError> {
        Ok(self.by_key(&(self.key_func)(object)?).cloned())
    }

    fn get_by_key(&self, key: &K) -> Option<T> {
        self.by_key(key).cloned()
    }
}

impl<K: Clone + Eq + Hash + Ord, T: Clone> Indexer<K, T> for MemoryStore<K, T> {
    fn by_index(&self, name: &str, value: &str) -> Option<Vec<T>> {
        Some(self.objects_by_index(name, value)?.cloned().collect())
    }

    fn index_keys(&self, name: &str, value: &str) -> Option<Vec<K>> {
        Some(self.keys_by_index(name, value)?.cloned().collect())
    }

    fn index_values(&self, name: &str) -> Option<Vec<String>> {
        Some(self.values_of_index(name)?.map(str::to_owned).collect())
    }
}

impl<K: Clone + Eq + Hash + Ord, T: Clone> KeyLister<K> for MemoryStore<K, T> {
    fn list_keys(&self) -> Vec<K> {
        self.keys().cloned().collect()
    }
}

impl<K: Clone + Eq + Hash + Ord, T: Clone> KeyGetter<K, T> for MemoryStore<K, T> {
    fn get_by_key(&self, key: &K) -> Result<Option<T>, BoxError> {
        Ok(self.by_key(key).cloned())
    }
}

impl<K: Clone + Eq + Hash + Ord, T> Index<K, T> {
    fn insert(&mut self, key: &K, values: &[String]) {
        for value in values {
            self.keys.entry_ref(value.as_str()).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &K, values: &[String]) {
        for value in values {
            let Some(keys) = self.keys.get_mut(value) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(value);
            }
        }
    }
}

impl<K, T> fmt::Debug for MemoryStore<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices: Vec<&str> = self.indices.iter().map(|index| index.name.as_str()).collect();
        f.debug_struct("MemoryStore")
            .field("len", &self.objects.len())
            .field("indices", &indices)
            .finish_non_exhaustive()
    }
}
