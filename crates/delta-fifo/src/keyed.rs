//! Records by key, each in a place of its own.

use std::hash::{BuildHasher, Hash};
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Where a record is, from when it comes until it goes.
pub(crate) type Place = u32;

/// Records by key. A key is kept once, and hashed once for as long as its record is there.
#[derive(Debug)]
pub(crate) struct Keyed<K, V> {
    hasher: DefaultHashBuilder,
    /// The places of the records that can be found by their key.
    table: HashTable<Place>,
    records: Vec<Option<Record<K, V>>>,
    /// The places that are empty.
    free: Vec<Place>,
}

#[derive(Debug)]
struct Record<K, V> {
    hash: u64,
    key: K,
    value: V,
    is_listed: bool,
}

/// So many places are kept once nothing is left; the memory of more is given back.
const SPARE: usize = 1024;

impl<K, V> Keyed<K, V> {
    pub(crate) fn new() -> Self {
        Self { hasher: DefaultHashBuilder::default(), table: HashTable::new(), records: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn get(&self, place: Place) -> Option<(&K, &V)> {
        let record = self.records.get(place as usize)?.as_ref()?;
        Some((&record.key, &record.value))
    }

    /// Puts a record in. There must be none that can be found by its key, whose hash is `hash`.
    ///
    /// # Panics
    ///
    /// If there are as many records as places have numbers, which no memory holds.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V) -> Place {
        let record = Some(Record { hash, key, value, is_listed: true });
        let place = match self.free.pop() {
            Some(place) => {
                self.records[place as usize] = record;
                place
            }
            None => {
                self.records.push(record);
                Place::try_from(self.records.len() - 1).expect("fewer records than numbers")
            }
        };
        let Self { table, records, .. } = self;
        table.insert_unique(hash, place, |&other| hash_at(records, other));
        place
    }

    /// Takes a record out.
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

    /// Makes a record such that its key does not find it.
    pub(crate) fn unlist(&mut self, place: Place) {
        let Some(Some(record)) = self.records.get_mut(place as usize) else { return };
        if std::mem::take(&mut record.is_listed)
            && let Ok(entry) = self.table.find_entry(record.hash, |&other| other == place)
        {
            entry.remove();
        }
    }
}

impl<K: Eq + Hash, V> Keyed<K, V> {
    pub(crate) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Where the record of a key is; `hash` is the key's.
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<Place> {
        let is_it = |place: &Place| self.get(*place).is_some_and(|(other, _)| other == key);
        self.table.find(hash, is_it).copied()
    }
}

fn hash_at<K, V>(records: &[Option<Record<K, V>>], place: Place) -> u64 {
    records[place as usize].as_ref().map_or(0, |record| record.hash)
}

/// The record of a place that is in use.
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
