//! A map of bounded size.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map that forgets what was not used for longest when it is full.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, (u64, V)>,
    /// The keys by when they were used last.
    order: BTreeMap<u64, K>,
    clock: u64,
}

impl<K: Clone + Hash + Eq, V> Lru<K, V> {
    /// At least one entry is always kept.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }

    /// The value of `key`, made if there is none.
    pub(crate) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.clock += 1;
        if !self.entries.contains_key(&key)
            && self.entries.len() == self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        let (used, value) = self.entries.entry(key.clone()).or_insert_with(|| (0, make()));
        self.order.remove(used);
        self.order.insert(self.clock, key);
        *used = self.clock;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let mut lru = Lru::new(2);
        *lru.entry("a", || 0) = 1;
        *lru.entry("b", || 0) = 2;
        assert_eq!(*lru.entry("a", || 0), 1);
        *lru.entry("c", || 0) = 3;
        assert_eq!(*lru.entry("a", || 0), 1);
        assert_eq!(*lru.entry("b", || 0), 0, "b had to go");
        assert_eq!(lru.entries.len(), 2);
        assert_eq!(lru.order.len(), 2);
    }
}
