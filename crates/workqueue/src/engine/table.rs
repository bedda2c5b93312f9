//! A table of the records of all keys.

use std::ops::{Index as At, IndexMut as AtMut};

use super::index::Index;
use super::record::{Record, State};
use crate::chunks::Chunks;
use crate::order::Ticket;

/// A table of the records of all keys, which finds a record by ticket or by key. A ticket identifies a key until the
/// key's removal.
///
/// The record of a removed key is *vacant*. A vacant record stays in the index until the table reuses it for another
/// key, because the removed key is likely to be added again.
#[derive(Debug)]
pub(super) struct Table<K> {
    records: Chunks<Record<K>>,
    index: Index,
    /// The first record in the list of vacant records, which is the record that has been vacant for the longest time.
    /// If the key of a vacant record is added again, the record is reused, but a later search removes it from the
    /// list.
    first_vacant: Option<Ticket>,
    last_vacant: Option<Ticket>,
    len: usize,
}

/// The maximum number of reused records in the list that one insertion skips.
const SEARCHED: usize = 8;

impl<K> Table<K> {
    pub(super) fn new() -> Self {
        let (records, index) = (Chunks::default(), Index::new());
        Self { records, index, first_vacant: None, last_vacant: None, len: 0 }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<K> {
        self.len -= 1;
        let record = &mut self[ticket];
        record.failures = 0;
        let key = record.key.take();
        if !record.state.has(State::LISTED) {
            record.state.set(State::LISTED);
            match self.last_vacant.replace(ticket) {
                None => self.first_vacant = Some(ticket),
                Some(last) => self[last].next_vacant = ticket,
            }
        }
        key
    }

    /// If this table is large and contains no keys, replaces it with a new table and returns the large table. The
    /// caller must drop the returned table outside the lock.
    pub(super) fn take_burst(&mut self) -> Option<Self> {
        (self.len == 0 && self.records.is_large()).then(|| std::mem::replace(self, Self::new()))
    }

    pub(super) fn bound(&self) -> usize {
        self.records.len()
    }

    /// Creates a record for a key that has no record, not even a vacant record.
    #[cold]
    fn insert(&mut self, hash: u32, key: Option<K>) -> Ticket {
        let ticket = match self.take_vacant() {
            Some(ticket) => {
                self.index.remove(self[ticket].hash, ticket);
                self[ticket] = Record::new(hash, key);
                ticket
            }
            None => {
                let next = u32::try_from(self.records.len());
                let ticket = Ticket(
                    next.unwrap_or_else(|_| panic!("the queue is full: it can have at most 4,294,967,296 keys")),
                );
                self.records.push(Record::new(hash, key));
                ticket
            }
        };
        self.index.insert(hash, ticket);
        ticket
    }

    fn take_vacant(&mut self) -> Option<Ticket> {
        for _ in 0..SEARCHED {
            let ticket = self.first_vacant?;
            let is_last = self.last_vacant == Some(ticket);
            let record = &mut self[ticket];
            record.state.clear(State::LISTED);
            let (next, is_vacant) = (record.next_vacant, record.key.is_none());
            self.first_vacant = (!is_last).then_some(next);
            if is_last {
                self.last_vacant = None;
            }
            if is_vacant {
                return Some(ticket);
            }
        }
        None
    }
}

impl<K: Eq> Table<K> {
    #[inline]
    pub(super) fn find(&self, hash: u32, key: &K) -> Option<Ticket> {
        self.index.find(hash, |ticket| self[ticket].key.as_ref() == Some(key))
    }

    #[inline]
    pub(super) fn entry(&mut self, hash: u32, key: &mut Option<K>) -> Ticket {
        let mut vacant = None;
        let found = self.index.find(hash, |ticket| match &self[ticket].key {
            Some(there) => key.as_ref() == Some(there),
            None => {
                vacant = Some(ticket);
                false
            }
        });
        if let Some(ticket) = found {
            return ticket;
        }
        self.len += 1;
        match vacant {
            Some(ticket) => {
                self[ticket].key = key.take();
                ticket
            }
            None => self.insert(hash, key.take()),
        }
    }
}

impl<K> At<Ticket> for Table<K> {
    type Output = Record<K>;

    #[inline]
    fn index(&self, ticket: Ticket) -> &Record<K> {
        &self.records[ticket.index()]
    }
}

impl<K> AtMut<Ticket> for Table<K> {
    #[inline]
    fn index_mut(&mut self, ticket: Ticket) -> &mut Record<K> {
        &mut self.records[ticket.index()]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::index::tests::hash;
    use super::*;
    use crate::order::tests::{config, dice};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..config() })]

        #[test]
        fn ticket_identifies_its_key_until_removed(mut seed in any::<u64>(), style in 0..4u8) {
            let (mut table, mut expected) = (Table::new(), HashMap::<u32, Ticket>::new());
            let keys = 10 + dice(&mut seed, 10_000);
            for step in 0..40_000 {
                let removes = 1 + step / 5000 % 3;
                let key = dice(&mut seed, keys) as u32;
                prop_assert_eq!(table.find(hash(key, style), &key), expected.get(&key).copied());
                if dice(&mut seed, 4) < removes {
                    if let Some(ticket) = expected.remove(&key) {
                        prop_assert_eq!(table.remove(ticket), Some(key));
                    }
                } else {
                    let mut unused = Some(key);
                    let ticket = table.entry(hash(key, style), &mut unused);
                    let known = expected.insert(key, ticket);
                    prop_assert_eq!(unused, known.map(|_| key));
                    prop_assert!(known.is_none_or(|known| known == ticket));
                    prop_assert!(known.is_some() || table[ticket].state.is_idle() && table[ticket].failures == 0);
                }
                prop_assert_eq!(table.len, expected.len());
                if let Some(burst) = table.take_burst() {
                    prop_assert!(expected.is_empty() && burst.bound() > 0);
                }
            }
            let there = (0..table.bound()).filter_map(|ticket| table[Ticket(ticket as u32)].key);
            let mut there: Vec<u32> = there.collect();
            there.sort_unstable();
            let mut all: Vec<u32> = expected.keys().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(there, all, "each key has one record");
            for (key, ticket) in &expected {
                prop_assert_eq!(table[*ticket].key, Some(*key));
            }
            prop_assert_eq!(table.index.len(), table.bound(), "the index has each record once, vacant or not");
        }

        #[test]
        fn records_of_removed_keys_are_reused(mut seed in any::<u64>(), style in 0..2u8) {
            let (mut table, mut there) = (Table::new(), Vec::new());
            for key in 0..10_000 {
                there.push(table.entry(hash(key, style), &mut Some(key)));
                if there.len() > 100 {
                    let gone = dice(&mut seed, 100) as usize;
                    prop_assert!(table.remove(there.swap_remove(gone)).is_some());
                }
            }
            prop_assert!(table.bound() <= 110, "{} records for {} keys", table.bound(), there.len());
            prop_assert_eq!(table.index.len(), table.bound());
            let last = there[there.len() - 1];
            let (hash, mut key) = (table[last].hash, table.remove(last));
            prop_assert_eq!(table.entry(hash, &mut key), last, "the vacant record is found by its key");
        }
    }
}
