//! The visible state, and the pins of earlier states.

use std::collections::BTreeMap;

/// Changed under one short lock, so that stamp, size and resourceVersion agree.
#[derive(Default)]
pub(super) struct Now {
    pub(super) len: usize,
    pub(super) resource_version: String,
    /// The pins for each stamp.
    pins: BTreeMap<u64, Pins>,
}

#[derive(Default)]
struct Pins {
    count: usize,
    /// The versions that are kept because of these pins and not because of newer ones. In chunks, because all records
    /// may be superseded, and growing one vector of them would take long.
    kept: Vec<Vec<Kept>>,
}

const CHUNK: usize = 1024;

/// The place of a record.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) shard: u32,
    pub(super) hash: u32,
    pub(super) slot: u32,
}

/// A superseded version. It was visible from one stamp until another.
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

    /// Removes one pin. The caller must settle the returned versions, which other pins may need.
    pub(super) fn unpin(&mut self, stamp: u64) -> Vec<Vec<Kept>> {
        let Some(pins) = self.pins.get_mut(&stamp) else { return Vec::new() };
        pins.count -= 1;
        if pins.count > 0 {
            return Vec::new();
        }
        self.pins.remove(&stamp).map(|pins| pins.kept).unwrap_or_default()
    }

    /// Whether a pin needs a version. If so, the version is settled again when that pin is removed.
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
