//! A set of tickets, in a bit each.

use crate::order::Ticket;

/// A bit a ticket: for a million of them, it is in the cache of a core.
#[derive(Debug, Default)]
pub(super) struct TicketSet {
    words: Vec<u64>,
    len: usize,
}

impl TicketSet {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a ticket that is not there.
    #[inline]
    pub(super) fn insert(&mut self, ticket: Ticket) {
        let (word, bit) = place(ticket);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        debug_assert!(self.words[word] & bit == 0, "inserted twice");
        self.words[word] |= bit;
        self.len += 1;
    }

    /// Takes out a ticket that is there.
    #[inline]
    pub(super) fn remove(&mut self, ticket: Ticket) {
        debug_assert!(self.has(ticket), "removed twice");
        let (word, bit) = place(ticket);
        self.words[word] &= !bit;
        self.len -= 1;
    }

    #[inline]
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        let (word, bit) = place(ticket);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> {
        let tickets = |(at, word): (usize, &u64)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(Ticket(at as u32 * 64 + bit))
            })
        };
        self.words.iter().enumerate().flat_map(tickets)
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
        if self.words.capacity() > KEEP {
            // Not shrunk, which would leave it where it is, perhaps at the end of a heap that could shrink.
            self.words = Vec::new();
        }
    }
}

/// How many words are not given back.
const KEEP: usize = 64;

fn place(ticket: Ticket) -> (usize, u64) {
    (ticket.index() / 64, 1 << (ticket.index() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_what_was_inserted() {
        let mut set = TicketSet::default();
        let tickets = [0, 1, 63, 64, 1000].map(Ticket);
        tickets.into_iter().rev().for_each(|ticket| set.insert(ticket));
        set.insert(Ticket(62));
        set.remove(Ticket(62));
        assert!(set.has(Ticket(63)) && !set.has(Ticket(62)) && !set.has(Ticket(1_000_000)));
        assert_eq!((set.len(), set.iter().collect::<Vec<_>>()), (5, tickets.to_vec()));
        set.clear();
        assert_eq!((set.len(), set.iter().count()), (0, 0));
        assert!(!set.has(Ticket(63)));
    }
}
