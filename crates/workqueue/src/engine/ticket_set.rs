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

    /// Empties the set, in ascending order.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Ticket)) {
        for (at, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                take(Ticket(at as u32 * 64 + rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
        self.words.clear();
        self.words.shrink_to(KEEP);
        self.len = 0;
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
        let mut drained = Vec::new();
        assert_eq!(set.len(), 5);
        set.drain(|ticket| drained.push(ticket));
        assert_eq!((set.len(), drained), (0, tickets.to_vec()));
        assert!(!set.has(Ticket(63)));
    }
}
