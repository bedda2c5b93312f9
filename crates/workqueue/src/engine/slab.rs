use std::ops::{Index, IndexMut};

use crate::order::Ticket;

/// Records by ticket, in chunks: growth moves nothing, and a chunk that falls empty is given back.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// No chunk before this one has a free slot.
    first_free: usize,
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Empty while the chunk is given back, else [`CHUNK`] long.
    slots: Vec<Slot<T>>,
    free: u32,
    used: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Free { next: u32 },
    Used(T),
}

const CHUNK_BITS: u32 = 9;
const CHUNK: usize = 1 << CHUNK_BITS;
const NONE: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), first_free: 0, len: 0 }
    }

    /// One past the highest ticket there ever was since the slab was last empty.
    pub(super) fn bound(&self) -> u32 {
        (self.chunks.len() << CHUNK_BITS) as u32
    }

    /// # Panics
    ///
    /// With 2^32 records.
    pub(super) fn insert(&mut self, value: T) -> Ticket {
        while self.chunks.get(self.first_free).is_some_and(Chunk::is_full) {
            self.first_free += 1;
        }
        if self.first_free == self.chunks.len() {
            assert!(self.first_free < (u32::MAX >> CHUNK_BITS) as usize, "too many keys");
            self.chunks.push(Chunk { slots: Vec::new(), free: NONE, used: 0 });
        }
        self.len += 1;
        let slot = self.chunks[self.first_free].insert(value);
        Ticket(((self.first_free as u32) << CHUNK_BITS) | slot)
    }

    /// Drops a record where it is: what has just been written to it need not be read back.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let at = (ticket.0 >> CHUNK_BITS) as usize;
        let chunk = &mut self.chunks[at];
        chunk.remove(ticket.0 & (CHUNK as u32 - 1));
        self.len -= 1;
        if at < self.first_free {
            self.first_free = at;
        }
        if chunk.used == 0 && self.chunks.len() > 1 {
            self.give_back(at);
        }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&T> {
        let chunk = self.chunks.get((ticket.0 >> CHUNK_BITS) as usize)?;
        match chunk.slots.get((ticket.0 & (CHUNK as u32 - 1)) as usize)? {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        (0..self.bound()).map(Ticket).filter_map(|ticket| Some((ticket, self.get(ticket)?)))
    }

    /// Frees an empty chunk, but keeps the first: a queue that goes up and down around zero allocates nothing.
    #[cold]
    fn give_back(&mut self, at: usize) {
        if at > 0 {
            self.chunks[at] = Chunk { slots: Vec::new(), free: NONE, used: 0 };
        }
        if self.len == 0 {
            self.chunks.truncate(1);
            self.chunks.shrink_to_fit();
        }
    }
}

impl<T> Index<Ticket> for Slab<T> {
    type Output = T;

    fn index(&self, ticket: Ticket) -> &T {
        match &self.chunks[(ticket.0 >> CHUNK_BITS) as usize].slots[(ticket.0 & (CHUNK as u32 - 1)) as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => dangling(ticket),
        }
    }
}

impl<T> IndexMut<Ticket> for Slab<T> {
    fn index_mut(&mut self, ticket: Ticket) -> &mut T {
        match &mut self.chunks[(ticket.0 >> CHUNK_BITS) as usize].slots[(ticket.0 & (CHUNK as u32 - 1)) as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => dangling(ticket),
        }
    }
}

impl<T> Chunk<T> {
    fn is_full(&self) -> bool {
        self.used == CHUNK as u32
    }

    fn insert(&mut self, value: T) -> u32 {
        self.used += 1;
        if self.free == NONE {
            if self.slots.capacity() == 0 {
                self.slots.reserve_exact(CHUNK);
            }
            self.slots.push(Slot::Used(value));
            return self.slots.len() as u32 - 1;
        }
        let at = self.free;
        if let Slot::Free { next } = self.slots[at as usize] {
            self.free = next;
        }
        self.slots[at as usize] = Slot::Used(value);
        at
    }

    fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        debug_assert!(matches!(slot, Slot::Used(_)), "removed twice");
        *slot = Slot::Free { next: self.free };
        self.free = at;
        self.used -= 1;
    }
}

/// A ticket outlived its record: a bug in this crate, or in a custom [`Order`](crate::Order) that invents tickets.
#[cold]
fn dangling(ticket: Ticket) -> ! {
    panic!("ticket {} has no record", ticket.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_that_fall_empty_are_given_back() {
        let mut slab = Slab::new();
        let tickets: Vec<_> = (0..10 * CHUNK).map(|value| slab.insert(value)).collect();
        for (value, ticket) in tickets.iter().enumerate().skip(1) {
            assert_eq!(slab[*ticket], value);
            slab.remove(*ticket);
        }
        assert_eq!(slab.chunks.iter().filter(|chunk| chunk.slots.capacity() > 0).count(), 1);
        slab.remove(tickets[0]);
        assert_eq!((slab.len, slab.bound()), (0, CHUNK as u32));
    }

    #[test]
    fn free_slots_are_used_again_lowest_chunk_first() {
        let mut slab = Slab::new();
        let tickets: Vec<_> = (0..3 * CHUNK).map(|value| slab.insert(value)).collect();
        slab.remove(tickets[2 * CHUNK]);
        slab.remove(tickets[7]);
        assert_eq!(slab.insert(1), tickets[7]);
        assert_eq!(slab.insert(2), tickets[2 * CHUNK]);
        assert_eq!(slab.insert(3).0, 3 * CHUNK as u32);
    }
}
