//! Shards of a store, each of which contains the records of some keys and their index values.

use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use pintle_meta::ObjectKey;

use super::record::{PAGE, Page, Version};
use super::table::Table;
use super::terms::{TermIds, TermQuery, Terms};
use super::{Value, Write};

/// A shard. The alignment prevents the locks of two shards from sharing a cache line, even if the processor prefetches
/// adjacent lines.
#[repr(align(128))]
pub(super) struct Shard<V> {
    table: Table,
    pages: Vec<Arc<Page<V>>>,
    /// The empty page that replaces pages without records.
    empty: Arc<Page<V>>,
    free: Vec<u32>,
    slots: u32,
    kept: usize,
    pub(super) terms: Terms,
}

pub(super) type Put<V> = (u32, Option<Version<V>>);

impl<V: Value> Shard<V> {
    pub(super) fn new() -> Self {
        Self {
            table: Table::default(),
            pages: Vec::new(),
            empty: Arc::new(Page::new()),
            free: Vec::new(),
            slots: 0,
            kept: 0,
            terms: Terms::default(),
        }
    }

    pub(super) fn find(&self, hash: u32, key: &ObjectKey) -> Option<u32> {
        self.table.find(hash, |slot| self.is_of(slot, key))
    }

    pub(super) fn find_hash(&self, hash: u32) -> Option<u32> {
        self.table.find(hash, |_| true)
    }

    pub(super) fn is_of(&self, slot: u32, key: &ObjectKey) -> bool {
        self.key(slot) == Some(key)
    }

    pub(super) fn value_at(&self, slot: u32, stamp: u64) -> Option<&V> {
        self.page_of(slot)?.value_at(at(slot), stamp).map(|(_, value)| value)
    }

    /// Returns the value in `slot` that is visible at `stamp`, if this version has the index value `term`. `slot` must
    /// be one of the slots of `term`.
    pub(super) fn value_with_term(&self, slot: u32, stamp: u64, term: u32) -> Option<&V> {
        match self.kept {
            // Without superseded versions, the slots of an index value refer only to newest versions, so their index
            // values need not be checked.
            0 => self.value_at(slot, stamp),
            _ => self.page_of(slot)?.value_with_term(at(slot), stamp, term),
        }
    }

    pub(super) fn newest(&self, slot: u32) -> Option<&V> {
        self.page_of(slot)?.newest(at(slot))
    }

    pub(super) fn key(&self, slot: u32) -> Option<&ObjectKey> {
        self.page_of(slot)?.key(at(slot))
    }

    pub(super) fn page(&self, page: usize) -> Option<&Arc<Page<V>>> {
        self.pages.get(page)
    }

    pub(super) fn pages_from(&self, from: usize) -> &[Arc<Page<V>>] {
        self.pages.get(from..).unwrap_or_default()
    }

    /// Writes a version of a key. Returns `None` if the write deletes a key that does not exist.
    pub(super) fn put(
        &mut self,
        hasher: &DefaultHashBuilder,
        hash: u32,
        write: Write<V>,
        stamp: u64,
    ) -> Option<Put<V>> {
        let Write { key, value, values } = write;
        let found = self.find(hash, &key);
        let slot = match (found, &value) {
            (None, None) => return None,
            (found, _) => found.unwrap_or_else(|| self.vacant()),
        };
        if found.is_none() {
            self.table.insert(hash, slot);
        }
        let page = Arc::make_mut(&mut self.pages[slot as usize / PAGE]);
        let terms = match value {
            Some(_) => {
                let values = values.iter().map(|(index, value)| (*index, value.as_str()));
                let values = key.namespace().map(|namespace| (super::NAMESPACES, namespace)).into_iter().chain(values);
                self.terms.term_ids(hasher, page.terms(at(slot)).unwrap_or(&TermIds::default()), values, slot)
            }
            None => TermIds::default(),
        };
        Some((slot, page.supersede(at(slot), key, Version { stamp, value, terms })))
    }

    pub(super) fn keep(&mut self, slot: u32, version: Version<V>, until: u64) {
        Arc::make_mut(&mut self.pages[slot as usize / PAGE]).keep(at(slot), version, until);
        self.kept += 1;
    }

    /// Frees the index values of a superseded version that no pin needs. If the record is empty after that, this method
    /// also frees the record.
    pub(super) fn discard(&mut self, hash: u32, slot: u32, version: Version<V>) -> Option<V> {
        let page = &mut self.pages[slot as usize / PAGE];
        for id in version.terms.as_slice() {
            if !page.has_term(at(slot), *id) {
                self.terms.forget(*id, slot);
            }
        }
        if page.is_spent(at(slot)) {
            if page.is_last(at(slot)) {
                *page = self.empty.clone()
            } else {
                Arc::make_mut(page).clear(at(slot))
            }
            self.table.remove(hash, slot);
            self.free.push(slot);
            if self.free.len() == self.slots as usize {
                // Release the memory of a shard that has become empty, because the shard may have been large.
                (self.table, self.pages, self.free, self.slots) = Default::default();
            }
        }
        version.value
    }

    /// Like [`discard`](Self::discard), frees a version that was kept for a pin.
    pub(super) fn release(&mut self, hash: u32, slot: u32, stamp: u64) -> Option<V> {
        let version = Arc::make_mut(self.pages.get_mut(slot as usize / PAGE)?).release(at(slot), stamp)?;
        self.kept -= 1;
        self.discard(hash, slot, version)
    }

    pub(super) fn add_values(
        &mut self,
        hasher: &DefaultHashBuilder,
        slot: u32,
        stamp: u64,
        index: u32,
        values: &[String],
    ) {
        let page = Arc::make_mut(&mut self.pages[slot as usize / PAGE]);
        if page.stamp(at(slot)) == stamp
            && let Some(terms) = page.all_terms(at(slot)).last()
        {
            for value in values {
                terms.push(self.terms.term_id(TermQuery::new(hasher, index, value), slot));
            }
        }
    }

    pub(super) fn forget_index(&mut self, page: usize, index: u32) {
        let records = Arc::make_mut(&mut self.pages[page]);
        for place in 0..PAGE {
            let slot = (page * PAGE + place) as u32;
            for terms in records.all_terms(place) {
                let of_index = |id: &u32| self.terms.index(*id).is_none_or(|of| of == index);
                let gone: Vec<u32> = terms.as_slice().iter().copied().filter(of_index).collect();
                terms.retain(|id| !gone.contains(&id));
                gone.into_iter().for_each(|id| self.terms.forget(id, slot));
            }
        }
    }

    fn page_of(&self, slot: u32) -> Option<&Page<V>> {
        self.pages.get(slot as usize / PAGE).map(|page| &**page)
    }

    fn vacant(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            if self.slots as usize == self.pages.len() * PAGE {
                self.pages.push(self.empty.clone());
            }
            self.slots += 1;
            self.slots - 1
        })
    }

    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.pages.iter().filter(|page| !Arc::ptr_eq(page, &self.empty)).count()
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.pages.iter().map(|page| page.versions()).sum()
    }
}

fn at(slot: u32) -> usize {
    slot as usize % PAGE
}
