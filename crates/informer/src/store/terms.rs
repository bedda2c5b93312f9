//! The index values of a shard. Each index value is stored once, together with the slots of the records that have this
//! value.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use super::table::Table;

/// The terms of a shard. A term is one value of one index. The term is kept as long as a version in the shard has this
/// value.
#[derive(Default)]
pub(super) struct Terms {
    table: Table,
    /// The terms are stored in pages, because reallocating a large vector would take long.
    pages: Vec<Option<Box<Page>>>,
    free: Vec<u32>,
    ids: u32,
}

#[derive(Default)]
struct Page {
    terms: [Option<Term>; PAGE],
    used: usize,
}

const PAGE: usize = 32;

struct Term {
    index: u32,
    hash: u32,
    value: Box<str>,
    /// The slots of the records in which at least one version has this value, in ascending order. Readers must check
    /// whether the visible version has the value.
    slots: Vec<u32>,
}

#[derive(Clone, Copy)]
pub(crate) struct TermQuery<'a> {
    pub(super) index: u32,
    pub(super) value: &'a str,
    pub(super) hash: u32,
}

impl<'a> TermQuery<'a> {
    pub(super) fn new(hasher: &DefaultHashBuilder, index: u32, value: &'a str) -> Self {
        Self { index, value, hash: hasher.hash_one((index, value)) as u32 }
    }
}

impl Terms {
    /// Returns the term ids for the index values of a new version in `slot`. `known` contains the term ids of the
    /// previous version, which are often the same.
    pub(super) fn term_ids<'a>(
        &mut self,
        hasher: &DefaultHashBuilder,
        known: &TermIds,
        values: impl Iterator<Item = (u32, &'a str)>,
        slot: u32,
    ) -> TermIds {
        let mut ids = TermIds::default();
        for (at, (index, value)) in values.enumerate() {
            let same = known.as_slice().get(at).copied().filter(|id| self.is(*id, index, value));
            let id = same.unwrap_or_else(|| self.term_id(TermQuery::new(hasher, index, value), slot));
            ids.push(id);
        }
        ids
    }

    pub(super) fn term_id(&mut self, sought: TermQuery<'_>, slot: u32) -> u32 {
        let id = self.find(sought).unwrap_or_else(|| self.insert(sought));
        if let Some(term) = self.term_mut(id) {
            match term.slots.last() {
                Some(last) if *last >= slot => {
                    if let Err(at) = term.slots.binary_search(&slot) {
                        term.slots.insert(at, slot);
                    }
                }
                _ => term.slots.push(slot),
            }
        }
        id
    }

    /// Removes `slot` from a term, because no version in the slot has this value anymore.
    pub(super) fn forget(&mut self, id: u32, slot: u32) {
        let Some(term) = self.term_mut(id) else { return };
        if let Ok(at) = term.slots.binary_search(&slot) {
            term.slots.remove(at);
        }
        if term.slots.len() * 4 < term.slots.capacity() {
            term.slots.shrink_to(term.slots.len() * 2);
        }
        if term.slots.is_empty() {
            let hash = term.hash;
            self.table.remove(hash, id);
            self.vacate(id);
            self.free.push(id);
            if self.free.len() == self.ids as usize {
                *self = Self::default();
            }
        }
    }

    pub(super) fn find(&self, sought: TermQuery<'_>) -> Option<u32> {
        self.table.find(sought.hash, |id| self.is(id, sought.index, sought.value))
    }

    pub(super) fn slots(&self, id: u32) -> &[u32] {
        self.term(id).map_or(&[], |term| &term.slots)
    }

    pub(super) fn index(&self, id: u32) -> Option<u32> {
        self.term(id).map(|term| term.index)
    }

    /// Returns the value of a term and its first slot at or after `from`. Returns `Some(None)` if the term does not
    /// belong to `index` or has no slot at or after `from`. Returns `None` if no term has this id or a higher id.
    pub(super) fn next_slot(&self, id: u32, index: u32, from: u32) -> Option<Option<(&str, u32)>> {
        if id >= self.ids {
            return None;
        }
        Some(self.term(id).filter(|term| term.index == index).and_then(|term| {
            let at = if from == 0 { 0 } else { term.slots.partition_point(|slot| *slot < from) };
            Some((&*term.value, *term.slots.get(at)?))
        }))
    }

    fn is(&self, id: u32, index: u32, value: &str) -> bool {
        self.term(id).is_some_and(|term| term.index == index && *term.value == *value)
    }

    fn term(&self, id: u32) -> Option<&Term> {
        self.pages.get(id as usize / PAGE)?.as_ref()?.terms[id as usize % PAGE].as_ref()
    }

    fn term_mut(&mut self, id: u32) -> Option<&mut Term> {
        self.pages.get_mut(id as usize / PAGE)?.as_mut()?.terms[id as usize % PAGE].as_mut()
    }

    fn insert(&mut self, sought: TermQuery<'_>) -> u32 {
        let TermQuery { index, value, hash } = sought;
        let id = self.free.pop().unwrap_or_else(|| {
            if self.ids as usize == self.pages.len() * PAGE {
                self.pages.push(None);
            }
            self.ids += 1;
            self.ids - 1
        });
        let page = self.pages[id as usize / PAGE].get_or_insert_default();
        page.terms[id as usize % PAGE] = Some(Term { index, hash, value: value.into(), slots: Vec::new() });
        page.used += 1;
        self.table.insert(hash, id);
        id
    }

    fn vacate(&mut self, id: u32) {
        let Some(page) = &mut self.pages[id as usize / PAGE] else { return };
        page.terms[id as usize % PAGE] = None;
        page.used -= 1;
        if page.used == 0 {
            self.pages[id as usize / PAGE] = None;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pages.iter().flatten().map(|page| page.used).sum()
    }
}

/// The ids of the index values of a version, ordered by index. Most versions have few index values.
#[derive(Clone)]
pub(super) enum TermIds {
    Few {
        len: u8,
        ids: [u32; 3],
    },
    #[expect(clippy::box_collection, reason = "a record is smaller by two words")]
    Many(Box<Vec<u32>>),
}

impl Default for TermIds {
    fn default() -> Self {
        Self::Few { len: 0, ids: [0; 3] }
    }
}

impl TermIds {
    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few { len, ids } => &ids[..usize::from(*len)],
            Self::Many(ids) => ids,
        }
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.as_slice().contains(&id)
    }

    pub(super) fn push(&mut self, id: u32) {
        if self.contains(id) {
            return;
        }
        match self {
            Self::Few { len, ids } => match ids.get_mut(usize::from(*len)) {
                Some(place) => {
                    *place = id;
                    *len += 1;
                }
                None => *self = Self::Many(Box::new(ids.iter().copied().chain([id]).collect())),
            },
            Self::Many(ids) => ids.push(id),
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let before = std::mem::take(self);
        before.as_slice().iter().filter(|id| keep(**id)).for_each(|id| self.push(*id));
    }
}
