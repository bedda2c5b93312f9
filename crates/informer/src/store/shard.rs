//! A part of the store: the records of some keys, and the terms that these have.

use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use super::Write;
use super::record::{Record, Version};
use super::terms::{Sought, TermIds, Terms};

/// So many records are in a page.
pub(super) const PAGE: usize = 64;

/// Who reads on takes a page at a time, and needs no lock for what is in it: a write that comes meanwhile copies the page.
pub(super) type Page<V> = [Option<Record<V>>; PAGE];

/// Between two shards' locks, so that a core that takes one does not take its neighbour's line as well.
#[repr(align(128))]
pub(super) struct Shard<V> {
    table: HashTable<Entry>,
    pages: Vec<Arc<Page<V>>>,
    free: Vec<u32>,
    /// How many slots were ever in use.
    slots: u32,
    pub(super) terms: Terms,
}

/// Of a table whose values are elsewhere. Half the hash saves most looks at them, and is enough for tables that are this large.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: u32,
    pub(super) at: u32,
}

impl Entry {
    /// A table takes its place from the lower bits, and what it compares from the uppermost.
    pub(super) fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// What a write has done to a slot, and the version that it put an end to.
pub(super) type Put<V> = (u32, Option<Version<V>>);

impl<V: Clone> Shard<V> {
    pub(super) fn new() -> Self {
        Self { table: HashTable::new(), pages: Vec::new(), free: Vec::new(), slots: 0, terms: Terms::default() }
    }

    pub(super) fn find(&self, hash: u32, key: &str) -> Option<u32> {
        let is_it = |entry: &Entry| {
            entry.hash == hash && self.record(entry.at).is_some_and(|record| record.key.as_str() == key)
        };
        self.table.find(Entry::spread(hash), is_it).map(|entry| entry.at)
    }

    pub(super) fn record(&self, slot: u32) -> Option<&Record<V>> {
        self.pages.get(slot as usize / PAGE)?[slot as usize % PAGE].as_ref()
    }

    pub(super) fn page(&self, at: usize) -> Option<&Arc<Page<V>>> {
        self.pages.get(at)
    }

    /// `None`: there is nothing to delete.
    pub(super) fn put(&mut self, hasher: &DefaultHashBuilder, hash: u32, write: Write<V>, stamp: u64) -> Option<Put<V>> {
        let Write { key, value, values } = write;
        let found = self.find(hash, key.as_str());
        let slot = match (found, &value) {
            (None, None) => return None,
            (found, _) => found.unwrap_or_else(|| self.vacant()),
        };
        let place = &mut Arc::make_mut(&mut self.pages[slot as usize / PAGE])[slot as usize % PAGE];
        let known = place.as_ref().map(|record| &record.newest.terms);
        let terms = match value {
            Some(_) => {
                let values = values.iter().map(|(index, value)| (*index, value.as_str()));
                let values = key.namespace().map(|namespace| (super::NAMESPACES, namespace)).into_iter().chain(values);
                self.terms.learn(hasher, known.unwrap_or(&TermIds::default()), values, slot)
            }
            None => TermIds::default(),
        };
        let next = Version { stamp, value, terms };
        let before = match place {
            Some(record) => Some(std::mem::replace(&mut record.newest, next)),
            None => {
                *place = Some(Record::new(key, next));
                let entry = Entry { hash, at: slot };
                self.table.insert_unique(Entry::spread(hash), entry, |entry| Entry::spread(entry.hash));
                None
            }
        };
        Some((slot, before))
    }

    /// Keeps a version that was superseded.
    pub(super) fn keep(&mut self, slot: u32, version: Version<V>, until: u64) {
        if let Some(record) = self.record_mut(slot) {
            record.keep(version, until);
        }
    }

    /// Forgets a version that was superseded and is not kept, and with it the record, if there is nothing else in it.
    pub(super) fn discard(&mut self, hash: u32, slot: u32, version: Version<V>) -> Option<V> {
        let Some(place) = self.pages.get_mut(slot as usize / PAGE) else { return version.value };
        let Some(record) = &place[slot as usize % PAGE] else { return version.value };
        for id in version.terms.as_slice() {
            if !record.versions().any(|version| version.terms.contains(*id)) {
                self.terms.forget(*id, slot);
            }
        }
        if record.is_spent() {
            Arc::make_mut(place)[slot as usize % PAGE] = None;
            if let Ok(entry) = self.table.find_entry(Entry::spread(hash), |entry| entry.at == slot) {
                entry.remove();
            }
            self.free.push(slot);
        }
        version.value
    }

    /// As [`discard`](Self::discard), of one that was kept.
    pub(super) fn release(&mut self, hash: u32, slot: u32, stamp: u64) -> Option<V> {
        let version = self.record_mut(slot)?.release(stamp)?;
        self.discard(hash, slot, version)
    }

    /// Adds a term to the version of that stamp, if it is the newest of the key.
    pub(super) fn add_terms(&mut self, hasher: &DefaultHashBuilder, slot: u32, stamp: u64, index: u32, values: &[String]) {
        let place = self.pages.get_mut(slot as usize / PAGE).map(|page| &mut Arc::make_mut(page)[slot as usize % PAGE]);
        let Some(Some(record)) = place else { return };
        if record.newest.stamp == stamp {
            for value in values {
                record.newest.terms.push(self.terms.learn_one(Sought::new(hasher, index, value), slot));
            }
        }
    }

    /// Takes the terms of an index from the records of a page.
    pub(super) fn forget_index(&mut self, page: usize, index: u32) {
        let Some(records) = self.pages.get_mut(page) else { return };
        for (at, place) in Arc::make_mut(records).iter_mut().enumerate() {
            let slot = (page * PAGE + at) as u32;
            for version in place.iter_mut().flat_map(Record::versions_mut) {
                let ids: Vec<u32> = version.terms.as_slice().to_vec();
                let of_index = |id: &u32| self.terms.index(*id).is_none_or(|of| of == index);
                let gone: Vec<u32> = ids.into_iter().filter(of_index).collect();
                version.terms.retain(|id| !gone.contains(&id));
                gone.into_iter().for_each(|id| self.terms.forget(id, slot));
            }
        }
    }

    /// The value of a slot, as the last write left it.
    pub(super) fn newest(&self, slot: u32) -> Option<&V> {
        self.record(slot)?.newest.value.as_ref()
    }

    fn record_mut(&mut self, slot: u32) -> Option<&mut Record<V>> {
        Arc::make_mut(self.pages.get_mut(slot as usize / PAGE)?)[slot as usize % PAGE].as_mut()
    }

    fn vacant(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            if self.slots as usize == self.pages.len() * PAGE {
                self.pages.push(Arc::new([const { None }; PAGE]));
            }
            self.slots += 1;
            self.slots - 1
        })
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.pages.iter().flat_map(|page| page.iter().flatten()).map(|record| record.versions().count()).sum()
    }
}
