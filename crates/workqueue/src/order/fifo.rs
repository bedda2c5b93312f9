//! First in, first out.

use std::collections::VecDeque;

use super::{Order, Queued, Ticket};

/// First in, first out: the default. Priorities are ignored.
#[derive(Debug, Default)]
pub struct Fifo {
    /// In pieces, so that none is ever moved, and each goes as soon as it is used up. All but the last are full, or empty if all that was
    /// in them has been removed.
    chunks: VecDeque<Vec<Ticket>>,
    /// How many places have been used up with their chunks.
    gone: u64,
    /// The place of the next pop.
    next: u64,
    len: usize,
    /// The last chunk that was used up, for the next one: a queue that goes up and down allocates nothing.
    spare: Vec<Ticket>,
}

/// Stands where a ticket has been taken out.
const NONE: Ticket = Ticket(u32::MAX);
const CHUNK: usize = 1024;
const KEEP: usize = 64;

impl Fifo {
    fn take(&mut self, place: u64) -> Option<Ticket> {
        let offset = (place - self.gone) as usize;
        let at = self.chunks.get_mut(offset / CHUNK)?.get_mut(offset % CHUNK)?;
        Some(std::mem::replace(at, NONE)).filter(|ticket| *ticket != NONE)
    }
}

impl<K> Order<K> for Fifo {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        if self.chunks.back().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push_back(std::mem::take(&mut self.spare));
        }
        let before = self.chunks.len() - 1;
        let last = &mut self.chunks[before];
        let place = self.gone + (before * CHUNK + last.len()) as u64;
        last.push(key.ticket);
        self.len += 1;
        place
    }

    fn pop(&mut self) -> Option<Ticket> {
        while self.len > 0 {
            let ticket = self.take(self.next);
            self.next = if self.chunks.front()?.is_empty() { self.gone + CHUNK as u64 } else { self.next + 1 };
            if self.next - self.gone == CHUNK as u64 {
                self.gone = self.next;
                let mut used = self.chunks.pop_front()?;
                used.clear();
                self.spare = used;
                if self.chunks.capacity() > KEEP && self.chunks.len() < self.chunks.capacity() / 4 {
                    self.chunks.shrink_to(self.chunks.capacity() / 2);
                }
            }
            if ticket.is_some() {
                self.len -= 1;
                return ticket;
            }
        }
        None
    }

    fn remove(&mut self, _key: Queued<'_, K>, place: u64) {
        if self.take(place).is_none() {
            return;
        }
        self.len -= 1;
        let (at, last) = ((place - self.gone) as usize / CHUNK, self.chunks.len() - 1);
        let chunk = &mut self.chunks[at];
        // What is added and removed again and again takes no room, and no pop goes past all of it.
        if chunk.iter().all(|ticket| *ticket == NONE) {
            match at == last {
                true => chunk.clear(),
                false => *chunk = Vec::new(),
            }
            if at == 0 {
                self.next = self.gone;
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }
}
