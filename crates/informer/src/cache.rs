//! The store: objects by key, with indices over them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pintle_delta_fifo::{
    BoxError, Indexer, KeyError, KeyGetter, KeyLister, MemoryStore, Reindex, Replacement, Store, StoreError,
};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::watch;

use crate::{NotReached, Snapshot, Undecodable, UnknownIndex};

/// The index that each [`Cache`] has from the start: objects by namespace.
pub const NAMESPACE_INDEX: &str = "namespace";

/// A thread-safe store of objects by key, with named indices over them: an [`Indexer`], as in client-go.
///
/// Objects and indices change together, so a reader sees them agree. Objects are shared and are not to be changed; an update
/// puts another object in the place of the old one.
///
/// The store of a [`SharedInformer`](crate::SharedInformer) is written by the informer alone, and read through a
/// [`Lister`](crate::Lister).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::Cache;
/// use pintle_meta::{ObjectKey, ObjectMeta, PartialObject};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let pods: Cache<PartialObject> = Cache::new();
///     pods.add_index("app", |pod| pod.metadata.labels.get("app").cloned().into_iter().collect())?;
///
///     let mut metadata = ObjectMeta::new("team-a", "web-1");
///     metadata.labels.insert("app".into(), "web".into());
///     pods.upsert(Arc::new(PartialObject { metadata, ..PartialObject::default() }));
///     assert_eq!(pods.by_index("app", "web")?.len(), 1);
///     assert_eq!(pods.index_keys("namespace", "team-a")?, [ObjectKey::new("team-a", "web-1")]);
///     Ok(())
/// }
/// ```
pub struct Cache<T> {
    inner: RwLock<Inner<T>>,
    /// Held for the whole of a write, of which `inner` is locked for the last part only: readers do not wait for the index
    /// functions, unless an index is added.
    writer: Mutex<()>,
    progress: watch::Sender<Progress>,
}

pub(crate) struct Inner<T> {
    pub(crate) store: MemoryStore<ObjectKey, Arc<T>>,
    undecodable: BTreeMap<ObjectKey, Undecodable>,
    resource_version: String,
}

/// How far the store has come, for [`Cache::wait_for`].
#[derive(Clone, Copy, Default)]
struct Progress {
    revision: u64,
    closed: bool,
}

impl<T: Object> Cache<T> {
    /// An empty store with the namespace index.
    pub fn new() -> Self {
        let mut store = MemoryStore::new(|object: &Arc<T>| Ok(object.key()));
        store.add_index(NAMESPACE_INDEX, |object| object.namespace().map(str::to_owned).into_iter().collect());
        let inner = Inner { store, undecodable: BTreeMap::new(), resource_version: String::new() };
        Self { inner: RwLock::new(inner), writer: Mutex::new(()), progress: watch::Sender::default() }
    }

    /// Adds an index: objects by the values that `function` gives for them. Objects that are there already are indexed now.
    ///
    /// `function` must give the same values for the same object each time. It is called under the lock of the store, so it must
    /// not use the store.
    ///
    /// # Errors
    ///
    /// [`IndexExists`] if the name is taken.
    ///
    /// # Panics
    ///
    /// If `function` does, on an object that is there; then there is no such index. If it does so later, the write panics and the
    /// store is as it was.
    pub fn add_index(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), IndexExists> {
        let name = name.into();
        let _writer = self.lock_writer();
        match self.write().store.add_index(name.clone(), move |object| function(object)) {
            true => Ok(()),
            false => Err(IndexExists { name }),
        }
    }

    /// Puts an object in, in place of the one with its key, which is returned. Add and Update in client-go's `Store`.
    ///
    /// The store's resourceVersion becomes the object's, unless that is empty.
    pub fn upsert(&self, object: Arc<T>) -> Option<Arc<T>> {
        let version = object.resource_version().to_owned();
        self.write_all(vec![(object.key(), Some(object))], Vec::new(), &version).pop().flatten()
    }

    /// Takes the object of that key out. Without effect if there is none.
    ///
    /// `resource_version` is the revision of the deletion; where it is not known, leave it empty.
    pub fn delete(&self, key: &ObjectKey, resource_version: &str) -> Option<Arc<T>> {
        self.write_all(vec![(key.clone(), None)], Vec::new(), resource_version).pop().flatten()
    }

    /// Puts `objects` in place of all that is there, in one step: no reader sees a part of it.
    ///
    /// Of several objects with one key the last one counts.
    pub fn replace(&self, objects: Vec<Arc<T>>, resource_version: &str) -> Replacement<Arc<T>> {
        self.replace_all(objects, Vec::new(), resource_version)
    }

    /// As [`replace`](Self::replace), and these could not be decoded.
    pub(crate) fn replace_all(
        &self,
        objects: Vec<Arc<T>>,
        undecodable: Vec<Undecodable>,
        resource_version: &str,
    ) -> Replacement<Arc<T>> {
        let _writer = self.lock_writer();
        let prepared = self.read().store.prepare_swap(objects);
        let Ok((next, replacement)) = prepared else {
            unreachable!("each object has a key");
        };
        let mut inner = self.write();
        let before = std::mem::replace(&mut inner.store, next);
        inner.undecodable = undecodable.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        self.advance(&mut inner, resource_version);
        drop(inner);
        // Taking a large store apart takes time that no reader should wait for.
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
        self.read().store.by_key(key).cloned()
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.read().store.objects().cloned().collect()
    }

    /// The keys of all objects, in no particular order.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.read().store.keys().cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().store.len()
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
        let objects = inner.store.objects_by_index(name, value);
        Ok(objects.ok_or_else(|| inner.unknown_index(name))?.cloned().collect())
    }

    /// The keys of the objects that have `value` in the index `name`, in order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        let inner = self.read();
        let keys = inner.store.keys_by_index(name, value);
        Ok(keys.ok_or_else(|| inner.unknown_index(name))?.cloned().collect())
    }

    /// The values that the index `name` knows, in no particular order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, UnknownIndex> {
        let inner = self.read();
        let values = inner.store.values_of_index(name);
        Ok(values.ok_or_else(|| inner.unknown_index(name))?.map(str::to_owned).collect())
    }

    /// The objects that the server has and that cannot be decoded, in the order of their keys.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.read().undecodable.values().cloned().collect()
    }

    /// How many of these there are.
    pub(crate) fn undecodable_len(&self) -> usize {
        self.read().undecodable.len()
    }

    /// All objects and the revision at which they were all there together.
    pub fn snapshot(&self) -> Snapshot<T> {
        let inner = self.read();
        Snapshot::new(inner.store.objects().cloned().collect(), inner.resource_version.clone())
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
    /// [`NotReached::NotComparable`] if `resource_version` is not a number, and [`NotReached::Stopped`] when nothing fills the
    /// store any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), NotReached> {
        let Ok(revision) = resource_version.parse::<u64>() else {
            return Err(NotReached::NotComparable { resource_version: resource_version.into() });
        };
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|progress| progress.revision >= revision || progress.closed).await;
        match reached {
            Ok(progress) if progress.revision >= revision => Ok(()),
            _ => Err(NotReached::Stopped),
        }
    }

    /// Calls the index functions on an object, so that one that panics on it does so before anything is written.
    pub(crate) fn try_index(&self, object: &Arc<T>) {
        let inner = self.read();
        // The index that is always there panics at nothing.
        if inner.store.index_names().nth(1).is_some() {
            inner.store.prepare(&object.key(), Some(object));
        }
    }

    /// Puts in or takes out several objects in one step, each of another key, and returns what was there before. `undecodable` are
    /// those that came as well and could not be decoded.
    pub(crate) fn write_all(
        &self,
        changes: Vec<(ObjectKey, Option<Arc<T>>)>,
        undecodable: Vec<Undecodable>,
        resource_version: &str,
    ) -> Vec<Option<Arc<T>>> {
        let _writer = self.lock_writer();
        let reindexes: Vec<Reindex> = {
            let inner = self.read();
            changes.iter().map(|(key, object)| inner.store.prepare(key, object.as_ref())).collect()
        };
        let mut inner = self.write();
        if !inner.undecodable.is_empty() {
            changes.iter().for_each(|(key, _)| _ = inner.undecodable.remove(key));
        }
        inner.undecodable.extend(undecodable.into_iter().map(|entry| (entry.key.clone(), entry)));
        let changes = changes.into_iter().zip(reindexes);
        let before = changes.map(|((key, object), reindex)| inner.store.commit(key, object, reindex)).collect();
        self.advance(&mut inner, resource_version);
        before
    }

    /// Ends all waits: nothing will be written any more.
    pub(crate) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
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

impl<T: Object> Inner<T> {
    fn unknown_index(&self, name: &str) -> UnknownIndex {
        UnknownIndex { name: name.into(), known: self.store.index_names().map(str::to_owned).collect() }
    }
}

/// Writes are as those by the methods of the cache itself, which need no exclusive access.
impl<T: Object> Store<ObjectKey, Arc<T>> for Cache<T> {
    type Entry = Arc<T>;

    fn add(&mut self, object: Arc<T>) -> Result<(), StoreError> {
        self.upsert(object);
        Ok(())
    }

    fn update(&mut self, object: Arc<T>) -> Result<(), StoreError> {
        self.upsert(object);
        Ok(())
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

impl<T: Object> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.read();
        f.debug_struct("Cache")
            .field("store", &inner.store)
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
