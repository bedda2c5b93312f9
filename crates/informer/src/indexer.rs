use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pintle_meta::{Object, ObjectKey};
use tokio::sync::watch;

use crate::index::{Index, IndexFn};
use crate::{Snapshot, UnknownIndex, WaitError};

/// The index that each [`Indexer`] has from the start: objects by namespace.
pub const NAMESPACE_INDEX: &str = "namespace";

/// A thread-safe store of objects by key, with named indices over them: client-go's `Indexer`.
///
/// Objects and indices change together, so a reader sees them agree. Objects are shared and are not to be changed; an update
/// puts another object in the place of the old one.
///
/// The store of a [`SharedInformer`](crate::SharedInformer) is written by the informer alone, and read through a
/// [`Lister`](crate::Lister).
pub struct Indexer<T> {
    inner: RwLock<Inner<T>>,
    /// Held for the whole of a write, of which `inner` is locked for the last part only: index functions run outside of that.
    writer: Mutex<()>,
    progress: watch::Sender<Progress>,
}

/// What [`Indexer::replace`] did.
pub struct Replacement<T> {
    /// What was in the store and is no more.
    pub deleted: Vec<Arc<T>>,
    /// What is in the store now, each with what was there before under its key.
    pub present: Vec<(Option<Arc<T>>, Arc<T>)>,
}

pub(crate) struct Inner<T> {
    pub(crate) objects: HashMap<ObjectKey, Arc<T>>,
    pub(crate) indices: Vec<Index<T>>,
    pub(crate) resource_version: String,
}

/// How far the store has come, for [`Indexer::wait_for`].
#[derive(Clone, Copy, Default)]
struct Progress {
    revision: u64,
    closed: bool,
}

impl<T: Object> Indexer<T> {
    /// An empty store with the namespace index.
    pub fn new() -> Self {
        let namespaces = Index::new(NAMESPACE_INDEX.into(), Arc::new(|object: &T| vec_of(object.namespace())));
        let inner = Inner { objects: HashMap::new(), indices: vec![namespaces], resource_version: String::new() };
        Self { inner: RwLock::new(inner), writer: Mutex::new(()), progress: watch::Sender::default() }
    }

    /// Adds an index: objects by the values that `function` gives for them. Objects that are there already are indexed now.
    ///
    /// `function` must give the same values for the same object each time.
    ///
    /// # Errors
    ///
    /// [`IndexExists`] if the name is taken.
    pub fn add_index(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), IndexExists> {
        let name = name.into();
        let _writer = self.lock_writer();
        if self.read().index(&name).is_ok() {
            return Err(IndexExists { name });
        }
        let mut index = Index::new(name, Arc::new(function));
        let objects: Vec<Arc<T>> = self.list();
        for object in &objects {
            let values = index.values_of(object);
            index.insert(&object.key(), &values);
        }
        self.write().indices.push(index);
        Ok(())
    }

    /// Puts an object in, in place of the one with its key, which is returned. Add and Update in client-go's `Store`.
    ///
    /// The store's resourceVersion becomes the object's, unless that is empty.
    pub fn upsert(&self, object: Arc<T>) -> Option<Arc<T>> {
        let _writer = self.lock_writer();
        let key = object.key();
        let old = self.get(&key);
        let changes = self.index_changes(old.as_deref(), Some(&object));
        let version = object.resource_version().to_owned();
        let mut inner = self.write();
        inner.reindex(&key, changes);
        inner.objects.insert(key, object);
        self.advance(&mut inner, &version);
        old
    }

    /// Takes the object of that key out. Without effect if there is none.
    ///
    /// `resource_version` is the revision of the deletion; where it is not known, leave it empty.
    pub fn delete(&self, key: &ObjectKey, resource_version: &str) -> Option<Arc<T>> {
        let _writer = self.lock_writer();
        let old = self.get(key);
        let changes = self.index_changes(old.as_deref(), None);
        let mut inner = self.write();
        inner.reindex(key, changes);
        inner.objects.remove(key);
        self.advance(&mut inner, resource_version);
        old
    }

    /// Puts `objects` in place of all that is there, in one step: no reader sees a part of it.
    ///
    /// Of several objects with one key the last one counts.
    pub fn replace(&self, objects: Vec<Arc<T>>, resource_version: &str) -> Replacement<T> {
        let _writer = self.lock_writer();
        let mut next = HashMap::with_capacity(objects.len());
        let mut order = Vec::with_capacity(objects.len());
        for object in objects {
            let key = object.key();
            if next.insert(key.clone(), object).is_none() {
                order.push(key);
            }
        }
        let mut indices: Vec<Index<T>> = self.read().indices.iter().map(Index::emptied).collect();
        for (key, object) in &next {
            for index in &mut indices {
                let values = index.values_of(object);
                index.insert(key, &values);
            }
        }
        let replacement = {
            let inner = self.read();
            let deleted = inner.objects.iter().filter(|(key, _)| !next.contains_key(*key));
            let present =
                order.iter().filter_map(|key| Some((inner.objects.get(key).cloned(), next.get(key)?.clone())));
            Replacement { deleted: deleted.map(|(_, object)| object.clone()).collect(), present: present.collect() }
        };
        let mut inner = self.write();
        let before = (std::mem::replace(&mut inner.objects, next), std::mem::replace(&mut inner.indices, indices));
        self.advance(&mut inner, resource_version);
        drop(inner);
        // Taking large maps apart takes time that no reader should wait for.
        drop(before);
        replacement
    }

    /// Notes that the store is up to date as of `resource_version`, though nothing changed.
    pub fn bookmark(&self, resource_version: &str) {
        let _writer = self.lock_writer();
        self.advance(&mut self.write(), resource_version);
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// The keys of all objects, in no particular order.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.read().objects.keys().cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have `value` in the index `name`, ordered by key: client-go's `ByIndex`.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`], which tells the names that there are.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let inner = self.read();
        let keys = inner.index(name)?.keys(value);
        Ok(keys.filter_map(|key| inner.objects.get(key).cloned()).collect())
    }

    /// The keys of the objects that have `value` in the index `name`, in order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        Ok(self.read().index(name)?.keys(value).cloned().collect())
    }

    /// The values that the index `name` knows, in no particular order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, UnknownIndex> {
        Ok(self.read().index(name)?.values().map(str::to_owned).collect())
    }

    /// All objects and the revision at which they were all there together.
    pub fn snapshot(&self) -> Snapshot<T> {
        let inner = self.read();
        Snapshot::new(inner.objects.values().cloned().collect(), inner.resource_version.clone())
    }

    /// The revision of the last change, replacement or bookmark; empty before the first.
    pub fn resource_version(&self) -> String {
        self.read().resource_version.clone()
    }

    /// Waits until the store has all changes up to `resource_version`, which is how to read one's own writes: write, then
    /// wait for the resourceVersion that the server gave the written object, then read.
    ///
    /// # Errors
    ///
    /// [`WaitError::NotComparable`] if `resource_version` is not a number, and [`WaitError::Stopped`] when nothing fills the
    /// store any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), WaitError> {
        let Ok(revision) = resource_version.parse::<u64>() else {
            return Err(WaitError::NotComparable { resource_version: resource_version.into() });
        };
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|progress| progress.revision >= revision || progress.closed).await;
        match reached {
            Ok(progress) if progress.revision >= revision => Ok(()),
            _ => Err(WaitError::Stopped),
        }
    }

    /// Ends all waits: nothing will be written any more.
    pub(crate) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
    }

    /// The values that each index has to forget and to learn.
    fn index_changes(&self, old: Option<&T>, new: Option<&T>) -> Vec<(Vec<String>, Vec<String>)> {
        let functions: Vec<IndexFn<T>> = self.read().indices.iter().map(|index| index.function.clone()).collect();
        let values =
            |function: &IndexFn<T>, object: Option<&T>| object.map(|object| function(object)).unwrap_or_default();
        functions.iter().map(|function| (values(function, old), values(function, new))).collect()
    }

    fn advance(&self, inner: &mut Inner<T>, resource_version: &str) {
        if resource_version.is_empty() {
            return;
        }
        inner.resource_version.clear();
        inner.resource_version.push_str(resource_version);
        if let Ok(revision) = resource_version.parse() {
            self.progress.send_modify(|progress| progress.revision = revision);
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An index function that panics does so under this lock alone, before anything has changed. So poison says nothing.
    fn lock_writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Inner<T> {
    pub(crate) fn index(&self, name: &str) -> Result<&Index<T>, UnknownIndex> {
        let found = self.indices.iter().find(|index| index.name == name);
        found.ok_or_else(|| UnknownIndex {
            name: name.into(),
            known: self.indices.iter().map(|index| index.name.clone()).collect(),
        })
    }

    fn reindex(&mut self, key: &ObjectKey, changes: Vec<(Vec<String>, Vec<String>)>) {
        for (index, (old, new)) in self.indices.iter_mut().zip(changes) {
            if old != new {
                index.remove(key, &old);
                index.insert(key, &new);
            }
        }
    }
}

impl<T: Object> Default for Indexer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> fmt::Debug for Indexer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.read();
        f.debug_struct("Indexer")
            .field("len", &inner.objects.len())
            .field("resource_version", &inner.resource_version)
            .finish_non_exhaustive()
    }
}

/// An index of that name is there already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is an index named {name:?} already")]
pub struct IndexExists {
    name: String,
}

fn vec_of(value: Option<&str>) -> Vec<String> {
    value.map(str::to_owned).into_iter().collect()
}
