//! What is visible now, and who still wants what was.

use std::collections::BTreeMap;

/// It changes under one short lock, so that stamp, size and resourceVersion agree.
#[derive(Default)]
pub(super) struct Now {
    pub(super) len: usize,
    pub(super) resource_version: String,
    /// By the stamp that they are of.
    pins: BTreeMap<u64, Pins>,
}

#[derive(Default)]
struct Pins {
    count: usize,
    /// What is kept because of them, and would not be because of newer ones; in chunks, since all there is may have been superseded, and
    /// to move that to a larger place would take long.
    kept: Vec<Vec<Kept>>,
}

const CHUNK: usize = 1024;

/// Where a record is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) shard: u32,
    pub(super) hash: u32,
    pub(super) slot: u32,
}

/// A version that was superseded: it was visible from a stamp until another.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) place: Place,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Now {
    pub(super) fn pin(&mut self, stamp: u64) {
        self.pins.entry(stamp).or_default().count += 1;
    }

    /// Takes one pin away. What it gives back has to be settled: who else wants it?
    pub(super) fn unpin(&mut self, stamp: u64) -> Vec<Vec<Kept>> {
        let Some(pins) = self.pins.get_mut(&stamp) else { return Vec::new() };
        pins.count -= 1;
        if pins.count > 0 {
            return Vec::new();
        }
        self.pins.remove(&stamp).map(|pins| pins.kept).unwrap_or_default()
    }

    /// Whether somebody wants a version. If so, it is looked at again once that one has gone.
    pub(super) fn claim(&mut self, kept: Kept) -> bool {
        if self.pins.is_empty() {
            return false;
        }
        match self.pins.range_mut(kept.from..kept.until).next_back() {
            Some((_, pins)) => {
                match pins.kept.last_mut().filter(|chunk| chunk.len() < CHUNK) {
                    Some(chunk) => chunk.push(kept),
                    None => pins.kept.push(vec![kept]),
                }
                true
            }
            None => false,
        }
    }

    #[cfg(test)]
    pub(super) fn is_unpinned(&self) -> bool {
        self.pins.is_empty()
    }
}
