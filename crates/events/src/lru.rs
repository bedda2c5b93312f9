//! A map of bounded size.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, (u64, V)>,
    /// The keys, ordered from least to most recently used.
    order: BTreeMap<u64, K>,
    clock: u64,
}

impl<K: Clone + Hash + Eq, V> Lru<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }

    /// Returns the value of `key`, and first inserts a new value if the map does not contain `key`.
    pub(crate) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.clock += 1;
        self.make_room(&key);
        let (used, value) = self.entries.entry(key.clone()).or_insert_with(|| (0, make()));
        self.order.remove(used);
        self.order.insert(self.clock, key);
        *used = self.clock;
        value
    }

    /// Evicts and returns a value if the map is full and does not contain `key`.
    pub(crate) fn make_room(&mut self, key: &K) -> Option<V> {
        if self.entries.contains_key(key) || self.entries.len() < self.capacity {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.entries.remove(&oldest).map(|(_, value)| value)
    }

    /// Returns the value of `key` without marking it as recently used.
    pub(crate) fn find(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.values().filter_map(|key| self.entries.get(key)).map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, wanted: impl Fn(&V) -> bool) {
        let Self { entries, order, .. } = self;
        entries.retain(|_, (used, value)| {
            let stays = wanted(value);
            if !stays {
                order.remove(used);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let mut lru = Lru::new(2);
        *lru.entry("a", || 0) = 1;
        *lru.entry("b", || 0) = 2;
        assert_eq!(*lru.entry("a", || 0), 1);
        *lru.entry("c", || 0) = 3;
        assert_eq!(*lru.entry("a", || 0), 1);
        assert_eq!(*lru.entry("b", || 0), 0, "b was evicted");
        assert_eq!(lru.entries.len(), 2);
        assert_eq!(lru.order.len(), 2);
        *lru.find(&"a").unwrap() = 3;
        assert_eq!(lru.values().collect::<Vec<_>>(), [&3, &0], "least recently used first");
        lru.retain(|value| *value == 0);
        assert_eq!((lru.entries.len(), lru.order.len(), lru.find(&"a")), (1, 1, None));
    }
}
