//! The store: objects by key, with indices over them.

mod contracts;
mod history;
mod indices;
mod moved;
mod noted;
pub(crate) mod parts;
pub(crate) mod version;
mod writes;

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pintle_delta_fifo::Replacement;
use pintle_meta::{Object, ObjectKey};

use crate::guarded::Guarded;
use crate::panic::isolated;
use crate::publisher::is_succeeded;
use crate::store::{self, Write};
use crate::{NotReached, Snapshot, Undecodable, UnknownIndex};

use history::{Memory, Past, Step};
use moved::Moved;
use noted::Noted;
use parts::Parts;
use version::Revision;
use writes::{Indexed, Refused, Replaced, take};

pub use history::{HistoryGuard, Remembered};
pub use indices::{AddIndexError, IndexFailed, IndexValues};
pub(crate) use indices::{Index, find};
pub(crate) use writes::{Written, last_of_each};

/// The index that each [`Cache`] has from the start: objects by namespace.
pub const NAMESPACE_INDEX: &str = "namespace";

/// A thread-safe store of objects by key, with named indices over them: an [`Indexer`](pintle_delta_fifo::Indexer), as in client-go.
///
/// Objects and indices change together, and all of a [`transaction`](Self::transaction) or [replacement](Self::replace) in one step:
/// each read is answered from one state. Who needs several reads of one state takes a [`Snapshot`]. Readers do not wait for a write, but
/// for the moment in which it changes the one object that they look for. Objects are shared and are not to be changed; an update puts
/// another object in the place of the old one.
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
    store: Arc<store::Store<Guarded<T>>>,
    /// Changed by who has the right to write to the store.
    indices: RwLock<Arc<Vec<Index<T>>>>,
    undecodable: Mutex<BTreeMap<ObjectKey, Undecodable>>,
    memory: Arc<Memory<T>>,
    /// How often the history of the server went back.
    went_back: AtomicU64,
    /// Where sources fill it, how far each has come.
    parts: Mutex<Parts>,
    /// Whether there is anything in `undecodable`. It is changed by the writer, and spares the writer a lock that it has no use for as a rule.
    has_undecodable: AtomicBool,
    /// Up to where both have taken up what there was.
    noted: Noted,
    moved: Moved,
    is_closed: AtomicBool,
    /// Objects are refused if an index function fails on them.
    is_strict: bool,
}

impl<T: Object> Cache<T> {
    /// An empty store with the namespace index.
    pub fn new() -> Self {
        Self { is_strict: true, ..Self::of(Parts::default()) }
    }

    /// One that sources fill.
    pub(crate) fn of(parts: Parts) -> Self {
        // Readers meet in a lock the less often the more there are; a read of an index visits all of them.
        // loom wants each run to go to the same locks, and which shard a key is in is for chance to say.
        let shards =
            if cfg!(pintle_loom) { 1 } else { 2 * std::thread::available_parallelism().map_or(1, usize::from) };
        Self {
            store: Arc::new(store::Store::new(shards)),
            indices: RwLock::new(Arc::new(vec![Index::namespaces()])),
            undecodable: Mutex::default(),
            memory: Arc::default(),
            went_back: AtomicU64::new(0),
            parts: Mutex::new(parts),
            has_undecodable: AtomicBool::new(false),
            noted: Noted::default(),
            moved: Moved::default(),
            is_closed: AtomicBool::new(false),
            is_strict: false,
        }
    }

    /// Puts an object in, in place of the one with its key, which is returned. Add and Update in client-go's `Store`.
    ///
    /// The store's resourceVersion becomes the object's, unless that is empty or older.
    ///
    /// # Errors
    ///
    /// [`IndexFailed`] if an index function fails or panics on the object, which then shows among the
    /// [undecodable](Self::undecodable) ones. What is there for its key stays, as the last good state; but not if that is another object
    /// by its uid, which is gone.
    pub fn upsert(&self, object: Arc<T>) -> Result<Option<Arc<T>>, IndexFailed> {
        let object = Guarded::from(object);
        let (key, version) = (object.key(), object.resource_version());
        let prepare = |indices: &[Index<T>]| self.put(indices, &key, &object);
        // What is not wanted any more is a user's, and is dropped under no lock.
        let (before, _forgotten, _gone) = self.commit(prepare, |writer, write| {
            let earlier = self.earlier();
            match write {
                Ok(Indexed { write, .. }) => {
                    let before = writer.write(write, |current| version::advance(current, version));
                    self.note([&key], []);
                    let steps = || [(key.clone(), before.clone(), Some(object.clone()))].into_iter();
                    let forgotten = self.record(earlier, version, steps);
                    (Ok(before), forgotten, None)
                }
                Err(refused) => {
                    let Refused { error, entry, is_succeeded } = *refused;
                    let gone = if is_succeeded { writer.write(take(&key), |_| {}) } else { None };
                    self.note([], [entry]);
                    let forgotten = self.record(earlier, version, || [(key.clone(), gone.clone(), None)].into_iter());
                    (Err(error), forgotten, gone)
                }
            }
        });
        self.moved.announce();
        before.map(|before| before.map(Guarded::into_arc))
    }

    /// Takes the object of that key out. Without effect if there is none.
    ///
    /// `resource_version` is the revision of the deletion; where it is not known, leave it empty.
    pub fn delete(&self, key: &ObjectKey, resource_version: &str) -> Option<Arc<T>> {
        let mut noting = self.noting();
        let earlier = self.earlier();
        let before = noting.writer.write(take(key), |current| version::advance(current, resource_version));
        self.note([key], []);
        let _forgotten = self.record(earlier, resource_version, || [(key.clone(), before.clone(), None)].into_iter());
        drop(noting);
        self.moved.announce();
        before.map(Guarded::into_arc)
    }

    /// Puts in (`Some`) and takes out (`None`) several objects in one step, and returns for each what was there before: client-go's
    /// `Transaction`. A key is to be there once.
    ///
    /// `resource_version` is the revision that the store has with these changes; it is not taken up if it is empty or older.
    ///
    /// # Errors
    ///
    /// For each, [`IndexFailed`], as for [`upsert`](Self::upsert). The others are done.
    pub fn transaction(
        &self,
        changes: Vec<(ObjectKey, Option<Arc<T>>)>,
        resource_version: &str,
    ) -> Vec<Result<Option<Arc<T>>, IndexFailed>> {
        let changes = changes.into_iter().map(|(key, object)| (key, object.map(Guarded::from))).collect();
        let written = self.write_all(changes, Vec::new(), &resource_version.into()).into_iter();
        let told = |written: Written<T>| written.refused.map_or(Ok(written.before.map(Guarded::into_arc)), Err);
        written.map(told).collect()
    }

    /// Puts `objects` in place of all that is there, in one step: no reader sees a part of it. An object that is the very one that is
    /// there already (`Arc::ptr_eq`) costs next to nothing.
    ///
    /// Of several objects with one key the last one counts. The store's resourceVersion becomes `resource_version`, unless that is
    /// empty. It may be an older one: then the history of the server has begun anew.
    ///
    /// An object on which an index function fails or panics is as one that [`upsert`](Self::upsert) refuses.
    pub fn replace(&self, objects: Vec<Arc<T>>, resource_version: &str) -> Replacement<Arc<T>> {
        let objects = last_of_each(objects.into_iter().map(Guarded::from).collect());
        let Replaced { deleted, present, .. } = self.replace_all(None, objects, Vec::new(), &resource_version.into());
        let present = present.into_iter().map(|(_, old, new)| (old.map(Guarded::into_arc), new.into_arc()));
        let deleted = deleted.into_iter().map(|(_, object)| object.into_arc());
        Replacement { deleted: deleted.collect(), present: present.collect() }
    }

    /// Notes that the store is up to date as of `resource_version`, though nothing changed.
    pub fn bookmark(&self, resource_version: &str) {
        self.store.writer().tell(|current| version::advance(current, resource_version));
        self.moved.announce();
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.store.get(key).map(Guarded::into_arc)
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        let mut objects = Vec::new();
        let (pin, ()) = self.store.pin(|_| ());
        objects.reserve(pin.len());
        pin.visit(|object| objects.push(Arc::clone(object)));
        objects
    }

    /// The keys of all objects, in no particular order.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        self.store.pin(|_| ()).0.visit_keys(|key, _, _| keys.push(key.clone()));
        keys
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have `value` in the index `name`, in no particular order: client-go's `ByIndex`.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`], which tells the names that there are.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let indices = self.indices();
        let (pin, ()) = self.store.pin(|_| ());
        Ok(pin.of_term(find(&indices, name, pin.stamp())?, value, |_, object| Some(Arc::clone(object))))
    }

    /// The keys of the objects that have `value` in the index `name`, in order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        self.snapshot().index_keys(name, value)
    }

    /// The values that the index `name` knows, in order.
    ///
    /// # Errors
    ///
    /// As for [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, UnknownIndex> {
        self.snapshot().index_values(name)
    }

    /// The objects that the server has and that cannot be decoded, or that an index function failed on, in the order of their keys: with
    /// all that belongs to the revision that the store has. For that it waits, where a write has just become visible, for what is left to
    /// be noted of it.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.wait_for_notes();
        self.lock_undecodable().values().cloned().collect()
    }

    /// How many of these there are.
    pub(crate) fn undecodable_len(&self) -> usize {
        self.lock_undecodable().len()
    }

    /// All that the store holds now, to be read at leisure: it does not change, and taking it costs the same however much that is.
    pub fn snapshot(&self) -> Snapshot<T> {
        let (pin, resource_version) = self.store.pin(str::to_owned);
        Snapshot::new(pin, self.indices(), resource_version)
    }

    /// The revision of the last change, replacement or bookmark; empty before the first.
    pub fn resource_version(&self) -> String {
        self.store.resource_version(str::to_owned)
    }

    /// Waits until the store has all changes up to `resource_version`, which is how to read one's own writes: write, then
    /// wait for the resourceVersion that the server gave the written object, then read.
    ///
    /// That of an informer is waited for until it [has synced](crate::SharedInformer::wait_for_sync), too: with the namespaces and
    /// selectors that are asked for by then.
    ///
    /// # Errors
    ///
    /// - [`NotReached::NotComparable`] if `resource_version` is not a number, or the store's own is not.
    /// - [`NotReached::WentBack`] if the history of the server goes back during the wait, as after a restore from a backup.
    /// - [`NotReached::Stopped`] when nothing fills the store any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), NotReached> {
        self.read_at_least(resource_version).await.map(drop)
    }

    /// As [`wait_for`](Self::wait_for), and gives what the store holds then.
    ///
    /// # Errors
    ///
    /// As for [`wait_for`](Self::wait_for).
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
            // Both before the look, so that nothing that comes after it is missed.
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

    /// Remembers the last changes from here on, each with what was there before, for as long as the guard is there.
    ///
    /// Of several guards, the greatest number of `changes` counts, so no reader shortens what another relies on.
    pub fn remember(&self, changes: usize) -> HistoryGuard<T> {
        // A write that is under way may not be a part of it.
        let _writer = self.store.writer();
        HistoryGuard::new(self.memory.clone(), changes, &self.resource_version())
    }

    /// What has changed since the store came to have a revision, deletions included, in the order in which it did. `None`: that is not a
    /// number, or further back than is [remembered](Self::remember), or one that has not come yet: so it is, too, for who asks after the
    /// server's history began anew. Between two moments at hand, see [`Snapshot::diff`].
    ///
    /// As [`undecodable`](Self::undecodable), it waits for what is left to be noted of a write that is visible.
    ///
    /// A change that came with the revision that the store had already, or with none, is among those since that one: who asks may have
    /// seen it, or not.
    pub fn changes_since(&self, resource_version: &str) -> Option<Vec<Remembered<T>>> {
        self.wait_for_notes();
        let history = self.memory.lock();
        // Under its lock: what goes back does so in the store first, and then in there.
        let reached = self.resource_version();
        history.since(resource_version, &reached)
    }

    /// As [`transaction`](Self::transaction), and these came as well and could not be decoded.
    pub(crate) fn write_all(
        &self,
        changes: Vec<(ObjectKey, Option<Guarded<T>>)>,
        undecodable: Vec<Undecodable>,
        revision: &Revision,
    ) -> Vec<Written<T>> {
        let prepare = |indices: &[Index<T>]| -> Vec<_> {
            let one = |(key, object): &(ObjectKey, Option<_>)| match object {
                Some(object) => self.put(indices, key, object),
                None => Ok(take(key).into()),
            };
            changes.iter().map(one).collect()
        };
        let (written, _forgotten) = self.commit(prepare, |writer, prepared| {
            let earlier = self.earlier();
            let (mut writes, mut entries) = (Vec::with_capacity(prepared.len()), Vec::new());
            let mut written = Vec::with_capacity(prepared.len());
            for (write, (key, _)) in prepared.into_iter().zip(&changes) {
                let (write, refused, unindexed) = match write {
                    Ok(Indexed { write, unindexed }) => (Some(write), None, unindexed),
                    Err(refused) => {
                        let Refused { error, entry, is_succeeded } = *refused;
                        entries.push(entry);
                        (is_succeeded.then(|| take(key)), Some(error), Vec::new())
                    }
                };
                written.push((write.is_some(), Written { before: None, refused, unindexed }));
                writes.extend(write);
            }
            let tell = |current: &mut String| version::advance(current, &revision.whole);
            let mut before = writer.write_all(writes, tell).into_iter();
            let written = written.into_iter().map(|(is_write, written)| match is_write {
                true => Written { before: before.next().flatten(), ..written },
                false => written,
            });
            let written: Vec<Written<T>> = written.collect();
            self.note(changes.iter().map(|(key, _)| key), undecodable.into_iter().chain(entries));
            let forgotten = self.record(earlier, &revision.newest, || {
                let steps = changes.iter().zip(&written);
                steps.map(|((key, new), Written { before, refused, .. })| {
                    (key.clone(), before.clone(), new.clone().filter(|_| refused.is_none()))
                })
            });
            (written, forgotten)
        });
        self.moved.announce();
        written
    }

    /// As [`replace`](Self::replace), of objects of different keys; and these could not be decoded. What is not `within` that
    /// namespace stays as it is.
    pub(crate) fn replace_all(
        &self,
        within: Option<&str>,
        objects: Vec<(ObjectKey, Guarded<T>)>,
        undecodable: Vec<Undecodable>,
        revision: &Revision,
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
                        let Refused { entry, is_succeeded, .. } = *object;
                        // Its last state stays, so that it is not taken for deleted.
                        let known = if is_succeeded { None } else { self.store.get(&entry.key) };
                        let key = entry.key.clone();
                        kept.extend(known.map(|known| Write { key, value: Some(known), values: Vec::new() }));
                        entries.insert(entry.key.clone(), entry);
                    }
                }
            }
            let present = writes.iter().filter_map(|write| Some((write.key.clone(), write.value.clone()?)));
            let present: Vec<(ObjectKey, Guarded<T>)> = present.collect();
            writes.extend(kept);
            let is_within = |key: &ObjectKey| within.is_none_or(|namespace| key.namespace() == Some(namespace));
            let tell = |current: &mut String| {
                if version::is_older(&revision.whole, current) {
                    self.went_back.fetch_add(1, atomic::Ordering::Release);
                }
                version::set(current, &revision.whole);
            };
            let earlier = self.earlier();
            let replaced = writer.replace(writes, is_within, |one, other| Arc::ptr_eq(one, other), tell);
            let before = {
                let mut undecodable = self.lock_undecodable();
                let mut before = std::mem::replace(&mut *undecodable, entries);
                undecodable.extend(before.extract_if(.., |key, _| !is_within(key)));
                self.has_undecodable.store(!undecodable.is_empty(), atomic::Ordering::Relaxed);
                before
            };
            let present = present.into_iter().zip(replaced.before).map(|((key, new), old)| (key, old, new));
            let replaced = Replaced { deleted: replaced.deleted, present: present.collect(), unindexed: failed };
            let forgotten = self.record(earlier, &revision.newest, || {
                let deleted = replaced.deleted.iter().map(|(key, old)| (key.clone(), Some(old.clone()), None));
                let present = replaced.present.iter();
                deleted.chain(present.map(|(key, old, new)| (key.clone(), old.clone(), Some(new.clone()))))
            });
            (replaced, (before, forgotten))
        });
        replaced.deleted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.moved.announce();
        replaced
    }

    /// The history of the server has begun anew, so what was waited for may never come.
    pub(crate) fn history_went_back(&self) {
        self.went_back.fetch_add(1, atomic::Ordering::Release);
        self.moved.announce_end();
    }

    /// The resourceVersion of the newest state that is known of a key, be it one that cannot be decoded.
    pub(crate) fn version_of(&self, key: &ObjectKey) -> Option<String> {
        if self.has_undecodable.load(atomic::Ordering::Relaxed)
            && let Some(entry) = self.lock_undecodable().get(key)
        {
            return Some(entry.resource_version.clone());
        }
        self.store.get(key).map(|known| known.resource_version().to_owned())
    }

    /// Ends all waits: nothing will be written any more. Index functions are dropped, as they may hold what holds this cache.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, atomic::Ordering::Release);
        self.drop_functions();
        self.moved.announce_end();
    }

    /// Whether what it has of that key was made anew since, and what is there now is that entry.
    pub(crate) fn is_succeeded(&self, key: &ObjectKey, entry: &Undecodable) -> bool {
        is_succeeded(self.store.get(key).as_ref().map(|known| &***known), entry)
    }

    /// Whether it holds what its sources are asked for now, as it was at some revision.
    pub(crate) fn has_all(&self) -> bool {
        self.parts().have_all()
    }

    /// Up to where it has all changes of a namespace, whose source may be further than others. `None`: as far as
    /// [all of it](Self::resource_version).
    pub(crate) fn reached(&self, namespace: Option<&str>) -> Option<String> {
        self.parts().reached(namespace).map(str::to_owned)
    }

    /// Changes what is known of the parts, and tells those who wait.
    pub(crate) fn change_parts<R>(&self, change: impl FnOnce(&mut Parts) -> R) -> R {
        let changed = change(&mut self.parts());
        self.moved.announce_end();
        changed
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn store(&self) -> &Arc<store::Store<Guarded<T>>> {
        &self.store
    }

    /// These have been mended or deleted, and those cannot be taken up.
    fn note<'a>(
        &self,
        mended: impl IntoIterator<Item = &'a ObjectKey>,
        entries: impl IntoIterator<Item = Undecodable>,
    ) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_none() && !self.has_undecodable.load(atomic::Ordering::Relaxed) {
            return;
        }
        let mut undecodable = self.lock_undecodable();
        mended.into_iter().for_each(|key| _ = undecodable.remove(key));
        undecodable.extend(entries.map(|entry| (entry.key.clone(), entry)));
        self.has_undecodable.store(!undecodable.is_empty(), atomic::Ordering::Relaxed);
    }

    /// The revision before a commit, if its changes are to be remembered.
    fn earlier(&self) -> Option<String> {
        self.memory.is_on().then(|| self.resource_version())
    }

    /// Takes up what was just written, if it is to be remembered. What it gives is not any more, and may be dropped under no lock.
    fn record<S: Iterator<Item = Step<T>>>(
        &self,
        earlier: Option<String>,
        newest: &str,
        steps: impl FnOnce() -> S,
    ) -> VecDeque<Past<T>> {
        let Some(earlier) = earlier else { return VecDeque::new() };
        let mut resource_version = self.resource_version();
        version::advance(&mut resource_version, newest);
        self.memory.lock().note(steps(), &earlier, &resource_version)
    }

    /// Remembers nothing of what was before, nor of how that revision came about.
    pub(crate) fn forget(&self, newest: &str) -> VecDeque<Past<T>> {
        let mut resource_version = self.resource_version();
        version::advance(&mut resource_version, newest);
        self.memory.lock().forget(&resource_version)
    }

    fn lock_undecodable(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Undecodable>> {
        self.undecodable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("len", &self.len())
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}
