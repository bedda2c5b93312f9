//! A hash table that is split into parts.

use hashbrown::HashTable;

/// Maps hashes to positions. Each operation grows at most one part of the table. In a table without parts, growing
/// would keep the shard locked until all entries have been moved.
pub(super) struct Table {
    parts: [HashTable<Entry>; PARTS],
}

const PARTS: usize = 16;

/// A position, and half of the hash of its key. Comparing the hashes avoids most comparisons of keys. Half of the hash
/// is enough, because the tables are not very large.
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

/// Returns a 64-bit hash for hashbrown, which uses the lowest bits for the bucket and the highest bits for its tags.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Returns the part of the table for a hash. Bits that hashbrown does not use for buckets and tags determine the part.
fn part(hash: u32) -> usize {
    (hash >> 20) as usize % PARTS
}
