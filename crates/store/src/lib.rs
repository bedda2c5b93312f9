//! The storage engine of an API server, which stores Kubernetes objects as bytes and numbers all writes with one sequence of revisions.
//!
//! - [`VersionedStore`] contains all objects, a log of changes, and the current revision. As in etcd, all resources share one
//!   sequence of revisions. Each resource has a separate log, so a watch of one resource never reads changes of other
//!   resources.
//! - [`Draft`] is an object that a caller wants to write. A write converts the draft to a [`Stored`], whose immutable bytes are
//!   sent to clients.
//! - [`Present`] is a snapshot of all objects. [`Objects`] is a snapshot of the objects of one resource. Cloning a snapshot takes
//!   constant time and memory.
//! - [`StoreChange`] is an entry of the change log. [`History`] limits the number, the age and the size of the changes
//!   in the log.
//! - [`Interner`] stores a value only once, even if several objects contain it.
//!
//! The store does not do I/O, read a clock or start tasks. The caller passes the time of each write. The store can return the state at the
//! current revision, and at every earlier revision that is not compacted yet. The store takes only short locks, which protect data that
//! several objects share. To share a store between threads, put a lock around it. Readers can use the snapshot from
//! [`now`](VersionedStore::now) without the lock.
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
use resource_table::Table;
pub use stored::{ChangeKind, Draft, Key, Labels, ResourceKey, SAME, StoreChange, Stored};

/// The limits of the change log. When changes are dropped from the log, the states before these changes can no longer be listed. Watches
/// can no longer start from these states.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// The maximum number of changes that the log keeps for each resource.
    pub max_changes: usize,
    /// The maximum age of a change in the log. Each write drops at most a thousand changes that are older than this. These changes can
    /// belong to any resource.
    pub max_age: Duration,
    /// The approximate maximum of the total size of all logs, in bytes. The last change of each resource is always kept.
    pub max_bytes: usize,
    /// The number of recent changes of each resource that the log keeps for [`followed`](VersionedStore::followed). These changes are kept
    /// even if they exceed `max_changes`.
    pub followed: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { max_changes: 100_000, max_age: Duration::from_secs(300), max_bytes: 256 << 20, followed: 0 }
    }
}

/// The maximum number of changes that one write drops because the changes are too old. This limit bounds the time that a write takes.
const MAX_EXPIRED: usize = 1_000;

/// The precondition of a write: the state that the object must have before the write. If the object has a different state, the write fails
/// and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object with this key exists.
    Absent,
    /// The object has this revision.
    At(u64),
}

/// The reason why a write was refused. A refused write changes nothing.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The object does not have the expected state. The value is the current object, if the object exists.
    Mismatch(Option<Arc<Stored>>),
    /// Another object already owns one of the claims of the new object. A claim is a value that only one object can own, such as an IP
    /// address.
    Taken,
    /// The write depends on other data, and this data has changed.
    Moved,
}

/// The error for a requested revision that is no longer available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest available revision.
    pub oldest: u64,
}

/// All objects and their past states. All writes are numbered by one sequence of revisions.
#[derive(Debug, Default)]
pub struct VersionedStore {
    now: Present,
    compacted: u64,
    history: History,
    /// The cache for encodings other than JSON. The size limit of the cache is half of the size limit of the change log.
    encoding_cache: Arc<EncodingCache>,
    /// The interner for data that occurs in several objects or in several versions of an object.
    interner: Arc<Interner>,
    tables: HashMap<ResourceKey, Table>,
    /// The approximate size of the change logs of all resources together, in bytes.
    log_bytes: usize,
    /// Contains each resource that has more than one change in its log. The key is the revision of the oldest change in this log.
    by_oldest_change: BTreeMap<u64, ResourceKey>,
    /// Maps each claim, such as an IP address, to the object that owns it.
    holders: HashMap<String, (ResourceKey, Key)>,
    claimed: HashMap<(ResourceKey, Key), Vec<String>>,
}

impl VersionedStore {
    /// Creates an empty store with the current revision `first`. For comparison, a new etcd starts at revision 1. Earlier revisions
    /// are unavailable.
    pub fn new(first: u64, history: History) -> Self {
        // The revision is limited to this maximum, so that enough revisions remain for any number of writes.
        let revision = first.clamp(1, u64::MAX / 2);
        let compacted = if revision == 1 { 0 } else { revision };
        let encoding_cache = Arc::new(EncodingCache::new(history.max_bytes / 2));
        let now = Present { revision, ..Present::default() };
        Self { now, compacted, history, encoding_cache, ..Self::default() }
    }

    /// Returns the interner of this store. Drafts for this store must be created with this interner.
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

    /// Returns the current state of the object with this key.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.now.get(resource, key)
    }

    /// Returns a snapshot of the current objects of a resource.
    pub fn objects(&self, resource: &str) -> Objects {
        self.now.objects(resource)
    }

    /// Writes an object if its current state is the expected one.
    ///
    /// # Errors
    ///
    /// Returns an error if the current state is not the expected one, or if another object owns one of the draft's claims. If the method
    /// returns an error, nothing was written.
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

    /// Removes an object if its current revision is `at`. The change in the log contains the last content of the object and the revision
    /// of the removal.
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not exist or has a different revision. If the method returns an error, nothing was removed.
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

    /// Returns all changes of a resource after `revision`. The oldest change is first.
    ///
    /// # Errors
    ///
    /// Returns an error if some of these changes are no longer available.
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

    /// Returns all changes of a resource after `revision`, for a caller that continuously follows the changes. The caller must already
    /// have read all changes up to `revision`. Returns `None` if some of the changes are no longer in the log.
    pub fn followed(&self, resource: &str, revision: u64) -> Option<impl Iterator<Item = &Arc<StoreChange>>> {
        let table = self.tables.get(resource);
        let follows = table.is_none_or(|table| table.keeps(revision));
        follows.then(|| table.into_iter().flat_map(move |table| table.since(revision)))
    }

    /// Returns the change with this revision from the log of the resource. Returns `None` if the log does not contain such a change.
    pub fn change(&self, resource: &str, revision: u64) -> Option<&Arc<StoreChange>> {
        let mut since = self.tables.get(resource)?.since(revision.checked_sub(1)?);
        since.next().filter(|change| change.revision() == revision)
    }

    /// Returns a revision that represents the state of the resource at `time`. The method considers only changes that are still in the log.
    pub fn revision_at(&self, resource: &str, time: Instant) -> u64 {
        let later = self.tables.get(resource).and_then(|table| table.first_after(time));
        later.map_or(self.now.revision, |change| change.revision() - 1)
    }

    /// Returns the time of a resource's last change up to and including `revision`. Returns `None` if the log does not contain this change.
    pub fn written_at(&self, resource: &str, revision: u64) -> Option<Instant> {
        self.tables.get(resource)?.last_until(revision).map(|change| change.at)
    }

    /// Returns the state that a resource had at `revision`.
    ///
    /// # Errors
    ///
    /// Returns an error if some of the changes after `revision` are no longer available.
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

    /// Sets an object with this revision, or removes the object. The change is not logged. Therefore, later reads of a past state cannot
    /// undo the change and return it as a part of that state. Returns the change. Returns `None` if the object to remove does not exist.
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

    /// Drops the change log of one resource. For example, a server calls this method when the definition of a custom resource is created,
    /// changed or deleted.
    pub fn forget_past(&mut self, resource: &ResourceKey) {
        let revision = self.now.revision;
        self.change_table(resource, |table| table.forget(revision));
    }

    /// Keeps a snapshot of a resource at this revision. The store keeps the snapshot until it drops a later change from the log. A
    /// snapshot needs little memory, because the log already contains all objects that changed after the snapshot.
    pub fn keep(&mut self, resource: &ResourceKey, revision: u64, objects: &Objects) -> Weak<Objects> {
        // Because of an injected fault, a caller may pass a future revision. Such a snapshot is not kept, because the objects can
        // still change before the store reaches this revision.
        if revision > self.now.revision {
            return Weak::new();
        }
        self.tables.entry(resource.clone()).or_default().keep(revision, objects)
    }

    /// Returns the oldest revision of a resource that is still available.
    pub fn oldest(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(0, Table::floor).max(self.compacted)
    }

    /// Adds a change to the log, and drops older changes that exceed the limits.
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
            self.change_table(&oldest, Table::drop_oldest);
            expired = expired.saturating_sub(1);
        }
        recorded
    }

    fn is_expired(&self, resource: &str, now: Instant) -> bool {
        self.tables.get(resource).is_some_and(|table| table.is_expired(now, self.history))
    }

    /// Calls `change` with the table of a resource, and then updates `log_bytes` and `by_oldest_change` of the store.
    fn change_table<R>(&mut self, resource: &ResourceKey, change: impl FnOnce(&mut Table) -> R) -> R {
        let table = self.tables.entry(resource.clone()).or_default();
        self.log_bytes -= table.log_bytes();
        if let Some(oldest) = table.oldest_past() {
            self.by_oldest_change.remove(&oldest);
        }
        let changed = change(table);
        self.log_bytes += table.log_bytes();
        self.by_oldest_change.extend(table.oldest_past().map(|oldest| (oldest, resource.clone())));
        changed
    }

    /// Checks whether [`put`](Self::put) would succeed.
    ///
    /// # Errors
    ///
    /// Returns the error that `put` would return, without writing anything.
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

    /// Returns the key of the object that owns this claim, such as an IP address.
    pub fn holder(&self, claim: &str) -> Option<&Key> {
        self.holders.get(claim).map(|(_, key)| key)
    }

    /// Replaces all claims that an object owns.
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
