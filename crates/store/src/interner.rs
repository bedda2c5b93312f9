//! Bytes that many objects have, kept once.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Whoever is about to look among the same part of all waits for each other.
const PARTS: usize = 16;

/// Finds bytes that are kept already. It keeps none itself: they go with the last object that has them.
#[derive(Debug, Default)]
pub struct Interner {
    hasher: RandomState,
    /// By the hash of the bytes, of which some of the bits say which part.
    parts: [Mutex<HashMap<u64, Weak<Interned>>>; PARTS],
}

/// Bytes that are kept once for all who have the same.
#[derive(Debug)]
pub(crate) struct Interned {
    bytes: Box<[u8]>,
    hash: u64,
    interner: Arc<Interner>,
}

impl Interner {
    /// The bytes as others have them already, or else a copy for those to come.
    pub(crate) fn intern(self: &Arc<Self>, bytes: &[u8]) -> Arc<Interned> {
        let hash = self.hasher.hash_one(bytes);
        let known = self.part(hash).get(&hash).and_then(Weak::upgrade);
        if let Some(same) = known.as_ref().filter(|known| *known.bytes == *bytes) {
            return same.clone();
        }
        let new = Arc::new(Interned { bytes: bytes.into(), hash, interner: self.clone() });
        // Others of the same hash are not shared.
        if known.is_none() {
            self.part(hash).insert(hash, Arc::downgrade(&new));
        }
        new
    }

    /// How many bytes are kept, in all and once each.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let kept = |part: &Mutex<HashMap<u64, Weak<Interned>>>| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.values().filter_map(Weak::upgrade).map(|kept| kept.bytes.len()).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(kept).sum()
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, Weak<Interned>>> {
        self.parts[hash as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interned {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Interned {
    fn drop(&mut self) {
        let mut part = self.interner.part(self.hash);
        // Others may have come with the same since nobody had these any more.
        if part.get(&self.hash).is_some_and(|known| known.strong_count() == 0) {
            part.remove(&self.hash);
            if part.len() < part.capacity() / 4 {
                let room = part.len() * 2;
                part.shrink_to(room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_kept_once_for_as_long_as_somebody_has_them() {
        let interner = Arc::new(Interner::default());
        let [one, same, other] = [b"one".as_slice(), b"one", b"other"].map(|bytes| interner.intern(bytes));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert_eq!((same.bytes(), interner.kept()), (b"one".as_slice(), 8));
        drop((one, other));
        assert_eq!(interner.kept(), 3);
        drop(same);
        assert!(interner.parts.iter().all(|part| part.lock().expect("nobody panicked").is_empty()));
        assert_eq!(interner.intern(b"one").bytes(), b"one");
    }

    #[test]
    fn what_has_the_hash_of_other_bytes_is_kept_for_itself() {
        let interner = Arc::new(Interner::default());
        let hash = interner.hasher.hash_one(b"two".as_slice());
        let one = Arc::new(Interned { bytes: b"one".as_slice().into(), hash, interner: interner.clone() });
        interner.part(hash).insert(hash, Arc::downgrade(&one));
        let two = interner.intern(b"two");
        assert_eq!(two.bytes(), b"two");
        drop(two);
        assert_eq!(interner.kept(), 3, "the other is there still");
    }

    #[test]
    fn the_room_for_what_was_kept_is_given_back() {
        let interner = Arc::new(Interner::default());
        let room = || interner.parts.iter().map(|part| part.lock().expect("nobody panicked").capacity()).sum::<usize>();
        let many: Vec<_> = (0..10_000_u32).map(|at| interner.intern(&at.to_be_bytes())).collect();
        assert!(room() >= 10_000);
        drop(many);
        assert!(room() < 1_000, "{}", room());
    }
}
