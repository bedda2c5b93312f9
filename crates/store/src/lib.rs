//! Kubernetes objects as bytes, under one sequence of revisions: what an API server stands on, without the server.
//!
//! - [`VersionedStore`]: every object, every change, and the revision that numbers them all. All resources share one sequence of
//!   revisions, as with one etcd; a change is filed under its resource, so that who follows one resource never reads past the changes of
//!   the others.
//! - [`Draft`]: an object that is about to be written. It becomes [`Stored`]: the bytes in which it is served, which never change.
//! - [`Present`]: every object at one moment, and [`Objects`], those of a resource, for as long as somebody looks at them. A clone costs
//!   nothing.
//! - [`StoreChange`]: an entry of the log, which [`History`] bounds in number, age and bytes.
//! - [`Interner`]: where what many objects have in common is kept once.
//!
//! It is a plain engine. It does no I/O, reads no clock, starts no task, and no lock is held while it works but short ones around what
//! objects share: it is told what to write and when, and answers questions about now and about every revision back to the compaction
//! point. Whoever shares it between threads puts it behind a lock, and what is [`now`](VersionedStore::now) there beside that, for all who
//! read.
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
//! // Who was reading reads on, and what was there before can be read still.
//! assert_eq!(snapshot.run(&KeyRange::namespace(Some("default"))).count(), 1);
//! assert!(store.get("configmaps", "default/a").is_none());
//! let past = store.past("configmaps", created.revision()).unwrap().objects();
//! let mut json = Vec::new();
//! past.get("default/a").unwrap().write(&mut json);
//! assert_eq!(json, br#"{"metadata":{"name":"a","resourceVersion":"2"},"data":{"colour":"blue"}}"#);
//!
//! // A write that finds something else than it expects does nothing.
//! let second = draft(&store);
//! assert!(matches!(store.put(now, &maps, "default/a", Expect::At(2), second), Err(Refused::Mismatch(None))));
//! ```

mod interner;
mod json_body;
mod kept;
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

pub use interner::Interner;
pub use json_body::{METADATA, MemberOrder, OBJECT};
pub use kept::Encoding;
use kept::Room;
pub use key_range::KeyRange;
pub use objects::{Neighbours, Objects, Run};
pub use past::Past;
pub use present::Present;
use resource_table::Table;
pub use stored::{ChangeKind, Draft, Key, Labels, ResourceKey, SAME, StoreChange, Stored};

/// How much of the past is kept. What is older can neither be watched from nor listed.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Changes kept for each resource.
    pub max_changes: usize,
    /// How long a change is kept. What is older goes with the next writes, of whatever resource, a thousand with each.
    pub max_age: Duration,
    /// What the changes of all resources together may take, about. The last of a resource is kept in any case.
    pub max_bytes: usize,
    /// Changes kept for those who follow the resource, though nobody else may ask for them.
    pub followed: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { max_changes: 100_000, max_age: Duration::from_secs(300), max_bytes: 256 << 20, followed: 0 }
    }
}

/// So many changes that are too old go with one write: it does not pay for all that others left behind.
const MOST_EXPIRED: usize = 1_000;

/// What a write expects to find; a write that finds something else does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object of that key.
    Absent,
    /// The object as that revision left it.
    At(u64),
}

/// Why a write does nothing.
#[derive(Clone, Debug)]
pub enum Refused {
    /// It found something else than it expected: the object that is there, if one is.
    Mismatch(Option<Arc<Stored>>),
    /// Another object has what this one claims.
    Taken,
    /// What was looked at beside the object is not as it was.
    Moved,
}

/// The asked-for revision is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

/// Every object and its past, numbered by one sequence of revisions.
#[derive(Debug, Default)]
pub struct VersionedStore {
    now: Present,
    compacted: u64,
    history: History,
    /// For what is kept in other encodings: half as much as for the past.
    room: Arc<Room>,
    /// What many objects, or several versions of one, have in common.
    interner: Arc<Interner>,
    tables: HashMap<ResourceKey, Table>,
    /// What the changes that are kept of all resources take, about.
    logged: usize,
    /// The resources of which more than the last change is kept, by the revision of the oldest.
    with_past: BTreeMap<u64, ResourceKey>,
    /// Who has what is claimed, and what those who claim something have.
    holders: HashMap<String, (ResourceKey, Key)>,
    claimed: HashMap<(ResourceKey, Key), Vec<String>>,
}

impl VersionedStore {
    /// An empty store at that revision; a new etcd is at 1. Of what was before it nothing is known.
    pub fn new(first: u64, history: History) -> Self {
        // Far enough from the end that no number of writes reaches it.
        let revision = first.clamp(1, u64::MAX / 2);
        let compacted = if revision == 1 { 0 } else { revision };
        let room = Arc::new(Room::new(history.max_bytes / 2));
        let now = Present { revision, ..Present::default() };
        Self { now, compacted, history, room, ..Self::default() }
    }

    /// Where the objects that are drafted for this store find what they have in common.
    pub fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// What is there now, whatever is written later.
    pub fn now(&self) -> &Present {
        &self.now
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.now.revision
    }

    /// The object of that key, as it is now.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.now.get(resource, key)
    }

    /// The objects of a resource as they are now, whatever is written later.
    pub fn objects(&self, resource: &str) -> Objects {
        self.now.objects(resource)
    }

    /// Writes an object, if what is there is as expected.
    ///
    /// # Errors
    ///
    /// What it found otherwise, or that another object has what this one claims; then nothing is written.
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
        let written = self.tables.entry(resource.clone()).or_default().version(resource, &version, &self.room);
        let is_first = expect == Expect::Absent;
        let new = Arc::new(Stored::new(revision, written, is_first, body).selectable(fields));
        let (key, old) = self.now.change(resource, |objects| objects.insert(key, new.clone()));
        self.now.revision = revision;
        self.claim(resource, &key, claims);
        let kind = if is_first { ChangeKind::Created } else { ChangeKind::Updated };
        Ok(self.record(StoreChange { at: now, kind, key, old, new }))
    }

    /// Removes an object, if it is as that revision left it. The change carries the last content with the new revision.
    ///
    /// # Errors
    ///
    /// What it found otherwise; then nothing is removed.
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

    /// The changes of a resource after `revision`, oldest first.
    ///
    /// # Errors
    ///
    /// Some of them are no longer kept.
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

    /// The changes of a resource after `revision`, for who has read all before; none if some of them are no longer there.
    pub fn followed(&self, resource: &str, revision: u64) -> Option<impl Iterator<Item = &Arc<StoreChange>>> {
        let table = self.tables.get(resource);
        let follows = table.is_none_or(|table| table.keeps(revision));
        follows.then(|| table.into_iter().flat_map(move |table| table.since(revision)))
    }

    /// The change that made this revision, if it is kept.
    pub fn change(&self, resource: &str, revision: u64) -> Option<&Arc<StoreChange>> {
        let mut since = self.tables.get(resource)?.since(revision.checked_sub(1)?);
        since.next().filter(|change| change.revision() == revision)
    }

    /// Up to which revision a resource had come at that time, as far as its changes are kept.
    pub fn revision_at(&self, resource: &str, time: Instant) -> u64 {
        let later = self.tables.get(resource).and_then(|table| table.first_after(time));
        later.map_or(self.now.revision, |change| change.revision() - 1)
    }

    /// When the change was made that a resource had come to at that revision, if it is kept.
    pub fn written_at(&self, resource: &str, revision: u64) -> Option<Instant> {
        self.tables.get(resource)?.last_until(revision).map(|change| change.at)
    }

    /// A resource as `revision` left it.
    ///
    /// # Errors
    ///
    /// What came after it is no longer kept.
    pub fn past(&self, resource: &str, revision: u64) -> Result<Past, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(self.tables.get(resource).map(|table| table.past(revision, self.objects(resource))).unwrap_or_default())
    }

    /// Passes over the revisions up to that one.
    pub fn advance_to(&mut self, revision: u64) {
        self.now.revision = self.now.revision.max(revision.min(u64::MAX / 2));
    }

    /// Puts an object there under that revision, or takes it away, as if it had always been so: no log tells of it. Answers what that
    /// changed; none if nothing was there, and nothing is.
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
                let written = table.version(resource, &version, &self.room);
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

    /// Forgets what came before `revision`: it stays the oldest that can be asked for.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.now.revision));
        for table in self.tables.values_mut() {
            table.compact(self.compacted);
        }
    }

    /// Forgets the past of one resource, as a server does whose storage for it is made anew.
    pub fn forget_past(&mut self, resource: &ResourceKey) {
        let revision = self.now.revision;
        self.change_table(resource, |table| table.forget(revision));
    }

    /// The objects of a resource at a revision, there for as long as all changes since are kept: of what was there then, these hold
    /// whatever is no longer there now.
    pub fn keep(&mut self, resource: &ResourceKey, revision: u64, objects: &Objects) -> Weak<Objects> {
        // A fault may show a revision yet to come, when there will be something else.
        if revision > self.now.revision {
            return Weak::new();
        }
        self.tables.entry(resource.clone()).or_default().keep(revision, objects)
    }

    /// The oldest revision of a resource that can still be asked for.
    pub fn oldest(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(0, Table::floor).max(self.compacted)
    }

    /// Files a change, and drops what of the past is no longer kept.
    fn record(&mut self, change: StoreChange) -> Arc<StoreChange> {
        let (history, now) = (self.history, change.at);
        let recorded = self.change_table(&change.resource().clone(), |table| {
            let recorded = table.record(change);
            table.trim(history);
            recorded
        });
        let mut expired = MOST_EXPIRED;
        while let Some(oldest) = self.with_past.values().next().cloned()
            && (self.logged > history.max_bytes || (expired > 0 && self.is_expired(&oldest, now)))
        {
            self.change_table(&oldest, Table::drop_oldest);
            expired = expired.saturating_sub(1);
        }
        recorded
    }

    fn is_expired(&self, resource: &str, now: Instant) -> bool {
        self.tables.get(resource).is_some_and(|table| table.is_expired(now, self.history))
    }

    /// Changes what a resource has of the past: what is known of all of them together changes with it.
    fn change_table<R>(&mut self, resource: &ResourceKey, change: impl FnOnce(&mut Table) -> R) -> R {
        let table = self.tables.entry(resource.clone()).or_default();
        self.logged -= table.logged();
        if let Some(oldest) = table.oldest_past() {
            self.with_past.remove(&oldest);
        }
        let changed = change(table);
        self.logged += table.logged();
        self.with_past.extend(table.oldest_past().map(|oldest| (oldest, resource.clone())));
        changed
    }

    /// Whether an object can be put there.
    ///
    /// # Errors
    ///
    /// Why not, as [`put`](Self::put) tells it.
    pub fn check(&self, resource: &str, key: &str, expect: Expect, draft: &Draft) -> Result<(), Refused> {
        self.check_expected(resource, key, expect)?;
        let mut holders = draft.claims.iter().filter_map(|claim| self.holders.get(claim));
        match holders.all(|(of, holder)| **of == *resource && **holder == *key) {
            true => Ok(()),
            false => Err(Refused::Taken),
        }
    }

    fn check_expected(&self, resource: &str, key: &str, expect: Expect) -> Result<(), Refused> {
        let found = self.get(resource, key);
        let holds = match expect {
            Expect::Absent => found.is_none(),
            Expect::At(revision) => found.is_some_and(|object| object.revision() == revision),
        };
        if holds { Ok(()) } else { Err(Refused::Mismatch(found.cloned())) }
    }

    /// The key of the object that has what is claimed.
    pub fn holder(&self, claim: &str) -> Option<&Key> {
        self.holders.get(claim).map(|(_, key)| key)
    }

    /// Gives an object what it claims now, and takes what it has claimed before.
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
