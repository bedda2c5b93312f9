//! Reads of a store's earlier states.

use std::sync::Arc;

use pintle_meta::ObjectKey;

use super::pages::Pages;
use super::record::{PAGE, Page};
use super::terms::TermQuery;
use super::{SECTION, Store, Value};

/// A store's state at one stamp. The store keeps the versions of this state until the pin is dropped.
pub(crate) struct Pin<V: Value> {
    store: Arc<Store<V>>,
    stamp: u64,
    len: usize,
}

pub(crate) type Difference<V> = (ObjectKey, Option<V>, Option<V>);

impl<V: Value> Pin<V> {
    pub(super) fn new(store: Arc<Store<V>>, stamp: u64, len: usize) -> Self {
        Self { store, stamp, len }
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_of_same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<V> {
        self.store.get_at(key, || self.stamp)
    }

    /// Calls `each` for every value in no particular order, without holding locks.
    pub(crate) fn visit(&self, mut each: impl FnMut(&V)) {
        let mut at = PageAt::default();
        while let Some(page) = self.page(&mut at) {
            (0..PAGE).filter_map(|at| page.value_at(at, self.stamp)).for_each(|(_, value)| each(value));
        }
    }

    pub(crate) fn visit_keys(&self, mut each: impl FnMut(&ObjectKey, u64, &V)) {
        let mut at = PageAt::default();
        while let Some(page) = self.page(&mut at) {
            for at in 0..PAGE {
                if let Some((stamp, value)) = page.value_at(at, self.stamp)
                    && let Some(key) = page.key(at)
                {
                    each(key, stamp, value);
                }
            }
        }
    }

    /// Calls `take` for each object that has `value` in the index, and returns the results in no particular order.
    /// `take` runs under a lock. `take` should use the key only if needed, because keys are stored separately and
    /// reading them costs another memory access.
    pub(crate) fn of_term<R>(
        &self,
        index: u32,
        value: &str,
        take: impl Fn(Option<&ObjectKey>, &V) -> Option<R>,
    ) -> Vec<R> {
        let sought = TermQuery::new(&self.store.hasher, index, value);
        let mut found = Vec::new();
        for shard in &self.store.shards {
            // The slots of this shard before `from` were already read.
            let mut from = 0;
            loop {
                let shard = shard.read();
                let Some(id) = shard.terms.find(sought) else { break };
                let slots = shard.terms.slots(id);
                let rest = &slots[if from == 0 { 0 } else { slots.partition_point(|slot| *slot < from) }..];
                let section = &rest[..rest.len().min(SECTION)];
                let mut values = [None; SECTION];
                for (value, slot) in values.iter_mut().zip(section) {
                    *value = shard.value_with_term(*slot, self.stamp, id);
                }
                let visible = values.iter().flatten().filter(|value| value.warm()).count();
                found.reserve(visible);
                let seen = values.iter().zip(section);
                found.extend(seen.filter_map(|(value, slot)| take(shard.key(*slot), (*value)?)));
                match section.last() {
                    Some(last) if rest.len() > section.len() => from = last + 1,
                    _ => break,
                }
            }
        }
        found
    }

    pub(crate) fn values_of(&self, index: u32) -> Vec<String> {
        let mut values = Vec::new();
        for shard in &self.store.shards {
            // The slots before `from` were already read for the term `id`.
            let (mut id, mut from, mut is_over) = (0, 0, false);
            while !is_over {
                let shard = shard.read();
                for _ in 0..SECTION {
                    match shard.terms.next_slot(id, index, from) {
                        // The version visible to the pin in this slot does not have the term, so continue with the next
                        // slot.
                        Some(Some((_, slot))) if shard.value_with_term(slot, self.stamp, id).is_none() => {
                            from = slot + 1
                        }
                        Some(found) => {
                            values.extend(found.map(|(value, _)| value.to_owned()));
                            (id, from) = (id + 1, 0);
                        }
                        None => is_over = true,
                    }
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Returns all pages of the store. Each page contains the versions that the pin reads, even after the pin is
    /// dropped.
    pub(crate) fn pages(&self) -> Pages<V> {
        let mut pages = Vec::new();
        for shard in &self.store.shards {
            let mut from = 0;
            loop {
                let shard = shard.read();
                let rest = shard.pages_from(from);
                let section = &rest[..rest.len().min(PAGES_SECTION)];
                pages.reserve(rest.len());
                pages.extend(section.iter().cloned());
                if section.len() == rest.len() {
                    break;
                }
                from += section.len();
            }
        }
        Pages::new(pages, self.stamp, self.len)
    }

    /// Returns the keys for which the pin and the earlier pin `since` have different versions, in no particular order.
    pub(crate) fn differences(&self, since: &Self) -> Vec<Difference<V>> {
        let mut differences = Vec::new();
        let mut at = PageAt::default();
        while let Some(page) = self.page(&mut at) {
            for at in 0..PAGE {
                if page.stamp_at(at, self.stamp) == page.stamp_at(at, since.stamp) {
                    continue;
                }
                let value = |pin: &Self| page.value_at(at, pin.stamp).map(|(_, value)| value.clone());
                let (old, new) = (value(since), value(self));
                if let Some(key) = page.key(at)
                    && (old.is_some() || new.is_some())
                {
                    differences.push((key.clone(), old, new));
                }
            }
        }
        differences
    }

    fn page(&self, at: &mut PageAt) -> Option<Arc<Page<V>>> {
        while let Some(shard) = self.store.shards.get(at.shard) {
            if let Some(page) = shard.read().page(at.page) {
                at.page += 1;
                return Some(page.clone());
            }
            *at = PageAt { shard: at.shard + 1, page: 0 };
        }
        None
    }
}

/// The number of pages that are cloned while a shard is locked. Cloning `PAGES_SECTION` pages takes a few microseconds.
const PAGES_SECTION: usize = 256;

#[derive(Default)]
struct PageAt {
    shard: usize,
    page: usize,
}

pub(crate) struct Reading<V: Value, R> {
    pub(crate) pin: Pin<V>,
    at: PageAt,
    page: std::vec::IntoIter<R>,
    /// Pages that the iterator has already read and must drop without holding locks. If a writer has copied a page
    /// since, the old page may contain the last references to its values.
    spent: Vec<Arc<Page<V>>>,
}

impl<V: Value, R> Reading<V, R> {
    pub(crate) fn new(pin: Pin<V>) -> Self {
        Self { pin, at: PageAt::default(), page: Vec::new().into_iter(), spent: Vec::new() }
    }

    /// Removes and returns the pages that were read since the last call. The caller must drop the pages without holding
    /// locks.
    pub(crate) fn take_read_pages(&mut self) -> Vec<Arc<Page<V>>> {
        std::mem::take(&mut self.spent)
    }

    /// Returns the next result of calling `take` on each value, in no particular order. `take` should use the key only
    /// if needed, because keys are stored separately and reading them costs another memory access.
    pub(crate) fn next(&mut self, take: impl Fn(Option<&ObjectKey>, &V) -> Option<R>) -> Option<R> {
        loop {
            if let Some(taken) = self.page.next() {
                return Some(taken);
            }
            let page = self.pin.page(&mut self.at)?;
            let value = |at: usize| Some((page.key(at), page.value_at(at, self.pin.stamp)?.1));
            let taken: Vec<R> = (0..PAGE).filter_map(value).filter_map(|(key, value)| take(key, value)).collect();
            self.page = taken.into_iter();
            self.spent.push(page);
        }
    }
}

impl<V: Value> Clone for Pin<V> {
    fn clone(&self) -> Self {
        self.store.now.lock().pin(self.stamp);
        Self { store: self.store.clone(), ..*self }
    }
}

impl<V: Value> Drop for Pin<V> {
    fn drop(&mut self) {
        let kept = self.store.now.lock().unpin(self.stamp);
        self.store.settle(kept.concat());
    }
}
