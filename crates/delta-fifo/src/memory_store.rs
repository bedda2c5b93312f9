//! Objects by key, with indices over them.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::config::Transformer;
use crate::{BoxError, Indexer, KeyError, KeyGetter, KeyLister, Store, StoreError};

/// Objects by key, with named indices over them.
///
/// It is a plain struct: it takes no lock. For a store that is shared, [`prepare`](Self::prepare) and [`commit`](Self::commit)
/// split a write in two, so that index functions, which are the user's, need not run under an exclusive lock.
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
/// let of_node: Vec<_> = pods.keys_by_index("node", "n1").expect("there is that index").collect();
/// assert_eq!(of_node, [&"a", &"b"]);
/// assert_eq!(pods.by_key(&"b"), Some(&("b", "n1")));
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct MemoryStore<K, T> {
    key_func: KeyFunc<K, T>,
    transformer: Option<Arc<Transformer<T>>>,
    objects: HashMap<K, T>,
    indices: Vec<Index<K, T>>,
}

type KeyFunc<K, T> = Arc<dyn Fn(&T) -> Result<K, KeyError> + Send + Sync>;
type IndexFunc<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

struct Index<K, T> {
    name: String,
    function: IndexFunc<T>,
    /// No set is empty: a value that no object has takes no memory.
    keys: HashMap<String, BTreeSet<K>>,
}

/// What a write does to the indices: for each, the values to forget and the values to learn.
#[derive(Debug)]
pub struct Reindex(Vec<(Vec<String>, Vec<String>)>);

/// What changes when one store takes the place of another: see [`MemoryStore::prepare_swap`].
#[derive(Debug)]
pub struct Replacement<T> {
    /// The objects that are only in the old store, ordered by key.
    pub deleted: Vec<T>,
    /// The objects of the new store in the order of the list, each with the object that the old one has for its key.
    pub present: Vec<(Option<T>, T)>,
}

impl<K: Clone + Eq + Hash + Ord, T: Clone> MemoryStore<K, T> {
    /// An empty store. `key_func` gives the key of an object; it has to give the same key for the same object each time.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static) -> Self {
        Self { key_func: Arc::new(key_func), transformer: None, objects: HashMap::new(), indices: Vec::new() }
    }

    /// Changes each object that comes in through [`Store`] from now on. The key is taken from the object as it was before. What is
    /// [prepared](Self::prepare) and committed stays as it is.
    pub fn set_transformer(&mut self, transformer: impl Fn(T) -> Result<T, BoxError> + Send + Sync + 'static) {
        self.transformer = Some(Arc::new(Box::new(transformer)));
    }

    /// Adds an index: objects by the values that `function` gives for them. It includes the objects that are there already. The
    /// function has to give the same values for the same object each time.
    ///
    /// If there is an index of that name, it returns false and does nothing.
    pub fn add_index(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> bool {
        let name = name.into();
        if self.has_index(&name) {
            return false;
        }
        let mut index = Index { name, function: Arc::new(function), keys: HashMap::new() };
        for (key, object) in &self.objects {
            index.insert(key, &(index.function)(object));
        }
        self.indices.push(index);
        true
    }

    /// Whether there is an index of that name.
    pub fn has_index(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// The names of the indices, in the order in which they were added.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indices.iter().map(|index| index.name.as_str())
    }

    /// Computes what changes in the indices if `object` is put under `key`, or if what is there is removed (`None`). Calls the
    /// index functions.
    pub fn prepare(&self, key: &K, object: Option<&T>) -> Reindex {
        if self.indices.is_empty() {
            return Reindex(Vec::new());
        }
        let old = self.objects.get(key);
        let values = |index: &Index<K, T>, object: Option<&T>| object.map(|object| (index.function)(object));
        let change = |index| (values(index, old).unwrap_or_default(), values(index, object).unwrap_or_default());
        Reindex(self.indices.iter().map(change).collect())
    }

    /// Puts `object` under `key`, or removes what is there (`None`), and returns what was there before. `reindex` has to be what
    /// [`prepare`](Self::prepare) gave for the same arguments, with no other write in between; the indices are wrong otherwise.
    pub fn commit(&mut self, key: K, object: Option<T>, reindex: Reindex) -> Option<T> {
        for (index, (old, new)) in self.indices.iter_mut().zip(reindex.0) {
            if old != new {
                index.remove(&key, &old);
                index.insert(&key, &new);
            }
        }
        match object {
            Some(object) => self.objects.insert(key, object),
            None => self.objects.remove(&key),
        }
    }

    /// Builds a store with the same indices that holds `objects`, and computes what changes if it takes the place of this one. Of
    /// several objects with one key the last one counts.
    ///
    /// # Errors
    ///
    /// The key function's, if an object has no key.
    pub fn prepare_swap(&self, objects: Vec<T>) -> Result<(Self, Replacement<T>), KeyError> {
        let with_key = |object| Ok(((self.key_func)(&object)?, object));
        let objects = objects.into_iter().map(with_key).collect::<Result<_, KeyError>>()?;
        let (next, order) = self.filled(objects);
        let mut gone: Vec<_> = self.objects.iter().filter(|(key, _)| !next.objects.contains_key(*key)).collect();
        gone.sort_unstable_by_key(|(key, _)| *key);
        let deleted = gone.into_iter().map(|(_, object)| object.clone()).collect();
        let pair = |key| Some((self.objects.get(key).cloned(), next.objects.get(key)?.clone()));
        let present = order.iter().filter_map(pair).collect();
        Ok((next, Replacement { deleted, present }))
    }

    /// A store with the same indices that holds these objects, and their keys in the order of the list.
    fn filled(&self, objects: Vec<(K, T)>) -> (Self, Vec<K>) {
        let emptied = |index: &Index<K, T>| Index {
            name: index.name.clone(),
            function: index.function.clone(),
            keys: HashMap::new(),
        };
        let mut next = Self {
            key_func: self.key_func.clone(),
            transformer: self.transformer.clone(),
            objects: HashMap::with_capacity(objects.len()),
            indices: self.indices.iter().map(emptied).collect(),
        };
        let mut order = Vec::with_capacity(objects.len());
        for (key, object) in objects {
            if next.objects.insert(key.clone(), object).is_none() {
                order.push(key);
            }
        }
        for (key, object) in &next.objects {
            for index in &mut next.indices {
                index.insert(key, &(index.function)(object));
            }
        }
        (next, order)
    }

    /// The object of that key.
    pub fn by_key(&self, key: &K) -> Option<&T> {
        self.objects.get(key)
    }

    /// All objects, in no particular order.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = &T> {
        self.objects.values()
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.objects.keys()
    }

    /// The keys of the objects that have `value` in the index `name`, in order. None: there is no such index.
    pub fn keys_by_index(&self, name: &str, value: &str) -> Option<impl Iterator<Item = &K>> {
        Some(self.index(name)?.keys.get(value).into_iter().flatten())
    }

    /// The objects that have `value` in the index `name`, ordered by key. None: there is no such index.
    pub fn objects_by_index(&self, name: &str, value: &str) -> Option<impl Iterator<Item = &T>> {
        Some(self.keys_by_index(name, value)?.filter_map(|key| self.objects.get(key)))
    }

    /// The values that the index `name` knows, in no particular order. None: there is no such index.
    pub fn values_of_index(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        Some(self.index(name)?.keys.keys().map(String::as_str))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn put(&mut self, object: T) -> Result<(), StoreError> {
        let (key, object) = self.taken_in(object)?;
        let reindex = self.prepare(&key, Some(&object));
        self.commit(key, Some(object), reindex);
        Ok(())
    }

    fn taken_in(&self, object: T) -> Result<(K, T), StoreError> {
        let key = (self.key_func)(&object)?;
        match &self.transformer {
            Some(transformer) => Ok((key, transformer(object).map_err(StoreError::Transform)?)),
            None => Ok((key, object)),
        }
    }

    fn index(&self, name: &str) -> Option<&Index<K, T>> {
        self.indices.iter().find(|index| index.name == name)
    }
}

/// Adding and updating are the same here. Deleting what is not there does nothing, and neither does a resync.
impl<K: Clone + Eq + Hash + Ord, T: Clone> Store<K, T> for MemoryStore<K, T> {
    type Entry = T;

    fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.put(object)
    }

    fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.put(object)
    }

    fn delete(&mut self, object: T) -> Result<(), StoreError> {
        let key = (self.key_func)(&object)?;
        let reindex = self.prepare(&key, None);
        self.commit(key, None, reindex);
        Ok(())
    }

    fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let objects = objects.into_iter().map(|object| self.taken_in(object)).collect::<Result<_, _>>()?;
        *self = self.filled(objects).0;
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
            match self.keys.get_mut(value) {
                Some(keys) => _ = keys.insert(key.clone()),
                None => _ = self.keys.insert(value.clone(), BTreeSet::from([key.clone()])),
            }
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
