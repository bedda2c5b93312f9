use hashbrown::HashTable;

use crate::order::Ticket;

/// From a key's hash to its record. The keys themselves are in the records only.
#[derive(Debug, Default)]
pub(super) struct Index {
    table: HashTable<Entry>,
}

/// The hash stands beside the ticket, so growing touches no record, and a search only those of equal hash.
#[derive(Debug)]
struct Entry {
    hash: u32,
    ticket: Ticket,
}

const KEEP: usize = 256;

impl Index {
    pub(super) fn find(&self, hash: u32, mut is_key: impl FnMut(Ticket) -> bool) -> Option<Ticket> {
        self.table.find(spread(hash), |entry| entry.hash == hash && is_key(entry.ticket)).map(|entry| entry.ticket)
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, hash: u32, ticket: Ticket) {
        self.table.insert_unique(spread(hash), Entry { hash, ticket }, |entry| spread(entry.hash));
    }

    pub(super) fn remove(&mut self, hash: u32, ticket: Ticket) {
        if let Ok(entry) = self.table.find_entry(spread(hash), |entry| entry.ticket == ticket) {
            entry.remove();
        }
        // Halving at an eighth: as many removals as the move costs have gone before.
        if self.table.capacity() > KEEP && self.table.len() < self.table.capacity() / 8 {
            self.table.shrink_to((self.table.capacity() / 4).max(KEEP / 2), |entry| spread(entry.hash));
        }
    }
}

/// hashbrown takes the bucket from the low bits and a tag from the highest seven.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
