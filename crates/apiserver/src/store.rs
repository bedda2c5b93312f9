//! The one ordered log: every object, every change, and the revision that numbers them all.
//!
//! [`Store`] is a plain engine. It does no I/O, reads no clock, takes no lock and starts no task: it is told what to write and
//! when, and answers questions about now and about every revision back to the compaction point. The lock, the clock and the
//! watchers' wake-ups live in [`Db`](crate::db::Db).
//!
//! All resources share one sequence of revisions, as with one etcd; a change is filed under its resource, so that a watch of
//! one resource never reads past the changes of the others.

mod object;
mod past;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use object::{Change, ChangeKind, Key, ResourceKey, Stored};
pub(crate) use past::{Past, Range};
use serde_json::Value;
use table::Table;

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

/// What of a resource's object no other object may have as well, such as an address.
pub(crate) type Claims = fn(resource: &str, value: &Value) -> Vec<String>;

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
    tables: HashMap<ResourceKey, Table>,
    claims: Option<Claims>,
    /// Who has what is claimed.
    holders: HashMap<String, (ResourceKey, Key)>,
}

impl Store {
    /// An empty store at that revision; a new etcd is at 1. Of what was before it nothing is known.
    pub(crate) fn new(first: u64, history: History) -> Self {
        // Far enough from the end that no number of writes reaches it.
        let revision = first.clamp(1, u64::MAX / 2);
        let compacted = if revision == 1 { 0 } else { revision };
        Self { revision, compacted, history, ..Self::default() }
    }

    /// The same, where objects claim things that none of them shares with another.
    pub(crate) fn with_claims(mut self, claims: Claims) -> Self {
        self.claims = Some(claims);
        self
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The object of that key, as it is now.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.get(key)
    }

    /// The objects of `range`, as they are now, in the order of their keys.
    pub(crate) fn range<'a>(
        &'a self,
        resource: &str,
        range: &Range,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        self.tables.get(resource).into_iter().flat_map(|table| table.range(range))
    }

    /// All objects, as they are now.
    pub(crate) fn everything(&self) -> impl Iterator<Item = (&ResourceKey, &Key, &Arc<Stored>)> {
        let tables = self.tables.iter();
        tables.flat_map(|(resource, table)| table.all().map(move |(key, stored)| (resource, key, stored)))
    }

    /// Writes an object, if what is there is as expected. The value's `metadata.resourceVersion` is set to the new revision.
    pub(crate) fn put(
        &mut self,
        now: Instant,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Value,
    ) -> Result<Arc<Change>, Refused> {
        self.check(resource, key, expect, &value)?;
        self.revision += 1;
        let is_first = self.get(resource, key).is_none();
        self.release(resource, key);
        let claimed = self.claimed(resource, &value);
        if !claimed.is_empty() {
            let holder = (resource.clone(), Key::from(key));
            self.holders.extend(claimed.into_iter().map(|claim| (claim, holder.clone())));
        }
        let table = self.tables.entry(resource.clone()).or_default();
        let version = table.version(value.get("apiVersion").and_then(Value::as_str).unwrap_or_default());
        let object = Arc::new(Stored::new(self.revision, version, is_first, value));
        let change = table.put(now, self.revision, resource, key, object);
        self.trim(now, resource);
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
        self.release(resource, key);
        let Some(table) = self.tables.get_mut(resource) else { return Err(Refused::Mismatch(None)) };
        let Some(change) = table.remove(now, self.revision + 1, resource, key) else {
            return Err(Refused::Mismatch(None));
        };
        self.revision += 1;
        self.trim(now, resource);
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

    /// At most so many changes of a resource after `revision`, for who follows it and has read all before; none if some of what
    /// follows is no longer there, or if more than `most` do.
    pub(crate) fn followed(
        &self,
        resource: &str,
        revision: u64,
        most: usize,
    ) -> Option<impl Iterator<Item = &Arc<Change>>> {
        let table = self.tables.get(resource);
        let follows = table.is_none_or(|table| table.keeps(revision) && table.since(revision).len() <= most);
        follows.then(|| table.into_iter().flat_map(move |table| table.since(revision)))
    }

    /// A resource as `revision` left it.
    pub(crate) fn past(&self, resource: &str, revision: u64) -> Result<Past<'_>, Compacted> {
        let oldest = self.oldest(resource);
        if revision < oldest {
            return Err(Compacted { oldest });
        }
        Ok(Past::new(self.tables.get(resource), revision))
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
        self.tables.entry(resource.clone()).or_default().forget(revision);
    }

    /// The oldest revision of a resource that can still be asked for.
    pub(crate) fn oldest(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(0, Table::floor).max(self.compacted)
    }

    /// Drops what of the past is not kept, after a write of that resource.
    fn trim(&mut self, now: Instant, resource: &str) {
        if let Some(table) = self.tables.get_mut(resource) {
            table.trim(now, self.history);
        }
        let mut bytes: usize = self.tables.values().map(Table::logged).sum();
        while bytes > self.history.max_bytes {
            let with_past = self.tables.values_mut().filter(|table| table.has_past());
            let Some(oldest) = with_past.min_by_key(|table| table.oldest_change()) else { return };
            bytes -= oldest.drop_oldest();
        }
    }

    /// Whether an object can be put there.
    pub(crate) fn check(&self, resource: &str, key: &str, expect: Expect, value: &Value) -> Result<(), Refused> {
        self.check_expected(resource, key, expect)?;
        let claimed = self.claimed(resource, value);
        let mut holders = claimed.iter().filter_map(|claim| self.holders.get(claim));
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

    fn claimed(&self, resource: &str, value: &Value) -> Vec<String> {
        self.claims.map_or_else(Vec::new, |claims| claims(resource, value))
    }

    /// Gives back what the object of that key has claimed.
    fn release(&mut self, resource: &str, key: &str) {
        let claimed = self.get(resource, key).map(|stored| self.claimed(resource, stored.value()));
        for claim in claimed.into_iter().flatten() {
            self.holders.remove(&claim);
        }
    }
}
