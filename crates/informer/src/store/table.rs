//! A hash table that grows in steps.

use hashbrown::HashTable;

/// A hash table of values that are elsewhere. It is in parts, of which one grows at a time: else a growth would hold the lock of a shard
/// for as long as it takes to find a new place for all that is in it.
pub(super) struct Table {
    parts: [HashTable<Entry>; PARTS],
}

const PARTS: usize = 16;

/// Half the hash saves most looks at the values, and is enough for tables that are this large.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    at: u32,
}

impl Table {
    /// Where the value is that has that hash and is the one.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.parts[part(hash)].find(spread(hash), |entry| entry.hash == hash && is_it(entry.at));
        found.map(|entry| entry.at)
    }

    /// Adds a value that is not there.
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

/// A table takes its place from the lower bits, and what it compares from the uppermost.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// From bits between these.
fn part(hash: u32) -> usize {
    (hash >> 20) as usize % PARTS
}
