//! The records of all keys.

use std::ops::{Index as At, IndexMut as AtMut};

use super::index::Index;
use super::record::Record;
use crate::chunks::Chunks;
use crate::order::Ticket;

/// The records, by ticket and by key. A ticket stands for one key until that is removed.
#[derive(Debug)]
pub(super) struct Table<K> {
    records: Chunks<Record<K>>,
    index: Index,
    /// The first of the vacant records; [`END`] if there is none.
    vacant: u64,
    len: usize,
}

const END: u64 = u64::MAX;

impl<K> Table<K> {
    pub(super) fn new() -> Self {
        Self { records: Chunks::default(), index: Index::new(), vacant: END, len: 0 }
    }

    /// Inserts a record whose key is not there.
    pub(super) fn insert(&mut self, record: Record<K>) -> Ticket {
        let hash = record.hash;
        let ticket = match self.vacant {
            END => {
                let next = u32::try_from(self.records.len());
                let ticket = Ticket(next.unwrap_or_else(|_| panic!("a queue has room for 4,294,967,296 keys")));
                self.records.push(record);
                ticket
            }
            vacant => {
                let ticket = Ticket(vacant as u32);
                self.vacant = self[ticket].place;
                self[ticket] = record;
                ticket
            }
        };
        self.len += 1;
        self.index.insert(hash, ticket);
        ticket
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<K> {
        self.index.remove(self[ticket].hash, ticket);
        self.len -= 1;
        let vacant = std::mem::replace(&mut self.vacant, u64::from(ticket.0));
        let record = &mut self[ticket];
        record.place = vacant;
        record.failures = 0;
        record.key.take()
    }

    /// Takes the room of a burst that is over.
    pub(super) fn take_burst(&mut self) -> Option<Self> {
        (self.len == 0 && self.records.is_large()).then(|| std::mem::replace(self, Self::new()))
    }

    /// One more than the highest ticket.
    pub(super) fn bound(&self) -> usize {
        self.records.len()
    }
}

impl<K: Eq> Table<K> {
    #[inline]
    pub(super) fn find(&self, hash: u32, key: &K) -> Option<Ticket> {
        self.index.find(hash, |ticket| self[ticket].key.as_ref() == Some(key))
    }
}

impl<K> At<Ticket> for Table<K> {
    type Output = Record<K>;

    fn index(&self, ticket: Ticket) -> &Record<K> {
        &self.records[ticket.index()]
    }
}

impl<K> AtMut<Ticket> for Table<K> {
    fn index_mut(&mut self, ticket: Ticket) -> &mut Record<K> {
        &mut self.records[ticket.index()]
    }
}
