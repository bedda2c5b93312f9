//! A store's visible state, and pins of earlier states.

use std::collections::BTreeMap;

/// The number of values, the resourceVersion and the pins of the store's visible state. A single lock protects all
/// fields of `Now`, so that they belong to the same commit.
#[derive(Default)]
pub(super) struct Now {
    pub(super) len: usize,
    pub(super) resource_version: String,
    pins: BTreeMap<u64, Pins>,
}

#[derive(Default)]
struct Pins {
    count: usize,
    /// The superseded versions that pins of this stamp need, but that pins of later stamps do not need. The versions
    /// are stored in chunks, because there may be one version per record, and growing a large vector would take long.
    kept: Vec<Vec<Kept>>,
}

const CHUNK: usize = 1024;

#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) shard: u32,
    pub(super) hash: u32,
    pub(super) slot: u32,
}

/// A superseded version, visible from the stamp `from` until the stamp `until` (exclusive).
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

    /// Removes one pin of `stamp`. If no other pin of the stamp exists, this method returns the versions that were kept
    /// for the stamp. The caller must pass the returned versions to `Store::settle`, because pins of earlier stamps may
    /// still need them.
    pub(super) fn unpin(&mut self, stamp: u64) -> Vec<Vec<Kept>> {
        let Some(pins) = self.pins.get_mut(&stamp) else { return Vec::new() };
        pins.count -= 1;
        if pins.count > 0 {
            return Vec::new();
        }
        self.pins.remove(&stamp).map(|pins| pins.kept).unwrap_or_default()
    }

    /// Assigns a superseded version to the newest pin that needs it. Returns `true` if any pin needs the version. When
    /// the last pin of that stamp is removed, [`unpin`](Self::unpin) returns the version.
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
