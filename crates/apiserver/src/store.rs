//! The one ordered log: every object, every change, and the revision that numbers them all.
//!
//! [`Store`] is a plain engine. It does no I/O, reads no clock, takes no lock and starts no task: it is told what to write and
//! when, and answers questions about now and about every revision back to the compaction point. The lock, the clock and the
//! watchers' wake-ups live in [`Db`](self::db::Db).
//!
//! All resources share one sequence of revisions, as with one etcd; a change is filed under its resource, so that a watch of
//! one resource never reads past the changes of the others.

mod db;
mod interner;
mod json_body;
mod kept;
mod objects;
mod past;
mod resource_table;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub(crate) use db::{Changes, Charge, Db, Feed, Over, Scope, Shown, WrittenHere, key};
pub(crate) use interner::Interner;
pub(crate) use json_body::Order;
pub(crate) use kept::Encoding;
use kept::Room;
pub(crate) use objects::{Neighbours, Objects, Run};
use past::Past;
pub(crate) use past::Range;
use resource_table::Table;
pub(crate) use stored::{Change, ChangeKind, Draft, Key, ResourceKey, SAME, Stored};

/// How much of the past is kept. What is older can neither be watched from nor listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    /// Changes kept for each resource.
    pub(crate) max_changes: usize,
    /// How long a change is kept.
    pub(crate) max_age: Duration,
    /// What the changes of all resources together may take, about. The last of a resource is kept in any case.
    pub(crate) max_bytes: usize,
    /// Changes kept for those who follow the resource, though nobody else may ask for them.
    pub(crate) followed: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { max_changes: 100_000, max_age: Duration::from_secs(300), max_bytes: 256 << 20, followed: 0 }
    }
}

/// What a write expects to find; a write that finds something else does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No object of that key.
    Absent,
    /// The object as that revision left it.
    At(u64),
}

/// Why a write does nothing.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// It found something else than it expected: the object that is there, if one is.
    Mismatch(Option<Arc<Stored>>),
    /// Another object has what this one claims.
    Taken,
    /// What was looked at beside the object is not as it was.
    Moved,
}

/// The asked-for revision is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest revision that can still be asked for.
    pub(crate) oldest: u64,
}

/// Every object and its past, numbered by one sequence of revisions.
#[derive(Debug, Default)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    history: History,
    /// For what is kept in other encodings: as much as for the past.
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

impl Store {
    /// An empty store at that revision; a new etcd is at 1. Of what was before it nothing is known.
    pub(crate) fn new(first: u64, history: History) -> Self {
        // Far enough from the end that no number of writes reaches it.
        let revision = first.clamp(1, u64::MAX / 2);
        let compacted = if revision == 1 { 0 } else { revision };
        let room = Arc::new(Room::new(history.max_bytes));
        Self { revision, compacted, history, room, ..Self::default() }
    }

    /// Where the objects that are drafted for this store find what they have in common.
    pub(crate) fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The object of that key, as it is now.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.get(key)
    }

    /// The objects of a resource as they are now, whatever is written later.
    pub(crate) fn objects(&self, resource: &str) -> Objects {
        self.tables.get(resource).map(|table| table.objects().clone()).unwrap_or_default()
    }

    /// All objects, as they are now.
    pub(crate) fn everything(&self) -> impl Iterator<Item = (ResourceKey, Key, Arc<Stored>)> {
        let objects = |table: &Table| table.objects().run(&Range::namespace(None));
        let of = move |(resource, table): (&ResourceKey, &Table)| {
            let resource = resource.clone();
            objects(table).map(move |(key, stored)| (resource.clone(), key, stored))
        };
        self.tables.iter().flat_map(of)
    }

    /// Writes an object, if what is there is as expected.
    pub(crate) fn put(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        draft: Draft,
    ) -> Result<Arc<Change>, Refused> {
        self.check(resource, key, expect, &draft)?;
        self.revision += 1;
        let is_first = self.get(resource, key).is_none();
        let Draft { body, version, claims, fields } = draft;
        let table = self.tables.entry(resource.clone()).or_default();
        let written = table.version(&version, &self.room);
        let object = Arc::new(Stored::new(self.revision, written, is_first, body).selectable(fields));
        let revision = self.revision;
        let change = self.write(now, resource, |table| table.put(now, revision, resource, key, object));
        self.claim(resource, key, claims);
        Ok(change)
    }

    /// Removes an object, if what is there is as expected. The change carries the last content with the new revision.
    pub(crate) fn remove(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        at: u64,
    ) -> Result<Arc<Change>, Refused> {
        self.check_expected(resource, key, Expect::At(at))?;
        let revision = self.revision + 1;
        let removed = self.write(now, resource, |table| table.remove(now, revision, resource, key));
        let change = removed.ok_or(Refused::Mismatch(None))?;
        self.revision = revision;
        self.claim(resource, key, Vec::new());
        Ok(change)
    }

    /// The changes of a resource after `revision`, oldest first.
    pub(crate) fn changes_since(
        &self,
        resource: &str,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(self.tables.get(resource).into_iter().flat_map(move |table| table.since(revision)))
    }

    /// The changes of a resource after `revision`, for who has read all before; none if some of them are no longer there.
    pub(crate) fn followed(&self, resource: &str, revision: u64) -> Option<impl Iterator<Item = &Arc<Change>>> {
        let table = self.tables.get(resource);
        let follows = table.is_none_or(|table| table.keeps(revision));
        follows.then(|| table.into_iter().flat_map(move |table| table.since(revision)))
    }

    /// The change that made this revision, if it is kept.
    pub(crate) fn change(&self, resource: &str, revision: u64) -> Option<&Arc<Change>> {
        let mut since = self.tables.get(resource)?.since(revision.checked_sub(1)?);
        since.next().filter(|change| change.revision == revision)
    }

    /// A resource as `revision` left it.
    pub(crate) fn past(&self, resource: &str, revision: u64) -> Result<Past, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(self.tables.get(resource).map(|table| table.past(revision)).unwrap_or_default())
    }

    /// Forgets what came before `revision`: it stays the oldest that can be asked for.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        for table in self.tables.values_mut() {
            table.compact(self.compacted);
        }
    }

    /// Forgets the past of one resource, as a server does whose storage for it is made anew.
    pub(crate) fn forget_past(&mut self, resource: &ResourceKey) {
        let revision = self.revision;
        self.change_table(resource, |table| table.forget(revision));
    }

    /// The objects of a resource at a revision, there for as long as all changes since are kept: of what was there then, these hold
    /// whatever is no longer there now.
    pub(crate) fn keep(&mut self, resource: &ResourceKey, revision: u64, objects: &Objects) -> Weak<Objects> {
        // A fault may show a revision yet to come, when there will be something else.
        if revision > self.revision {
            return Weak::new();
        }
        self.tables.entry(resource.clone()).or_default().keep(revision, objects)
    }

    /// The oldest revision of a resource that can still be asked for.
    pub(crate) fn oldest(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(0, Table::floor).max(self.compacted)
    }

    /// Writes to a resource, and drops what of the past is no longer kept.
    fn write<R>(&mut self, now: Instant, resource: &ResourceKey, write: impl FnOnce(&mut Table) -> R) -> R {
        let history = self.history;
        let written = self.change_table(resource, |table| {
            let written = write(table);
            table.trim(now, history);
            written
        });
        while self.logged > history.max_bytes
            && let Some(oldest) = self.with_past.values().next().cloned()
        {
            self.change_table(&oldest, Table::drop_oldest);
        }
        written
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
    pub(crate) fn check(&self, resource: &str, key: &str, expect: Expect, draft: &Draft) -> Result<(), Refused> {
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
    pub(crate) fn holder(&self, claim: &str) -> Option<&Key> {
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
