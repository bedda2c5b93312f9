//! A read-only view of a store's values at one stamp (commit number). The view does not make the store keep superseded
//! versions.

use std::sync::Arc;

use super::record::{PAGE, Page};

/// The store's values at one stamp. A `Pages` shares the pages of the store, so creating it copies no values. Unlike a
/// [`Pin`](super::Pin), a `Pages` does not make the store keep superseded versions. Instead, a write to a shared page
/// first copies the page.
pub(crate) struct Pages<V> {
    pages: Vec<Arc<Page<V>>>,
    stamp: u64,
    len: usize,
}

impl<V> Pages<V> {
    pub(super) fn new(pages: Vec<Arc<Page<V>>>, stamp: u64, len: usize) -> Self {
        Self { pages, stamp, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn next(&self, slot: &mut usize) -> Option<&V> {
        loop {
            let page = self.pages.get(*slot / PAGE)?;
            let value = page.value_at(*slot % PAGE, self.stamp);
            *slot += 1;
            if let Some((_, value)) = value {
                return Some(value);
            }
        }
    }

    pub(crate) fn at(&self, slot: usize) -> Option<&V> {
        self.pages.get(slot / PAGE)?.value_at(slot % PAGE, self.stamp).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(super) fn each_version(&self, mut each: impl FnMut(&V)) {
        self.pages.iter().for_each(|page| page.each_version(&mut each));
    }
}
