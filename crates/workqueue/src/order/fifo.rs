//! First-in, first-out order.

use std::collections::VecDeque;

use super::{Order, Queued, Ticket};

/// The default [`Order`]: first in, first out. The FIFO order ignores priorities.
#[derive(Debug, Default)]
pub struct Fifo {
    /// The tickets of the queued keys, in chunks that are never moved. A chunk is freed when all of its tickets have
    /// been popped or removed. Only the last chunk may be incomplete. A freed chunk between other chunks stays in the
    /// list without memory.
    chunks: VecDeque<Vec<Ticket>>,
    /// The number of places in chunks that were freed and removed from the list.
    gone: u64,
    /// The position of the next ticket to pop.
    next: u64,
    len: usize,
    /// The memory of the last freed chunk, which the next chunk reuses. A queue of stable size therefore does not
    /// allocate.
    spare: Vec<Ticket>,
}

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
        // Free a chunk when all of its tickets have been removed: repeated adds and removals then need no more memory,
        // and `pop` skips few removed tickets.
        if chunk.iter().all(|ticket| *ticket == NONE) {
            if at == last {
                chunk.clear()
            } else {
                *chunk = Vec::new()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{Naive, compare, config};
    use super::*;

    impl Naive for Vec<Ticket> {
        fn push(&mut self, ticket: Ticket, _key: u32, _priority: i32, _now: u64) {
            Vec::push(self, ticket);
        }

        fn pop(&mut self) -> Option<Ticket> {
            (!self.is_empty()).then(|| Vec::remove(self, 0))
        }

        fn remove(&mut self, ticket: Ticket) {
            self.retain(|queued| *queued != ticket);
        }

        fn touch(&mut self, _ticket: Ticket, _priority: i32) {}
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn fifo_matches_a_plain_list(seed in any::<u64>()) {
            compare(Fifo::default(), Vec::new(), seed);
        }
    }

    #[test]
    fn removed_keys_use_no_memory_before_a_remaining_key() {
        let (mut fifo, key) = (Fifo::default(), 0u32);
        let queued = |ticket| Queued { ticket: Ticket(ticket), key: &key, priority: 0, now: 0 };
        fifo.push(queued(0));
        let mut last = fifo.push(queued(1));
        for ticket in 2..100 * CHUNK as u32 {
            let place = fifo.push(queued(ticket));
            fifo.remove(queued(ticket - 1), last);
            last = place;
        }
        assert_eq!(fifo.chunks.iter().filter(|chunk| !chunk.is_empty()).count(), 2);
        let pop = Order::<u32>::pop;
        assert_eq!(
            [pop(&mut fifo), pop(&mut fifo), pop(&mut fifo)],
            [Some(Ticket(0)), Some(Ticket(100 * CHUNK as u32 - 1)), None]
        );
    }
}
