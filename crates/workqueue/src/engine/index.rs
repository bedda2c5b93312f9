//! A map from key hashes to tickets.

use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::order::Ticket;

/// A hash table in segments of limited size. The table grows by linear hashing: if the load is too high, a single
/// segment is split. An insertion therefore moves entries of at most one segment.
#[derive(Debug)]
pub(super) struct Index {
    /// The segments of the table. The low bits of every hash in segment `i` equal `i`. The number of low bits that
    /// select a segment grows with the number of segments.
    segments: Chunks<HashTable<Entry>>,
    count: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    ticket: Ticket,
}

/// The average number of entries per segment above which the table splits a segment. A segment has about `2 * LOAD`
/// entries before it is split.
const LOAD: usize = 384;

impl Index {
    pub(super) fn new() -> Self {
        let mut segments = Chunks::default();
        segments.push(HashTable::new());
        Self { segments, count: 1, len: 0 }
    }

    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(Ticket) -> bool) -> Option<Ticket> {
        let segment = &self.segments[self.segment(hash)];
        segment.find(spread(hash), |entry| entry.hash == hash && is_it(entry.ticket)).map(|entry| entry.ticket)
    }

    pub(super) fn insert(&mut self, hash: u32, ticket: Ticket) {
        if self.len >= self.count * LOAD {
            self.split();
        }
        self.len += 1;
        let segment = self.segment(hash);
        insert(&mut self.segments[segment], Entry { hash, ticket });
    }

    pub(super) fn remove(&mut self, hash: u32, ticket: Ticket) {
        let segment = self.segment(hash);
        if let Ok(entry) = self.segments[segment].find_entry(spread(hash), |entry| entry.ticket == ticket) {
            entry.remove();
            self.len -= 1;
        }
    }

    #[inline]
    fn segment(&self, hash: u32) -> usize {
        let mask = self.count.next_power_of_two() - 1;
        let at = hash as usize & mask;
        if at < self.count { at } else { at & (mask >> 1) }
    }

    #[cold]
    fn split(&mut self) {
        let new = self.count;
        self.count += 1;
        let old = new - (1 << new.ilog2());
        self.segments.push(HashTable::new());
        let entries = std::mem::take(&mut self.segments[old]);
        for segment in [old, new] {
            self.segments[segment].reserve(entries.len() * 9 / 16, |entry| spread(entry.hash));
        }
        for entry in entries {
            let segment = self.segment(entry.hash);
            insert(&mut self.segments[segment], entry);
        }
    }
}

fn insert(segment: &mut HashTable<Entry>, entry: Entry) {
    segment.insert_unique(spread(entry.hash), entry, |entry| spread(entry.hash));
}

/// Mixes the bits of a hash, so that the hashes of a segment differ in their lowest and highest bits. Without mixing,
/// all hashes in a segment have the same low bits, which the segment's hash table uses.
fn spread(hash: u32) -> u64 {
    let product = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::order::tests::{config, dice};

    impl Index {
        pub(in crate::engine) fn len(&self) -> usize {
            self.len
        }
    }

    /// Returns a hash for `key`. With `style` 0, the hashes are well distributed, and with `style` 3, many hashes are
    /// equal.
    pub(in crate::engine) fn hash(key: u32, style: u8) -> u32 {
        match style {
            0 => key.wrapping_mul(0x9e37_79b9).rotate_left(13),
            1 => key,
            2 => key << 16,
            _ => key / 8 % 1024,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..config() })]

        #[test]
        fn inserted_records_are_found_until_removed(mut seed in any::<u64>(), style in 0..4u8) {
            let (mut index, mut expected) = (Index::new(), HashMap::<u32, Ticket>::new());
            let keys = 500 + dice(&mut seed, 20_000);
            let mut inserts = 0;
            for step in 0..40_000 {
                let removes = if step / 10_000 == 2 { 3 } else { 1 };
                let key = dice(&mut seed, keys) as u32;
                let found = index.find(hash(key, style), |ticket| expected.get(&key) == Some(&ticket));
                prop_assert_eq!(found, expected.get(&key).copied());
                match found {
                    None => {
                        index.insert(hash(key, style), Ticket(inserts));
                        expected.insert(key, Ticket(inserts));
                        inserts += 1;
                    }
                    Some(ticket) if dice(&mut seed, 4) < removes => {
                        index.remove(hash(key, style), ticket);
                        expected.remove(&key);
                    }
                    Some(_) => {}
                }
            }
            prop_assert_eq!(index.len, expected.len());
            for (key, ticket) in &expected {
                prop_assert_eq!(index.find(hash(*key, style), |found| found == *ticket), Some(*ticket));
            }
            // With a good hash function, all segments stay small, so no insertion moves many entries.
            if style == 0 {
                let largest = (0..index.count).map(|segment| index.segments[segment].len()).max();
                prop_assert!(largest <= Some(3 * LOAD), "{:?} of {}", largest, index.len);
            }
        }
    }
}
