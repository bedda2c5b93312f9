use crate::order::Ticket;

/// From a key's hash to its record. The keys themselves are in the records only.
///
/// Open addressing with linear probing. A slot holds the hash beside the ticket, so a search touches one line of memory before
/// the record, and growing touches no record at all.
///
/// # Removing by the batch
///
/// In a large queue the slot of a key is never in the cache when the key is done with, and waiting for it would be most of
/// what a hand-out costs. So the engine collects the tickets of dropped records, and has their slots removed together:
/// [`remove`](Index::remove) looks at all of them first, and changes them then.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two, or none at all.
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    ticket: u32,
}

const EMPTY: Slot = Slot { hash: 0, ticket: u32::MAX };
/// The smallest table. It is never given back.
const LEAST: usize = 64;

impl Index {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), used: 0 }
    }

    /// Whether the table is in the cache anyway, so that there is nothing to gain from removing by the batch.
    pub(super) fn is_small(&self) -> bool {
        self.slots.len() <= 4096
    }

    pub(super) fn find(&self, hash: u32, is_key: impl Fn(Ticket) -> bool) -> Option<Ticket> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at & mask];
            if slot.ticket == EMPTY.ticket {
                return None;
            }
            if slot.hash == hash && is_key(Ticket(slot.ticket)) {
                return Some(Ticket(slot.ticket));
            }
            at += 1;
        }
    }

    /// Adds a key that is not there.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, ticket: Ticket) {
        // At most three quarters full.
        if self.slots.len() * 3 <= self.used * 4 {
            self.resize((self.slots.len() * 2).max(LEAST));
        }
        self.used += 1;
        self.place(Slot { hash, ticket: ticket.0 });
    }

    /// Removes keys that are there.
    #[inline]
    pub(super) fn remove(&mut self, gone: &[(u32, Ticket)]) {
        let mask = self.slots.len() - 1;
        if gone.len() > 1 {
            // These reads do not depend on one another, so the memory serves them together.
            let seen = gone.iter().fold(0, |seen, (hash, _)| seen ^ self.slots[*hash as usize & mask].hash);
            std::hint::black_box(seen);
        }
        for (hash, ticket) in gone {
            let mut at = *hash as usize & mask;
            while self.slots[at].ticket != ticket.0 {
                at = (at + 1) & mask;
            }
            self.close(at);
        }
        self.used -= gone.len();
        // Shrinking at an eighth: as many removals as the move costs have gone before.
        if self.slots.len() > LEAST && self.used < self.slots.len() / 8 {
            self.resize((self.used * 2).next_power_of_two().max(LEAST));
        }
    }

    fn place(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].ticket != EMPTY.ticket {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Empties a slot, and moves up those behind it that would not be found any more.
    fn close(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.ticket == EMPTY.ticket {
                break;
            }
            // How far it stands from where it belongs, against how far it is from the hole.
            let from_home = at.wrapping_sub(slot.hash as usize) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }

    #[cold]
    fn resize(&mut self, len: usize) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; len]);
        for slot in old {
            if slot.ticket != EMPTY.ticket {
                self.place(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Few distinct hashes, near the end of the table: long runs, that wrap around.
    #[test]
    fn finds_what_is_there_and_nothing_else() {
        let mut random = 1u64;
        let mut index = Index::new();
        let mut there: HashMap<u32, u32> = HashMap::new();
        for step in 0..20_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = u32::MAX - (random >> 33) as u32 % 13;
            let remove = there.len() > 300 || (random >> 60) < 7;
            if !remove {
                there.insert(step, hash);
                index.insert(hash, Ticket(step));
            } else if let Some((ticket, hash)) = there.iter().min().map(|(ticket, hash)| (*ticket, *hash)) {
                there.remove(&ticket);
                index.remove(&[(hash, Ticket(ticket))]);
                assert_eq!(index.find(hash, |found| found.0 == ticket), None);
            }
            if step % 97 == 0 {
                for (ticket, hash) in &there {
                    assert_eq!(index.find(*hash, |found| found.0 == *ticket), Some(Ticket(*ticket)));
                }
            }
        }
        let rest: Vec<_> = there.into_iter().map(|(ticket, hash)| (hash, Ticket(ticket))).collect();
        index.remove(&rest);
        assert_eq!((index.used, index.slots.len()), (0, LEAST));
    }
}
