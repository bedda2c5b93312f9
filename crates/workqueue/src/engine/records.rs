//! Where the records are kept.

use std::ops::{Index, IndexMut};

use super::record::Record;
use crate::order::Ticket;

/// Records by ticket, in chunks: growth moves nothing, and a chunk that falls empty is given back.
#[derive(Debug)]
pub(super) struct Records<K> {
    chunks: Vec<Chunk<K>>,
    /// No chunk before this one has a vacancy.
    first_free: usize,
    len: usize,
}

#[derive(Debug)]
struct Chunk<K> {
    /// `None` while the chunk is given back.
    records: Option<Box<[Record<K>; CHUNK]>>,
    /// The first vacant record, if there is one. Each knows the next.
    free: u32,
    used: u32,
}

const CHUNK_BITS: u32 = 9;
const CHUNK: usize = 1 << CHUNK_BITS;
/// How many chunks are never given back: a queue that goes up and down around zero allocates nothing.
const KEEP: usize = 4;

impl<K> Records<K> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), first_free: 0, len: 0 }
    }

    /// How many are not vacant.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether emptying it would give anything back.
    pub(super) fn has_more_than_it_keeps(&self) -> bool {
        self.chunks.len() > KEEP
    }

    /// One past the highest ticket there ever was since there were none.
    pub(super) fn bound(&self) -> u32 {
        (self.chunks.len() << CHUNK_BITS) as u32
    }

    /// # Panics
    ///
    /// With 2^32 records.
    #[inline]
    pub(super) fn insert(&mut self, record: Record<K>) -> Ticket {
        while self.chunks.get(self.first_free).is_some_and(Chunk::is_full) {
            self.first_free += 1;
        }
        if self.first_free == self.chunks.len() {
            assert!(self.first_free < (u32::MAX >> CHUNK_BITS) as usize, "too many keys");
            self.chunks.push(Chunk { records: None, free: 0, used: 0 });
        }
        self.len += 1;
        let at = self.chunks[self.first_free].insert(record);
        Ticket(((self.first_free as u32) << CHUNK_BITS) | at)
    }

    /// Makes a record vacant that has no key any more.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let at = (ticket.0 >> CHUNK_BITS) as usize;
        let chunk = &mut self.chunks[at];
        chunk.remove(ticket.0 & (CHUNK as u32 - 1));
        self.len -= 1;
        self.first_free = self.first_free.min(at);
        if chunk.used == 0 && self.chunks.len() > KEEP {
            self.give_back(at);
        }
    }

    /// The record, also if it is vacant, unless its chunk is given back.
    #[inline]
    pub(super) fn get(&self, ticket: Ticket) -> Option<&Record<K>> {
        let records = self.chunks.get((ticket.0 >> CHUNK_BITS) as usize)?.records.as_ref()?;
        Some(&records[ticket.0 as usize % CHUNK])
    }

    /// Those with a key.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Record<K>> {
        self.chunks.iter().filter_map(|chunk| chunk.records.as_deref()).flatten().filter(|record| record.key.is_some())
    }

    #[cold]
    fn give_back(&mut self, at: usize) {
        if at >= KEEP {
            self.chunks[at] = Chunk { records: None, free: 0, used: 0 };
        }
        if self.len == 0 {
            // Not shrunk, which would leave it where it is, perhaps at the end of a heap that could shrink.
            self.chunks = self.chunks.drain(..KEEP).collect();
        }
    }
}

impl<K> Index<Ticket> for Records<K> {
    type Output = Record<K>;

    #[inline]
    fn index(&self, ticket: Ticket) -> &Record<K> {
        match &self.chunks[(ticket.0 >> CHUNK_BITS) as usize].records {
            Some(records) => &records[ticket.0 as usize % CHUNK],
            None => dangling(ticket),
        }
    }
}

impl<K> IndexMut<Ticket> for Records<K> {
    #[inline]
    fn index_mut(&mut self, ticket: Ticket) -> &mut Record<K> {
        match &mut self.chunks[(ticket.0 >> CHUNK_BITS) as usize].records {
            Some(records) => &mut records[ticket.0 as usize % CHUNK],
            None => dangling(ticket),
        }
    }
}

impl<K> Chunk<K> {
    fn is_full(&self) -> bool {
        self.used == CHUNK as u32
    }

    #[inline]
    fn insert(&mut self, record: Record<K>) -> u32 {
        let at = self.free;
        let vacant = &mut self.records.get_or_insert_with(allocate)[at as usize % CHUNK];
        self.free = vacant.next_vacant();
        self.used += 1;
        *vacant = record;
        at
    }

    fn remove(&mut self, at: u32) {
        if let Some(records) = &mut self.records {
            debug_assert!(records[at as usize].key.is_none(), "removed while in use");
            records[at as usize] = Record::vacant(self.free);
            self.free = at;
            self.used -= 1;
        }
    }
}

#[cold]
fn allocate<K>() -> Box<[Record<K>; CHUNK]> {
    let records: Box<[Record<K>]> = (1..=CHUNK as u32).map(Record::vacant).collect();
    records.try_into().unwrap_or_else(|_| unreachable!("they have just been counted"))
}

/// A ticket outlived its record: a bug in this crate, or in a custom [`Order`](crate::Order) that invents tickets.
#[cold]
fn dangling(ticket: Ticket) -> ! {
    panic!("ticket {} has no record", ticket.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(records: &mut Records<usize>, ticket: Ticket) {
        records[ticket].key = None;
        records.remove(ticket);
    }

    #[test]
    fn chunks_that_fall_empty_are_given_back() {
        let mut records = Records::new();
        let tickets: Vec<_> = (0..10 * CHUNK).map(|key| records.insert(Record::new(key))).collect();
        for (key, ticket) in tickets.iter().enumerate().skip(1) {
            assert_eq!(records[*ticket].key(), &key);
            remove(&mut records, *ticket);
        }
        assert_eq!(records.chunks.iter().filter(|chunk| chunk.records.is_some()).count(), KEEP);
        assert_eq!(records.iter().count(), 1);
        remove(&mut records, tickets[0]);
        assert_eq!((records.len, records.bound()), (0, (KEEP * CHUNK) as u32));
    }

    #[test]
    fn vacancies_are_used_again_lowest_chunk_first() {
        let mut records = Records::new();
        let tickets: Vec<_> = (0..3 * CHUNK).map(|key| records.insert(Record::new(key))).collect();
        remove(&mut records, tickets[2 * CHUNK]);
        remove(&mut records, tickets[7]);
        assert_eq!(records.insert(Record::new(1)), tickets[7]);
        assert_eq!(records.insert(Record::new(2)), tickets[2 * CHUNK]);
        assert_eq!(records.insert(Record::new(3)).0, 3 * CHUNK as u32);
    }
}
