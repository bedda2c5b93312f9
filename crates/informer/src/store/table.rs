//! A hash table that grows in steps.

use hashbrown::HashTable;

/// A hash table of positions. It consists of parts that grow one at a time. Otherwise growing would hold the lock of a
/// shard until all entries are moved.
pub(super) struct Table {
    parts: [HashTable<Entry>; PARTS],
}

const PARTS: usize = 16;

/// Half of the hash avoids most comparisons of values, and is enough for tables of this size.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    at: u32,
}

impl Table {
    /// Returns the position of the entry with this hash that `is_it` accepts.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.parts[part(hash)].find(spread(hash), |entry| entry.hash == hash && is_it(entry.at));
        found.map(|entry| entry.at)
    }

    /// Adds an entry that does not exist yet.
    pub(super) fn insert(&mut self, hash: u32, at: u32) {
        self.parts[part(hash)].insert_unique(spread(hash), Entry { hash, at }, |entry| spread(entry.hash));
    }

    pub(super) fn remove(&mut self, hash: u32, at: u32) {
        if let Ok(entry) = self.parts[part(hash)].find_entry(spread(hash), |entry| entry.at == at) {
            entry.remove();
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| HashTable::new()) }
    }
}

/// hashbrown uses the low bits for the bucket and the highest bits for its tags.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Uses bits between these.
fn part(hash: u32) -> usize {
    (hash >> 20) as usize % PARTS
}
