//! Interns byte strings, so that equal byte strings share memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const SHARDS: usize = 16;

/// Stores equal byte strings only once. The interner has only weak references, so dropping the last object that uses a
/// byte string frees it.
#[derive(Debug, Default)]
pub struct Interner {
    hasher: RandomState,
    /// The shards of the table, which map hashes to byte strings. A part of the hash selects the shard.
    shards: [Mutex<HashMap<u64, Weak<Interned>>>; SHARDS],
}

#[derive(Debug)]
pub(crate) struct Interned {
    pub(crate) bytes: Box<[u8]>,
    hash: u64,
    interner: Arc<Interner>,
}

impl Interner {
    /// Returns the interned byte string equal to `bytes`, or interns a copy of `bytes`.
    pub(crate) fn intern(self: &Arc<Self>, bytes: &[u8]) -> Arc<Interned> {
        let hash = self.hasher.hash_one(bytes);
        let known = self.shard(hash).get(&hash).and_then(Weak::upgrade);
        if let Some(same) = known.as_ref().filter(|known| *known.bytes == *bytes) {
            return same.clone();
        }
        let new = Arc::new(Interned { bytes: bytes.into(), hash, interner: self.clone() });
        // Do not intern a byte string if another byte string has the same hash.
        if known.is_none() {
            self.shard(hash).insert(hash, Arc::downgrade(&new));
        }
        new
    }

    #[cfg(test)]
    pub(crate) fn total_bytes(&self) -> usize {
        let lengths = |shard: &Mutex<HashMap<u64, Weak<Interned>>>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().filter_map(Weak::upgrade).map(|interned| interned.bytes.len()).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(lengths).sum()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, Weak<Interned>>> {
        self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Interned {
    fn drop(&mut self) {
        let mut shard = self.interner.shard(self.hash);
        // Keep an entry that has references: another thread may have interned an equal byte string after the last
        // reference to `self` was dropped.
        if shard.get(&self.hash).is_some_and(|known| known.strong_count() == 0) {
            shard.remove(&self.hash);
            if shard.len() < shard.capacity() / 4 {
                let capacity = shard.len() * 2;
                shard.shrink_to(capacity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_stored_once_while_in_use() {
        let interner = Arc::new(Interner::default());
        let [one, same, other] = [b"one".as_slice(), b"one", b"other"].map(|bytes| interner.intern(bytes));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert_eq!((&*same.bytes, interner.total_bytes()), (b"one".as_slice(), 8));
        drop((one, other));
        assert_eq!(interner.total_bytes(), 3);
        drop(same);
        assert!(interner.shards.iter().all(|shard| shard.lock().expect("no thread panicked").is_empty()));
        assert_eq!(interner.intern(b"one").bytes[..], *b"one");
    }

    #[test]
    fn bytes_with_a_colliding_hash_are_not_shared() {
        let interner = Arc::new(Interner::default());
        let hash = interner.hasher.hash_one(b"two".as_slice());
        let one = Arc::new(Interned { bytes: b"one".as_slice().into(), hash, interner: interner.clone() });
        interner.shard(hash).insert(hash, Arc::downgrade(&one));
        let two = interner.intern(b"two");
        assert_eq!(two.bytes[..], *b"two");
        drop(two);
        assert_eq!(interner.total_bytes(), 3, "the other byte string is still interned");
    }

    #[test]
    fn dropped_bytes_release_the_capacity_of_the_table() {
        let interner = Arc::new(Interner::default());
        let capacity =
            || interner.shards.iter().map(|shard| shard.lock().expect("no thread panicked").capacity()).sum::<usize>();
        let many: Vec<_> = (0..10_000_u32).map(|at| interner.intern(&at.to_be_bytes())).collect();
        assert!(capacity() >= 10_000);
        drop(many);
        assert!(capacity() < 1_000, "{}", capacity());
    }
}
