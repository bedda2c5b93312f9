//! What the store has of one key: its newest version, and older ones that somebody still wants.

use pintle_meta::ObjectKey;

use super::terms::TermIds;

#[derive(Clone)]
pub(super) struct Record<V> {
    pub(super) key: ObjectKey,
    pub(super) newest: Version<V>,
    /// Kept for pins, oldest first. None of them is a deletion: what no version covers is not there.
    older: Vec<Older<V>>,
}

/// What a commit made of a key.
#[derive(Clone)]
pub(super) struct Version<V> {
    pub(super) stamp: u64,
    /// `None`: it was deleted.
    pub(super) value: Option<V>,
    pub(super) terms: TermIds,
}

#[derive(Clone)]
struct Older<V> {
    version: Version<V>,
    /// The stamp of the commit that superseded it.
    until: u64,
}

impl<V> Record<V> {
    pub(super) fn new(key: ObjectKey, newest: Version<V>) -> Self {
        Self { key, newest, older: Vec::new() }
    }

    /// The version that is visible at `stamp`.
    pub(super) fn at(&self, stamp: u64) -> Option<&Version<V>> {
        if self.newest.stamp <= stamp {
            return Some(&self.newest);
        }
        let covers = |older: &&Older<V>| older.version.stamp <= stamp && stamp < older.until;
        self.older.iter().find(covers).map(|older| &older.version)
    }

    pub(super) fn value_at(&self, stamp: u64) -> Option<&V> {
        self.at(stamp)?.value.as_ref()
    }

    /// All versions.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version<V>> {
        self.older.iter().map(|older| &older.version).chain([&self.newest])
    }

    pub(super) fn versions_mut(&mut self) -> impl Iterator<Item = &mut Version<V>> {
        self.older.iter_mut().map(|older| &mut older.version).chain([&mut self.newest])
    }

    pub(super) fn keep(&mut self, version: Version<V>, until: u64) {
        self.older.reserve_exact(1);
        self.older.push(Older { version, until });
    }

    /// Takes the older version of that stamp out.
    pub(super) fn release(&mut self, stamp: u64) -> Option<Version<V>> {
        let at = self.older.iter().position(|older| older.version.stamp == stamp)?;
        let version = self.older.remove(at).version;
        if self.older.is_empty() {
            self.older = Vec::new();
        }
        Some(version)
    }

    /// Whether nobody can see anything here: it was deleted, and no older version is kept.
    pub(super) fn is_spent(&self) -> bool {
        self.newest.value.is_none() && self.older.is_empty()
    }
}
