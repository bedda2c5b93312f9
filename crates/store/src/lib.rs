//! The storage engine of an API server, which stores Kubernetes objects as bytes with a single sequence of revisions.
//!
//! - A [`VersionedStore`] contains all objects, a log of changes and the current revision. As in etcd, all resources
//!   share a single sequence of revisions. Each resource has its own log, so a watch of a resource does not have to
//!   read changes of other resources.
//! - A [`Draft`] is an object to write. A write converts the draft to a [`Stored`], which contains the immutable bytes
//!   for clients.
//! - A [`Present`] is a snapshot of all objects. An [`Objects`] is a snapshot of the objects of one resource. Cloning a
//!   snapshot takes constant time and memory.
//! - A [`StoreChange`] is an entry in the change log. [`History`] limits the number, age and size of the changes in the
//!   log.
//! - An [`Interner`] stores equal values of several objects only once.
//!
//! The store does no I/O, does not read a clock and starts no tasks. Callers pass the time of each write. The store can
//! return the state at the current revision and at all earlier revisions that have not been compacted.
//!
//! The store holds locks only briefly, to protect data that objects share. To share a store between threads, protect it
//! with a lock. Reading a snapshot from [`now`](VersionedStore::now) does not require a lock.
//!
//! ```
//! use std::time::Instant;
//!
//! use pintle_store::{Draft, Expect, History, KeyRange, MemberOrder, Refused, ResourceKey, VersionedStore};
//! use pintle_json::json;
//!
//! let mut store = VersionedStore::new(1, History::default());
//! let (maps, now) = (ResourceKey::from("configmaps"), Instant::now());
//! let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"colour": "blue"}});
//! let draft = |store: &VersionedStore| Draft::new(store.interner(), &object, MemberOrder::Declared, Vec::new());
//!
//! let first = draft(&store);
//! let created = store.put(now, &maps, "default/a", Expect::Absent, first).unwrap();
//! let snapshot = store.objects("configmaps");
//! store.remove(now, &maps, "default/a", created.revision()).unwrap();
//!
//! // The snapshot is unchanged, and the past state is still available.
//! assert_eq!(snapshot.run(&KeyRange::namespace(Some("default"))).count(), 1);
//! assert!(store.get("configmaps", "default/a").is_none());
//! let past = store.past("configmaps", created.revision()).unwrap().objects();
//! let mut json = Vec::new();
//! past.get("default/a").unwrap().write(&mut json);
//! assert_eq!(json, br#"{"metadata":{"name":"a","resourceVersion":"2"},"data":{"colour":"blue"}}"#);
//!
//! // A write with a wrong expectation does nothing.
//! let second = draft(&store);
//! assert!(matches!(store.put(now, &maps, "default/a", Expect::At(2), second), Err(Refused::Mismatch(None))));
//! ```

mod encodings;
mod interner;
mod json_body;
mod key_range;
mod objects;
mod past;
mod present;
mod resource_table;
mod stored;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub use encodings::Encoding;
use encodings::EncodingCache;
pub use interner::Interner;
pub use json_body::{METADATA, MemberOrder, OBJECT};
pub use key_range::KeyRange;
pub use objects::{Neighbours, Objects, Run};
pub use past::Past;
pub use present::Present;
pub use resource_table::ChangeLog;
pub use stored::{ChangeKind, Draft, Key, Labels, ResourceKey, SAME, StoreChange, Stored};
pub use tree::Tree;

/// The limits of the change log. After a change has been dropped from the log, clients can no longer list or watch from
/// states before the change.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// The maximum number of changes in the log of each resource.
    pub max_changes: usize,
    /// The maximum age of a change in the log. Each write drops at most a thousand expired changes of all resources
    /// together.
    pub max_age: Duration,
    /// The approximate maximum size of all logs together, in bytes. The store always keeps the last change of each
    /// resource.
    pub max_bytes: usize,
    /// The minimum number of recent changes per resource to keep for [`ChangeLog::followed`], even if it exceeds
    /// `max_changes`.
    pub followed: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { max_changes: 100_000, max_age: Duration::from_secs(300), max_bytes: 256 << 20, followed: 0 }
    }
}

/// The maximum number of expired changes that one write drops. Without this limit, a single write could take too long.
const MAX_EXPIRED: usize = 1_000;

/// The precondition of a write, which is the state that the object must have before the write. A write to an object
/// with a different state fails and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object with this key exists.
    Absent,
    /// The object has this revision.
    At(u64),
}

/// The reason why the store rejected a write without changing anything.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The object does not have the expected state. The variant contains the current object, if the object exists.
    Mismatch(Option<Arc<Stored>>),
    /// Another object already owns one of the new object's claims. A claim is a value that only one object can own, such
    /// as an IP address.
    Taken,
    /// The write depends on other data, which has changed since the caller read it.
    Moved,
}

/// The error when a revision is no longer available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest available revision.
    pub oldest: u64,
}

/// All objects and their past states, with a single sequence of revisions.
#[derive(Debug, Default)]
pub struct VersionedStore {
    now: Present,
    compacted: u64,
    history: History,
    /// The cache for encodings other than JSON, whose size limit is half the limit of the change log.
    encoding_cache: Arc<EncodingCache>,
    interner: Arc<Interner>,
    tables: HashMap<ResourceKey, ChangeLog>,
    /// The approximate total size of all change logs, in bytes.
    log_bytes: usize,
    /// The resources with more than one change in their logs, keyed by the revision of the oldest change.
    by_oldest_change: BTreeMap<u64, ResourceKey>,
    /// The resource and key of the object that owns each claim, such as an IP address.
    holders: HashMap<String, (ResourceKey, Key)>,
    claimed: HashMap<(ResourceKey, Key), Vec<String>>,
}

impl VersionedStore {
    /// Creates an empty store whose current revision is `first`. Revisions before `first` are unavailable. A new etcd
    /// starts at revision 1.
    pub fn new(first: u64, history: History) -> Self {
        // Limit the first revision, so that later revisions cannot overflow.
        let revision = first.clamp(1, u64::MAX / 2);
        let compacted = if revision == 1 { 0 } else { revision };
        let encoding_cache = Arc::new(EncodingCache::new(history.max_bytes / 2));
        let now = Present { revision, ..Present::default() };
        Self { now, compacted, history, encoding_cache, ..Self::default() }
    }

    /// Returns the store's interner. Use the returned interner to create drafts for this store.
    pub fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// Returns a snapshot of all objects.
    pub fn now(&self) -> &Present {
        &self.now
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.now.revision
    }

    /// Returns the current object with this key.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.now.get(resource, key)
    }

    /// Returns a snapshot of a resource's current objects.
    pub fn objects(&self, resource: &str) -> Objects {
        self.now.objects(resource)
    }

    /// Writes an object if its current state matches `expect`.
    ///
    /// # Errors
    ///
    /// Returns an error, and writes nothing, if the current state does not match `expect`, or if another object owns
    /// one of the draft's claims.
    pub fn put(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        draft: Draft,
    ) -> Result<Arc<StoreChange>, Refused> {
        self.check(resource, key, expect, &draft)?;
        let revision = self.now.revision + 1;
        let Draft { body, version, claims, fields } = draft;
        let written =
            self.tables.entry(resource.clone()).or_default().version(resource, &version, &self.encoding_cache);
        let is_first = expect == Expect::Absent;
        let new = Arc::new(Stored::new(revision, written, is_first, body).selectable(fields));
        let (key, old) = self.now.change(resource, |objects| objects.insert(key, new.clone()));
        self.now.revision = revision;
        self.claim(resource, &key, claims);
        let kind = if is_first { ChangeKind::Created } else { ChangeKind::Updated };
        Ok(self.record(StoreChange { at: now, kind, key, old, new }))
    }

    /// Removes an object if its current revision is `at`. The change in the log contains the object's last content and
    /// the revision of the removal.
    ///
    /// # Errors
    ///
    /// Returns an error, and removes nothing, if the object does not exist or has a different revision.
    pub fn remove(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        at: u64,
    ) -> Result<Arc<StoreChange>, Refused> {
        self.check_expected(resource, key, Expect::At(at))?;
        let removed = self.now.change(resource, |objects| objects.remove(key));
        let (key, old) = removed.ok_or(Refused::Mismatch(None))?;
        self.now.revision += 1;
        self.claim(resource, &key, Vec::new());
        let (kind, new) = (ChangeKind::Deleted, Arc::new(old.at(self.now.revision)));
        Ok(self.record(StoreChange { at: now, kind, key, old: Some(old), new }))
    }

    /// Returns all changes of a resource after `revision`, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if not all changes after `revision` are available.
    pub fn changes_since(
        &self,
        resource: &str,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Arc<StoreChange>>, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(self.tables.get(resource).into_iter().flat_map(move |table| table.since(revision)))
    }

    /// Returns a resource's change log, or `None` if the resource was never written.
    pub fn log(&self, resource: &str) -> Option<&ChangeLog> {
        self.tables.get(resource)
    }

    /// Returns the revision that was current at `time`, or a later revision with the same state of the resource.
    /// `revision_at` uses only the changes that are still in the log.
    pub fn revision_at(&self, resource: &str, time: Instant) -> u64 {
        let later = self.tables.get(resource).and_then(|table| table.first_after(time));
        later.map_or(self.now.revision, |change| change.revision() - 1)
    }

    /// Returns the time of a resource's last change up to and including `revision`, or `None` if it is no longer in the
    /// log.
    pub fn written_at(&self, resource: &str, revision: u64) -> Option<Instant> {
        self.tables.get(resource)?.last_until(revision).map(|change| change.at)
    }

    /// Returns a resource's state at `revision`.
    ///
    /// # Errors
    ///
    /// Returns an error if not all changes after `revision` are available.
    pub fn past(&self, resource: &str, revision: u64) -> Result<Past, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(self.tables.get(resource).map(|table| table.past(revision, self.objects(resource))).unwrap_or_default())
    }

    /// Raises the current revision to `revision`. The skipped revisions contain no changes.
    pub fn advance_to(&mut self, revision: u64) {
        self.now.revision = self.now.revision.max(revision.min(u64::MAX / 2));
    }

    /// Stores an object with this revision, or removes the object if `draft` is `None`. The change is not logged, so it
    /// also affects past states. Returns the change, or `None` if there was no object to remove.
    pub fn set(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        revision: u64,
        draft: Option<Draft>,
    ) -> Option<StoreChange> {
        let is_first = self.get(resource, key).is_none();
        let table = self.tables.entry(resource.clone()).or_default();
        let (new, claims) = match draft {
            Some(Draft { body, version, claims, fields }) => {
                let written = table.version(resource, &version, &self.encoding_cache);
                (Some(Arc::new(Stored::new(revision, written, is_first, body).selectable(fields))), claims)
            }
            None => (None, Vec::new()),
        };
        table.begin_era();
        let (key, old) = self.now.change(resource, |objects| match new.clone() {
            Some(new) => objects.insert(key, new),
            None => objects.remove(key).map_or_else(|| (key.into(), None), |(key, old)| (key, Some(old))),
        });
        self.claim(resource, &key, claims);
        if new.is_some() {
            self.advance_to(revision);
        }
        let kind = match (&old, &new) {
            (None, _) => ChangeKind::Created,
            (Some(_), Some(_)) => ChangeKind::Updated,
            (Some(_), None) => ChangeKind::Deleted,
        };
        let new = new.or_else(|| Some(Arc::new(old.as_ref()?.at(revision))))?;
        Some(StoreChange { at: now, kind, key, old, new })
    }

    /// Makes the states before `revision` unavailable for lists and new watches.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.now.revision));
        for table in self.tables.values_mut() {
            table.compact(self.compacted);
        }
    }

    /// Removes a resource's change log, for example when the resource's definition is created, changed or deleted.
    /// Callers that have not read all past changes can read them from the returned log.
    ///
    /// If the resource has no objects left, the returned log also keeps the snapshots that still have readers. If the
    /// resource has objects, the log keeps no snapshots, because a snapshot could keep all objects of the resource in
    /// memory, even if few objects have changed. [`ChangeLog::retained_bytes`] includes these snapshots, and the
    /// objects before each change.
    pub fn forget_past(&mut self, resource: &ResourceKey) -> ChangeLog {
        let (revision, is_empty) = (self.now.revision, self.objects(resource).is_empty());
        let mut past = self.change_table(resource, |table| table.forget(revision));
        past.drop_snapshots(!is_empty);
        past
    }

    /// Keeps a snapshot of a resource at `revision` while the log still contains all later changes. Such a snapshot
    /// needs little memory, because the log already contains all objects that have changed since the snapshot.
    pub fn keep(&mut self, resource: &ResourceKey, revision: u64, objects: &Objects) -> Weak<Objects> {
        // Do not keep a snapshot at a future revision, which fault injection can cause, because the objects may still
        // change.
        if revision > self.now.revision {
            return Weak::new();
        }
        self.tables.entry(resource.clone()).or_default().keep(revision, objects)
    }

    /// Returns a resource's oldest available revision.
    pub fn oldest(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(0, ChangeLog::floor).max(self.compacted)
    }

    /// Adds a change to the log, and drops the oldest changes if the log exceeds its limits.
    fn record(&mut self, change: StoreChange) -> Arc<StoreChange> {
        let (history, now) = (self.history, change.at);
        let recorded = self.change_table(&change.resource().clone(), |table| {
            let recorded = table.record(change);
            table.trim(history);
            recorded
        });
        let mut expired = MAX_EXPIRED;
        while let Some(oldest) = self.by_oldest_change.values().next().cloned()
            && (self.log_bytes > history.max_bytes || (expired > 0 && self.is_expired(&oldest, now)))
        {
            self.change_table(&oldest, ChangeLog::drop_oldest);
            expired = expired.saturating_sub(1);
        }
        recorded
    }

    fn is_expired(&self, resource: &str, now: Instant) -> bool {
        self.tables.get(resource).is_some_and(|table| table.is_expired(now, self.history))
    }

    fn change_table<R>(&mut self, resource: &ResourceKey, change: impl FnOnce(&mut ChangeLog) -> R) -> R {
        let table = self.tables.entry(resource.clone()).or_default();
        self.log_bytes -= table.bytes();
        if let Some(oldest) = table.oldest_past() {
            self.by_oldest_change.remove(&oldest);
        }
        let changed = change(table);
        self.log_bytes += table.bytes();
        self.by_oldest_change.extend(table.oldest_past().map(|oldest| (oldest, resource.clone())));
        changed
    }

    /// Checks whether [`put`](Self::put) would succeed, without writing.
    ///
    /// # Errors
    ///
    /// Returns the error that [`put`](Self::put) would return.
    pub fn check(&self, resource: &str, key: &str, expect: Expect, draft: &Draft) -> Result<(), Refused> {
        self.check_expected(resource, key, expect)?;
        let mut holders = draft.claims.iter().filter_map(|claim| self.holders.get(claim));
        if holders.all(|(of, holder)| **of == *resource && **holder == *key) { Ok(()) } else { Err(Refused::Taken) }
    }

    fn check_expected(&self, resource: &str, key: &str, expect: Expect) -> Result<(), Refused> {
        let found = self.get(resource, key);
        let is_met = match expect {
            Expect::Absent => found.is_none(),
            Expect::At(revision) => found.is_some_and(|object| object.revision() == revision),
        };
        if is_met { Ok(()) } else { Err(Refused::Mismatch(found.cloned())) }
    }

    /// Returns the key of the object that owns a claim, such as an IP address.
    pub fn holder(&self, claim: &str) -> Option<&Key> {
        self.holders.get(claim).map(|(_, key)| key)
    }

    fn claim(&mut self, resource: &ResourceKey, key: &str, claims: Vec<String>) {
        if claims.is_empty() && self.claimed.is_empty() {
            return;
        }
        let holder = (resource.clone(), Key::from(key));
        for claim in self.claimed.remove(&holder).into_iter().flatten() {
            self.holders.remove(&claim);
        }
        if !claims.is_empty() {
            self.holders.extend(claims.iter().map(|claim| (claim.clone(), holder.clone())));
            self.claimed.insert(holder, claims);
        }
    }
}
