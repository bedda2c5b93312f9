//! A hash table in parts that grow separately.

use hashbrown::HashTable;

/// Maps hashes to positions. The table has several parts, and an operation grows at most one of them. If the whole
/// table grew at once, the shard would stay locked until all entries are moved.
pub(super) struct Table {
    parts: [HashTable<Entry>; PARTS],
}

const PARTS: usize = 16;

/// A position, and half of the hash of its key. Comparing these halves avoids most key comparisons. Half of the hash is
/// sufficient for tables of this size.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    at: u32,
}

impl Table {
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.parts[part(hash)].find(spread(hash), |entry| entry.hash == hash && is_it(entry.at));
        found.map(|entry| entry.at)
    }

    /// Adds an entry. The table must not contain the position yet.
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

/// Returns a 64-bit hash for hashbrown, which uses the low bits for the bucket and the highest bits for its tags.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Returns the part that a hash belongs to. This function uses other bits than hashbrown uses for its buckets and tags.
fn part(hash: u32) -> usize {
    (hash >> 20) as usize % PARTS
}
