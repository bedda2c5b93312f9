//! An informer's store: a map of objects by key, with indices.

mod commit_signal;
mod contracts;
mod indices;
mod moved;
pub(crate) mod parts;
mod undecodable;
mod writes;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::sync::{Arc, MutexGuard};

use pintle_delta_fifo::Replacement;
use pintle_meta::__private::{Mutex, RwLock};
use pintle_meta::{Object, ObjectKey};

use crate::error::{IndexFailed, NotReached, UnknownIndex};
use crate::index::{Index, find};
use crate::objects::Objects;
use crate::panic::isolated;
use crate::snapshot::Snapshot;
use crate::store::{self, Pages, Write};
use crate::stored::{Source, Stored};
use crate::undecodable::Undecodable;
use crate::version;

use commit_signal::CommitSignal;
use moved::Moved;
use parts::Parts;
use writes::{Indexed, Refused, Replaced, take};

pub(crate) use undecodable::was_replaced;
pub(crate) use writes::{WriteResult, last_of_each};

/// A thread-safe store of objects by key, with named indices. Like client-go's cache, `Cache` implements
/// [`Indexer`](pintle_delta_fifo::Indexer).
///
/// An object and its index values change in one atomic step. [Transactions](Self::transaction) and
/// [replacements](Self::replace) are atomic, and each read sees a consistent state. To read the same state several
/// times, take a [`Snapshot`]. A reader waits for a writer only while the writer changes the object that the reader
/// requests. Stored objects are shared and immutable. To change an object, store a new object.
///
/// Only a [`SharedInformer`](crate::SharedInformer) writes to its cache. Read the cache of an informer through a
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
///     pods.add_index("app", |pod| pod.metadata.labels.get("app").cloned())?;
///
///     let mut metadata = ObjectMeta::new("team-a", "web-1");
///     metadata.labels.insert("app".into(), "web".into());
///     pods.upsert(Arc::new(PartialObject { metadata, ..PartialObject::default() }))?;
///     assert_eq!(pods.by_index("app", "web")?.len(), 1);
///     assert_eq!(pods.index_keys("namespace", "team-a")?, [ObjectKey::new("team-a", "web-1")]);
///     Ok(())
/// }
/// ```
pub struct Cache<T> {
    pub(crate) store: Arc<store::Store<Stored<T>>>,
    /// The decoder of objects that are stored as JSON, or `None` if every object is decoded when it arrives.
    source: Option<Arc<Source<T>>>,
    /// Code that changes this field must hold the store's writer lock.
    indices: RwLock<Arc<Vec<Index<T>>>>,
    undecodable: Mutex<BTreeMap<ObjectKey, Undecodable>>,
    went_back: AtomicU64,
    parts: Mutex<Parts>,
    /// Whether `undecodable` has entries. Code that changes this flag must hold the store's writer lock. While the flag
    /// is `false`, writers do not lock `undecodable`.
    has_undecodable: AtomicBool,
    commit_signal: CommitSignal,
    moved: Moved,
    is_closed: AtomicBool,
    is_strict: bool,
}

impl<T: Object> Cache<T> {
    /// Creates an empty cache with the namespace index.
    pub fn new() -> Self {
        Self { is_strict: true, ..Self::of(Parts::default(), None) }
    }

    pub(crate) fn of(parts: Parts, source: Option<Arc<Source<T>>>) -> Self {
        // More shards reduce contention between readers, but each index lookup visits all shards. Under loom, use a
        // single shard, because loom requires that each run takes the same locks, but keys are assigned to shards at
        // random.
        let shards =
            if cfg!(pintle_loom) { 1 } else { 2 * std::thread::available_parallelism().map_or(1, usize::from) };
        Self {
            store: Arc::new(store::Store::new(shards)),
            source,
            indices: RwLock::new(Arc::new(vec![Index::namespaces()])),
            undecodable: Mutex::default(),
            went_back: AtomicU64::new(0),
            parts: Mutex::new(parts),
            has_undecodable: AtomicBool::new(false),
            commit_signal: CommitSignal::default(),
            moved: Moved::default(),
            is_closed: AtomicBool::new(false),
            is_strict: false,
        }
    }

    /// Stores an object, and returns the previous object with the same key, like client-go's
    /// `Store.Add` and `Store.Update`.
    ///
    /// Sets the cache's revision to the object's resourceVersion, unless the resourceVersion is empty or older than the
    /// cache's revision.
    ///
    /// # Errors
    ///
    /// Returns [`IndexFailed`] if an index function fails or panics on the object. If an index function fails, the
    /// cache does not store the object, and [`undecodable`](Self::undecodable) lists it. If the cache contains an
    /// object with the same key and uid, that object stays in the cache as the last good state. If the cache contains
    /// an object with the same key and another uid, that object is deleted.
    pub fn upsert(&self, object: Arc<T>) -> Result<Option<Arc<T>>, IndexFailed> {
        let object = Stored::from(object);
        let (key, version) = (object.key(), object.resource_version());
        let prepare = |indices: &[Index<T>]| self.put(indices, &key, &object);
        // Drop the values after releasing the lock, because dropping them can run user-defined `Drop` code.
        let (before, _gone) = self.commit(prepare, |writer, write| match write {
            Ok(Indexed { write, .. }) => {
                let before = writer.write(write, |current| version::advance(current, version));
                self.note([&key], []);
                (Ok(before), None)
            }
            Err(refused) => {
                let Refused { error, entry, was_replaced } = *refused;
                let gone = if was_replaced { writer.write(take(&key), |_| {}) } else { None };
                self.note([], [entry]);
                (Err(error), gone)
            }
        });
        self.moved.announce();
        before.map(|before| before?.into_read())
    }

    /// Deletes and returns the object with this key, if any.
    ///
    /// `resource_version` is the deletion's revision, or an empty string if the revision is unknown.
    pub fn delete(&self, key: &ObjectKey, resource_version: &str) -> Option<Arc<T>> {
        let mut guard = self.begin_commit();
        let before = guard.writer.write(take(key), |current| version::advance(current, resource_version));
        self.note([key], []);
        drop(guard);
        self.moved.announce();
        before?.into_read()
    }

    /// Stores (`Some`) and deletes (`None`) several objects in one atomic step, like client-go's `Transaction`. Returns
    /// the previous object of each key. All keys must be distinct.
    ///
    /// Sets the cache's revision to `resource_version`, unless `resource_version` is empty or older than the cache's
    /// revision.
    ///
    /// # Errors
    ///
    /// Returns an [`IndexFailed`] for each object on which an index function fails, as in [`upsert`](Self::upsert).
    /// Changes to other objects are still applied.
    pub fn transaction(
        &self,
        changes: Vec<(ObjectKey, Option<Arc<T>>)>,
        resource_version: &str,
    ) -> Vec<Result<Option<Arc<T>>, IndexFailed>> {
        let changes = changes.into_iter().map(|(key, object)| (key, object.map(Stored::from))).collect();
        let written = self.write_all(changes, Vec::new(), resource_version).into_iter();
        let result = |written: WriteResult<T>| {
            written.refused.map_or_else(|| Ok(written.before.and_then(Stored::into_read)), Err)
        };
        written.map(result).collect()
    }

    /// Replaces all objects in one atomic step. Storing the same `Arc` again is cheap.
    ///
    /// If several objects have the same key, the cache stores the last one. Sets the cache's revision to
    /// `resource_version`, unless `resource_version` is empty. The revision may decrease, for example after the server
    /// was restored from a backup.
    ///
    /// If an index function fails or panics on an object, the cache handles the object as in [`upsert`](Self::upsert).
    pub fn replace(&self, objects: Vec<Arc<T>>, resource_version: &str) -> Replacement<Arc<T>> {
        let objects = last_of_each(objects.into_iter().map(Stored::from).collect());
        let Replaced { deleted, present, .. } = self.replace_all(None, objects, Vec::new(), resource_version);
        let present =
            present.into_iter().filter_map(|(_, old, new)| Some((old.and_then(Stored::into_read), new.into_read()?)));
        let deleted = deleted.into_iter().filter_map(|(_, object)| object.into_read());
        Replacement { deleted: deleted.collect(), present: present.collect() }
    }

    /// Advances the cache's revision to `resource_version`, without changing objects. An empty or older
    /// `resource_version` is ignored.
    pub fn bookmark(&self, resource_version: &str) {
        self.store.writer().set_version(|current| version::advance(current, resource_version));
        self.moved.announce();
    }

    /// Returns the object with this key, if any.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.store.get(key)?.into_read()
    }

    /// Returns all decodable objects, in no particular order. The returned list shares the cache's pages, so this call
    /// copies no objects. If objects are decoded on read, this call first decodes all objects that have not been
    /// checked yet.
    pub fn list(&self) -> Objects<T> {
        let pages = self.store.pin(|_| ()).0.pages();
        let is_unknown = self.source.as_ref().is_some_and(|source| source.has_unknown());
        let unreadable = if is_unknown { unreadable(&pages) } else { Vec::new() };
        Objects::new(pages, unreadable)
    }

    /// Returns the keys of all objects, in no particular order.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        self.store.pin(|_| ()).0.visit_keys(|key, _, _| keys.push(key.clone()));
        keys
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects that have `value` in the index `name`, in no particular order, like client-go's `ByIndex`.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownIndex`], which lists the existing indices, if there is no index `name`.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let indices = self.indices();
        let (pin, ()) = self.store.pin(|_| ());
        let found = pin.of_term(find(&indices, name, pin.stamp())?, value, |_, object| Some(object.clone()));
        Ok(found.into_iter().filter_map(Stored::into_read).collect())
    }

    /// Returns the keys of the objects that have `value` in the index `name`, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        self.snapshot().index_keys(name, value)
    }

    /// Returns all values in the index `name`, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, UnknownIndex> {
        self.snapshot().index_values(name)
    }

    /// Returns an immutable snapshot of the cache. The cost of this call does not depend on the number of objects.
    pub fn snapshot(&self) -> Snapshot<T> {
        let (pin, resource_version) = self.store.pin(str::to_owned);
        Snapshot::new(pin, self.indices(), resource_version)
    }

    /// Returns the revision of the last change, replacement or bookmark, or an empty string if there was none.
    pub fn resource_version(&self) -> String {
        self.store.resource_version(str::to_owned)
    }

    /// Waits until the cache contains all changes up to `resource_version`. To read your own write, call this method
    /// with the resourceVersion from the server's response to the write.
    ///
    /// An informer's cache also waits until it [has synced](crate::SharedInformer::wait_for_sync) with the current
    /// namespaces and selectors.
    ///
    /// # Errors
    ///
    /// - [`NotReached::NotComparable`] if `resource_version` or the cache's revision is not a number.
    /// - [`NotReached::WentBack`] if the server's revisions decrease during the wait, for example after a restore from
    ///   a backup.
    /// - [`NotReached::Stopped`] if the cache's informer has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), NotReached> {
        self.read_at_least(resource_version).await.map(drop)
    }

    /// Waits like [`wait_for`](Self::wait_for), and returns a snapshot.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait_for`](Self::wait_for).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn read_at_least(&self, resource_version: &str) -> Result<Snapshot<T>, NotReached> {
        let not_comparable =
            |resource_version: &str| NotReached::NotComparable { resource_version: resource_version.into() };
        if !version::is_number(resource_version) {
            return Err(not_comparable(resource_version));
        }
        let waiting = self.moved.wait();
        let begun = self.went_back.load(atomic::Ordering::Acquire);
        loop {
            // Create the future and read both flags before taking the snapshot, so that later changes wake this task.
            let moved = waiting.next();
            let is_closed = self.is_closed.load(atomic::Ordering::Acquire);
            let has_all = self.has_all();
            let snapshot = self.snapshot();
            match version::compare(snapshot.resource_version(), resource_version) {
                Some(Ordering::Less) => {}
                Some(_) if has_all => return Ok(snapshot),
                Some(_) => {}
                None if snapshot.resource_version().is_empty() => {}
                None => return Err(not_comparable(snapshot.resource_version())),
            }
            drop(snapshot);
            if self.went_back.load(atomic::Ordering::Acquire) != begun {
                return Err(NotReached::WentBack { resource_version: resource_version.into() });
            }
            if is_closed {
                return Err(NotReached::Stopped);
            }
            isolated(moved).await;
        }
    }

    pub(crate) fn write_all(
        &self,
        changes: Vec<(ObjectKey, Option<Stored<T>>)>,
        undecodable: Vec<Undecodable>,
        revision: &str,
    ) -> Vec<WriteResult<T>> {
        let prepare = |indices: &[Index<T>]| -> Vec<_> {
            let one = |(key, object): &(ObjectKey, Option<_>)| match object {
                Some(object) => self.put(indices, key, object),
                None => Ok(take(key).into()),
            };
            changes.iter().map(one).collect()
        };
        let written = self.commit(prepare, |writer, prepared| {
            let (mut writes, mut entries) = (Vec::with_capacity(prepared.len()), Vec::new());
            let mut written = Vec::with_capacity(prepared.len());
            for (write, (key, _)) in prepared.into_iter().zip(&changes) {
                let (write, refused, unindexed) = match write {
                    Ok(Indexed { write, unindexed }) => (Some(write), None, unindexed),
                    Err(refused) => {
                        let Refused { error, entry, was_replaced } = *refused;
                        entries.push(entry);
                        (was_replaced.then(|| take(key)), Some(error), Vec::new())
                    }
                };
                written.push((write.is_some(), WriteResult { before: None, refused, unindexed }));
                writes.extend(write);
            }
            let set_version = |current: &mut String| version::advance(current, revision);
            let mut before = writer.write_all(writes, set_version).into_iter();
            let written = written.into_iter().map(|(is_write, written)| {
                if is_write { WriteResult { before: before.next().flatten(), ..written } } else { written }
            });
            let written: Vec<WriteResult<T>> = written.collect();
            self.note(changes.iter().map(|(key, _)| key), undecodable.into_iter().chain(entries));
            written
        });
        self.moved.announce();
        written
    }

    /// Replaces objects like [`replace`](Self::replace), and also replaces the entries of undecodable objects. The keys
    /// of `objects` must be distinct. If `within` is a namespace, this method replaces only the objects in that
    /// namespace.
    pub(crate) fn replace_all(
        &self,
        within: Option<&str>,
        objects: Vec<(ObjectKey, Stored<T>)>,
        undecodable: Vec<Undecodable>,
        revision: &str,
    ) -> Replaced<T> {
        let prepare = |indices: &[Index<T>]| -> Vec<_> {
            objects.iter().map(|(key, object)| self.put(indices, key, object)).collect()
        };
        let (mut replaced, _) = self.commit(prepare, |writer, prepared| {
            let (mut writes, mut kept, mut failed) = (Vec::with_capacity(prepared.len()), Vec::new(), Vec::new());
            let mut entries: BTreeMap<_, _> = undecodable.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            for write in prepared {
                match write {
                    Ok(Indexed { write, unindexed }) => {
                        writes.push(write);
                        failed.extend(unindexed);
                    }
                    Err(object) => {
                        let Refused { entry, was_replaced, .. } = *object;
                        // Keep the previous object in the cache, so that subscribers do not receive a deletion.
                        let known = if was_replaced { None } else { self.store.get(&entry.key) };
                        let key = entry.key.clone();
                        kept.extend(known.map(|known| Write { key, value: Some(known), values: Vec::new() }));
                        entries.insert(entry.key.clone(), entry);
                    }
                }
            }
            let present = writes.iter().filter_map(|write| Some((write.key.clone(), write.value.clone()?)));
            let present: Vec<(ObjectKey, Stored<T>)> = present.collect();
            writes.extend(kept);
            let is_within = |key: &ObjectKey| within.is_none_or(|namespace| key.namespace() == Some(namespace));
            let set_version = |current: &mut String| {
                if version::is_older(revision, current) {
                    self.went_back.fetch_add(1, atomic::Ordering::Release);
                }
                version::set(current, revision);
            };
            let replaced = writer.replace(writes, is_within, Stored::is_same, set_version);
            let before = {
                let mut undecodable = self.undecodable.lock();
                let mut before = std::mem::replace(&mut *undecodable, entries);
                undecodable.extend(before.extract_if(.., |key, _| !is_within(key)));
                self.has_undecodable.store(!undecodable.is_empty(), atomic::Ordering::Relaxed);
                before
            };
            let present = present.into_iter().zip(replaced.before).map(|((key, new), old)| (key, old, new));
            let replaced = Replaced { deleted: replaced.deleted, present: present.collect(), unindexed: failed };
            (replaced, before)
        });
        replaced.deleted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.moved.announce();
        replaced
    }

    /// Fails all waits for a revision, because the server's revisions decreased and the cache may never reach the
    /// awaited revisions.
    pub(crate) fn history_went_back(&self) {
        self.went_back.fetch_add(1, atomic::Ordering::Release);
        self.moved.announce_end();
    }

    /// Ends all waits for a revision, because the cache will not change anymore. Drops the index functions, because
    /// they may own handles to this cache.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, atomic::Ordering::Release);
        self.drop_functions();
        self.moved.announce_end();
    }

    pub(crate) fn has_all(&self) -> bool {
        self.parts().have_all()
    }

    /// Returns the revision up to which the cache contains all changes in `namespace`. The revision of a namespace may
    /// be newer than the cache's revision. Returns `None` if the namespace has no separate revision and the
    /// [cache's revision](Self::resource_version) applies.
    pub(crate) fn reached(&self, namespace: Option<&str>) -> Option<String> {
        self.parts().reached(namespace).map(str::to_owned)
    }

    pub(crate) fn change_parts<R>(&self, change: impl FnOnce(&mut Parts) -> R) -> R {
        let changed = change(&mut self.parts());
        self.moved.announce_end();
        changed
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock()
    }

    pub(crate) fn source(&self) -> Option<&Arc<Source<T>>> {
        self.source.as_ref()
    }
}

fn unreadable<T>(pages: &Pages<Stored<T>>) -> Vec<usize> {
    let (mut unreadable, mut slot) = (Vec::new(), 0);
    while let Some(object) = pages.next(&mut slot) {
        if !object.is_readable() && object.read().is_none() {
            unreadable.push(slot - 1);
        }
    }
    unreadable
}
