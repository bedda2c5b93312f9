//! From the hash of a key to its record.

use super::BATCH;
use crate::order::Ticket;

/// From a key's hash to its record. The keys themselves are in the records only.
///
/// Open addressing with linear probing, in two arrays. `tags` has a byte a slot, seven bits of the hash, and is looked at eight
/// at a time: it says at once that a key is not there, and is two megabytes for a million keys, about what the cache of a core
/// holds. `slots` has the hash beside the ticket, so growing touches no record at all.
///
/// # Writing and removing by the batch
///
/// In a large queue the slot of a key is never in the cache, and waiting for it would be most of what an add or a hand-out
/// costs. So neither waits:
///
/// * A new key takes its slot by the tag. What the slot says is `unwritten` until there is a batch of them: processors wait for
///   many lines at a time, if they are asked for together.
/// * Slots of dropped records stay as they are, to be swept in the order of the table when they are many.
#[derive(Debug)]
pub(super) struct Index {
    /// [`FREE`], or [`TAKEN`] and seven bits of the hash. The first [`GROUP`] are repeated at the end.
    tags: Vec<u8>,
    /// As many as a power of two, or none at all.
    slots: Vec<Slot>,
    /// Slots that are taken and do not say so yet, with what they are to say.
    unwritten: Vec<(u32, Slot)>,
    /// How many slots are taken.
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    ticket: u32,
}

const EMPTY: Slot = Slot { hash: 0, ticket: u32::MAX };
const FREE: u8 = 0;
const TAKEN: u8 = 0x80;
/// How many tags are looked at together: those of one `u64`.
const GROUP: usize = 8;
/// The smallest table.
const LEAST: usize = 64;
/// A table that has grown to this size does not shrink below it, or it would go up and down with a queue that is mostly empty.
const KEEP: usize = 4096;

impl Index {
    pub(super) fn new() -> Self {
        Self { tags: Vec::new(), slots: Vec::new(), unwritten: Vec::new(), used: 0 }
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether the table is in the cache anyway, so that there is nothing to gain from working by the batch.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.slots.len() <= KEEP
    }

    /// Whether it has to be [swept](Index::sweep) before the next key. It is at most three quarters full.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() * 3 <= self.used * 4
    }

    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_key: impl FnMut(Ticket) -> bool) -> Option<Ticket> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.probe(hash, |slot| slot.hash == hash && is_key(Ticket(slot.ticket)))?;
        Some(Ticket(self.slot(at).ticket))
    }

    /// Adds a key that is not there, to a table that is not full.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, ticket: Ticket) {
        let slot = Slot { hash, ticket: ticket.0 };
        if self.is_small() {
            self.place(slot);
            return;
        }
        let at = self.take(hash);
        self.unwritten.push((at as u32, slot));
        if self.unwritten.len() >= BATCH {
            self.write();
        }
    }

    /// Removes all keys that `is_gone`, and gives the table the size that fits the others.
    #[cold]
    pub(super) fn sweep(&mut self, gone: usize, is_gone: impl Fn(Ticket) -> bool) {
        self.write();
        let least = self.slots.len().clamp(LEAST, KEEP);
        let len = ((self.used - gone) * 2 + 1).next_power_of_two().max(least);
        if len == self.slots.len() {
            self.sweep_in_place(gone, is_gone);
            return;
        }
        self.used = 0;
        self.tags = vec![FREE; len + GROUP];
        for slot in std::mem::replace(&mut self.slots, vec![EMPTY; len]) {
            if slot.ticket != EMPTY.ticket && !is_gone(Ticket(slot.ticket)) {
                self.place(slot);
            }
        }
    }

    fn sweep_in_place(&mut self, gone: usize, is_gone: impl Fn(Ticket) -> bool) {
        if self.used == gone {
            self.used = 0;
            self.tags.fill(FREE);
            self.slots.fill(EMPTY);
            return;
        }
        let mask = self.slots.len() - 1;
        // Beginning behind a free slot, no key is moved across one that it was behind of.
        let Some(start) = self.tags.iter().position(|tag| *tag == FREE) else { return };
        for at in start + 1..start + self.slots.len() {
            let at = at & mask;
            if self.tags[at] != FREE {
                let slot = self.free(at);
                if !is_gone(Ticket(slot.ticket)) {
                    self.place(slot);
                }
            }
        }
    }

    /// The first slot on the way from a hash's home to a free one that has its tag and `is_it`.
    #[inline]
    fn probe(&self, hash: u32, mut is_it: impl FnMut(Slot) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let group = self.group(at);
            let free = free(group);
            // Of the tags before the first free one. The lowest bit of nothing, less one, is all bits.
            let mut hits = same(group, tag(hash)) & (free & free.wrapping_neg()).wrapping_sub(1);
            while hits != 0 {
                let hit = (at + first(hits)) & mask;
                if is_it(self.slot(hit)) {
                    return Some(hit);
                }
                hits &= hits - 1;
            }
            if free != 0 {
                return None;
            }
            at = (at + GROUP) & mask;
        }
    }

    /// Takes the first free slot from a hash's home on.
    #[inline]
    fn take(&mut self, hash: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let free = free(self.group(at));
            if free != 0 {
                at = (at + first(free)) & mask;
                self.set_tag(at, tag(hash));
                self.used += 1;
                return at;
            }
            at = (at + GROUP) & mask;
        }
    }

    #[inline]
    fn place(&mut self, slot: Slot) {
        let at = self.take(slot.hash);
        self.slots[at] = slot;
    }

    #[inline]
    fn free(&mut self, at: usize) -> Slot {
        self.used -= 1;
        self.set_tag(at, FREE);
        std::mem::replace(&mut self.slots[at], EMPTY)
    }

    /// What a taken slot says, or is to say.
    #[inline]
    fn slot(&self, at: usize) -> Slot {
        let slot = self.slots[at];
        if slot.ticket != EMPTY.ticket {
            return slot;
        }
        let unwritten = self.unwritten.iter().find(|(taken, _)| *taken as usize == at);
        unwritten.map_or(EMPTY, |(_, slot)| *slot)
    }

    #[inline]
    fn group(&self, at: usize) -> u64 {
        self.tags[at..].first_chunk().map_or(0, |tags| u64::from_le_bytes(*tags))
    }

    #[inline]
    fn set_tag(&mut self, at: usize, tag: u8) {
        self.tags[at] = tag;
        if at < GROUP {
            let repeated = self.slots.len() + at;
            self.tags[repeated] = tag;
        }
    }

    /// Writes what is unwritten.
    fn write(&mut self) {
        let seen = self.unwritten.iter().fold(0, |seen, (at, _)| seen ^ self.slots[*at as usize].hash);
        std::hint::black_box(seen);
        for (at, slot) in self.unwritten.drain(..) {
            self.slots[at as usize] = slot;
        }
    }
}

fn tag(hash: u32) -> u8 {
    TAKEN | (hash >> 25) as u8
}

/// The top bit of each byte of a group that is free.
fn free(group: u64) -> u64 {
    !group & TOPS
}

/// The top bit of each byte of a group that is this tag, and perhaps of a taken one after such a byte.
fn same(group: u64, tag: u8) -> u64 {
    let differ = group ^ (ONES * u64::from(tag));
    differ.wrapping_sub(ONES) & !differ & TOPS
}

/// The place in its group of the first byte that is marked.
fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const TOPS: u64 = u64::from_le_bytes([0x80; 8]);

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    /// Few distinct hashes, near the end of the table: long runs, that wrap around. And as many as there are keys.
    fn finds_what_is_there_and_nothing_else(hashes: u32, most: usize) {
        let mut random = 1u64;
        let mut index = Index::new();
        let (mut there, mut gone) = (HashMap::new(), HashSet::new());
        for step in 0..60_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = u32::MAX - (random >> 33) as u32 % hashes;
            let remove = there.len() > most || (random >> 60) < 7;
            if !remove {
                if index.is_full() {
                    index.sweep(gone.len(), |ticket| gone.contains(&ticket.0));
                    gone.clear();
                }
                there.insert(step, hash);
                index.insert(hash, Ticket(step));
            } else if let Some((ticket, hash)) = there.iter().next().map(|(ticket, hash)| (*ticket, *hash)) {
                there.remove(&ticket);
                gone.insert(ticket);
                assert_eq!(index.find(hash, |found| found.0 == ticket), Some(Ticket(ticket)), "not yet swept");
            }
            if step % 997 == 0 {
                for (ticket, hash) in &there {
                    assert_eq!(index.find(*hash, |found| found.0 == *ticket), Some(Ticket(*ticket)));
                }
            }
        }
        gone.extend(there.keys());
        let kept = index.slots.len().clamp(LEAST, KEEP);
        index.sweep(gone.len(), |ticket| gone.contains(&ticket.0));
        assert_eq!((index.used, index.slots.len()), (0, kept));
        for (ticket, hash) in &there {
            assert_eq!(index.find(*hash, |found| found.0 == *ticket), None);
        }
    }

    #[test]
    fn a_small_table_of_few_hashes() {
        finds_what_is_there_and_nothing_else(13, 300);
    }

    #[test]
    fn a_large_table() {
        finds_what_is_there_and_nothing_else(u32::MAX, 20_000);
    }
}
