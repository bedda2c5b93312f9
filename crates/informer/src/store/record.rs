//! Records: a key's newest version, and the older versions that a [`Pin`](super::Pin) still needs.

use pintle_meta::ObjectKey;

use super::terms::TermIds;

/// The number of records in a page. Under loom, pages are small, because loom's threads have small stacks.
pub(super) const PAGE: usize = if cfg!(pintle_loom) { 4 } else { 64 };

/// A page of records. A scan clones the `Arc` of a page and then reads the page without holding locks. A concurrent
/// writer copies the page before changing it.
#[derive(Clone)]
pub(crate) struct Page<V> {
    /// The stamp and value of each record. Stamps and values are adjacent in memory, because a scan reads nothing
    /// else.
    heads: [Head<V>; PAGE],
    bodies: [Option<Body<V>>; PAGE],
    used: usize,
}

#[derive(Clone)]
struct Head<V> {
    stamp: u64,
    /// The value of the record's newest version, or `None` if the newest version is a deletion or the slot is empty.
    value: Option<V>,
}

#[derive(Clone)]
struct Body<V> {
    key: ObjectKey,
    terms: TermIds,
    /// The superseded versions that pins need, ordered by stamp. Superseded deletions are not kept. If no version is
    /// visible at a stamp, the key did not exist at that stamp.
    older: Vec<Older<V>>,
}

#[derive(Clone)]
struct Older<V> {
    version: Version<V>,
    until: u64,
}

#[derive(Clone)]
pub(super) struct Version<V> {
    pub(super) stamp: u64,
    pub(super) value: Option<V>,
    pub(super) terms: TermIds,
}

impl<V> Page<V> {
    pub(super) fn new() -> Self {
        Self { heads: [const { Head { stamp: 0, value: None } }; PAGE], bodies: [const { None }; PAGE], used: 0 }
    }

    pub(super) fn key(&self, at: usize) -> Option<&ObjectKey> {
        self.bodies[at].as_ref().map(|body| &body.key)
    }

    pub(super) fn newest(&self, at: usize) -> Option<&V> {
        self.heads[at].value.as_ref()
    }

    pub(super) fn stamp(&self, at: usize) -> u64 {
        self.heads[at].stamp
    }

    pub(super) fn terms(&self, at: usize) -> Option<&TermIds> {
        self.bodies[at].as_ref().map(|body| &body.terms)
    }

    pub(super) fn value_at(&self, at: usize, stamp: u64) -> Option<(u64, &V)> {
        let head = &self.heads[at];
        if head.stamp <= stamp {
            Some((head.stamp, head.value.as_ref()?))
        } else {
            self.older_at(at, stamp).and_then(|version| Some((version.stamp, version.value.as_ref()?)))
        }
    }

    pub(super) fn value_with_term(&self, at: usize, stamp: u64, term: u32) -> Option<&V> {
        let head = &self.heads[at];
        if head.stamp <= stamp {
            head.value.as_ref().filter(|_| self.terms(at).is_some_and(|terms| terms.contains(term)))
        } else {
            self.older_at(at, stamp).filter(|version| version.terms.contains(term))?.value.as_ref()
        }
    }

    /// Returns the stamp of the version that is visible at `stamp`. The version at `stamp` may be a deletion.
    pub(super) fn stamp_at(&self, at: usize, stamp: u64) -> Option<u64> {
        let newest = self.heads[at].stamp;
        if newest <= stamp { Some(newest) } else { self.older_at(at, stamp).map(|version| version.stamp) }
    }

    pub(super) fn supersede(&mut self, at: usize, key: ObjectKey, next: Version<V>) -> Option<Version<V>> {
        let Version { stamp, value, terms } = next;
        let before = std::mem::replace(&mut self.heads[at], Head { stamp, value });
        match &mut self.bodies[at] {
            Some(body) => {
                let terms = std::mem::replace(&mut body.terms, terms);
                Some(Version { stamp: before.stamp, value: before.value, terms })
            }
            vacant => {
                *vacant = Some(Body { key, terms, older: Vec::new() });
                self.used += 1;
                None
            }
        }
    }

    pub(super) fn keep(&mut self, at: usize, version: Version<V>, until: u64) {
        if let Some(body) = &mut self.bodies[at] {
            body.older.reserve_exact(1);
            body.older.push(Older { version, until });
        }
    }

    pub(super) fn release(&mut self, at: usize, stamp: u64) -> Option<Version<V>> {
        let older = &mut self.bodies[at].as_mut()?.older;
        let place = older.iter().position(|older| older.version.stamp == stamp)?;
        let version = older.remove(place).version;
        if older.is_empty() {
            *older = Vec::new();
        }
        Some(version)
    }

    pub(super) fn has_term(&self, at: usize, term: u32) -> bool {
        self.bodies[at].as_ref().is_some_and(|body| {
            body.terms.contains(term) || body.older.iter().any(|older| older.version.terms.contains(term))
        })
    }

    pub(super) fn all_terms(&mut self, at: usize) -> impl Iterator<Item = &mut TermIds> {
        self.bodies[at]
            .iter_mut()
            .flat_map(|body| body.older.iter_mut().map(|older| &mut older.version.terms).chain([&mut body.terms]))
    }

    /// Returns `true` if the key was deleted and no superseded version is kept, so that no reader can see the record.
    pub(super) fn is_spent(&self, at: usize) -> bool {
        self.heads[at].value.is_none() && self.bodies[at].as_ref().is_some_and(|body| body.older.is_empty())
    }

    pub(super) fn clear(&mut self, at: usize) {
        self.heads[at] = Head { stamp: 0, value: None };
        self.used -= usize::from(self.bodies[at].take().is_some());
    }

    pub(super) fn is_last(&self, at: usize) -> bool {
        self.used == 1 && self.bodies[at].is_some()
    }

    fn older_at(&self, at: usize, stamp: u64) -> Option<&Version<V>> {
        let older = &self.bodies[at].as_ref()?.older;
        let covers = |older: &&Older<V>| older.version.stamp <= stamp && stamp < older.until;
        older.iter().find(covers).map(|older| &older.version)
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.bodies.iter().flatten().map(|body| 1 + body.older.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn each_version(&self, each: &mut impl FnMut(&V)) {
        self.heads.iter().filter_map(|head| head.value.as_ref()).for_each(&mut *each);
        let older = self.bodies.iter().flatten().flat_map(|body| &body.older);
        older.filter_map(|older| older.version.value.as_ref()).for_each(each);
    }
}
