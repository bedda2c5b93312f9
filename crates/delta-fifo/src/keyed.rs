//! A table of records by key, with stable indexes.

use std::hash::{BuildHasher, Hash};
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

/// The index of a record in [`Keyed`]. A record's index does not change until the record is removed.
pub(crate) type Place = u32;

/// The part of a key's hash that the table stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u32);

/// A table of records by key. The table stores each key once, and hashes it only once while its record exists.
#[derive(Debug)]
pub(crate) struct Keyed<K, V> {
    hasher: DefaultHashBuilder,
    /// The key hash and the index of each listed record (see `is_listed`). Storing the hash avoids reading other
    /// records in a lookup and when the table grows.
    table: HashTable<(KeyHash, Place)>,
    records: Vec<Option<Record<K, V>>>,
    free: Vec<Place>,
}

#[derive(Debug)]
struct Record<K, V> {
    hash: KeyHash,
    key: K,
    value: V,
    /// Whether the record is *listed*, which means that a lookup by key finds it.
    is_listed: bool,
}

/// The maximum capacity, in records, that an empty table keeps.
const SPARE: usize = 1024;

impl<K, V> Keyed<K, V> {
    pub(crate) fn new() -> Self {
        Self { hasher: DefaultHashBuilder::default(), table: HashTable::new(), records: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.records.iter().flatten().map(|record| (&record.key, &record.value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.records.iter_mut().flatten().map(|record| (&record.key, &mut record.value))
    }

    pub(crate) fn get(&self, place: Place) -> Option<(&K, &V)> {
        let record = self.records.get(place as usize)?.as_ref()?;
        Some((&record.key, &record.value))
    }

    /// Inserts a record. No listed record may have the same key.
    ///
    /// # Panics
    ///
    /// Panics if the new record's index does not fit into a `Place`.
    pub(crate) fn insert(&mut self, hash: KeyHash, key: K, value: V) -> Place {
        let record = Some(Record { hash, key, value, is_listed: true });
        let place = match self.free.pop() {
            Some(place) => {
                self.records[place as usize] = record;
                place
            }
            None => {
                self.records.push(record);
                Place::try_from(self.records.len() - 1).expect("at most u32::MAX records")
            }
        };
        self.table.insert_unique(hash.spread(), (hash, place), |(hash, _)| hash.spread());
        place
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<(K, V)> {
        self.unlist(place);
        let record = self.records.get_mut(place as usize)?.take()?;
        self.free.push(place);
        if self.free.len() == self.records.len() {
            self.records.clear();
            self.free.clear();
            if self.records.capacity() > SPARE {
                (self.records, self.free, self.table) = (Vec::new(), Vec::new(), HashTable::new());
            }
        }
        Some((record.key, record.value))
    }

    pub(crate) fn unlist(&mut self, place: Place) {
        let Some(Some(record)) = self.records.get_mut(place as usize) else { return };
        if std::mem::take(&mut record.is_listed)
            && let Ok(entry) = self.table.find_entry(record.hash.spread(), |&(_, other)| other == place)
        {
            entry.remove();
        }
    }
}

impl<K: Eq + Hash, V> Keyed<K, V> {
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        KeyHash((self.hasher.hash_one(key) >> 32) as u32)
    }

    pub(crate) fn find(&self, hash: KeyHash, key: &K) -> Option<Place> {
        let is_it = |&(other, place): &(KeyHash, Place)| {
            other == hash && self.get(place).is_some_and(|(other, _)| other == key)
        };
        self.table.find(hash.spread(), is_it).map(|(_, place)| *place)
    }
}

impl KeyHash {
    /// Mixes the bits of the hash, because the table uses the lowest and highest bits.
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Panics if there is no record at the index.
impl<K, V> Index<Place> for Keyed<K, V> {
    type Output = V;

    fn index(&self, place: Place) -> &V {
        &self.records[place as usize].as_ref().expect("the place is in use").value
    }
}

impl<K, V> IndexMut<Place> for Keyed<K, V> {
    fn index_mut(&mut self, place: Place) -> &mut V {
        &mut self.records[place as usize].as_mut().expect("the place is in use").value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_the_last_record_releases_memory() {
        let mut keyed = Keyed::new();
        let mut fill = |count: usize| {
            let places: Vec<_> = (0..count).map(|key| keyed.insert(keyed.hash(&key), key, ())).collect();
            let full = keyed.records.capacity();
            places.into_iter().for_each(|place| _ = keyed.remove(place));
            (full, keyed.records.capacity(), keyed.free.capacity(), keyed.table.capacity())
        };
        let (full, records, free, table) = fill(10 * SPARE);
        assert!(full >= 10 * SPARE);
        assert_eq!((records, free, table), (0, 0, 0));
        // Small queues keep the memory of their records to avoid repeated allocations.
        let (full, records, ..) = fill(SPARE / 2);
        assert_eq!(full, records);
    }
}
