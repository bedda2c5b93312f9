//! Inputs and results of cache writes.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pintle_meta::{Object, ObjectKey};

use crate::error::IndexFailed;
use crate::store::Write;
use crate::stored::Stored;
use crate::undecodable::Undecodable;

pub(crate) struct WriteResult<T> {
    pub(crate) before: Option<Stored<T>>,
    pub(super) refused: Option<IndexFailed>,
    /// The failures of index functions on the stored object, which is missing from the failed indices.
    pub(crate) unindexed: Vec<IndexFailed>,
}

pub(crate) struct Replaced<T> {
    /// The previously cached objects that are missing from the list, ordered by key.
    pub(crate) deleted: Vec<(ObjectKey, Stored<T>)>,
    pub(crate) present: Vec<(ObjectKey, Option<Stored<T>>, Stored<T>)>,
    pub(crate) unindexed: Vec<IndexFailed>,
}

pub(super) struct Indexed<T> {
    pub(super) write: Write<Stored<T>>,
    pub(super) unindexed: Vec<IndexFailed>,
}

impl<T> From<Write<Stored<T>>> for Indexed<T> {
    fn from(write: Write<Stored<T>>) -> Self {
        Self { write, unindexed: Vec::new() }
    }
}

/// An object that the cache rejects because an index function failed on it.
pub(super) struct Refused {
    pub(super) error: IndexFailed,
    pub(super) entry: Undecodable,
    /// Whether the stored object with this key has another uid, which means that the server deleted and recreated
    /// the object.
    pub(super) was_replaced: bool,
}

pub(super) fn take<T>(key: &ObjectKey) -> Write<Stored<T>> {
    Write { key: key.clone(), value: None, values: Vec::new() }
}

/// Keeps only the last object of each key. The keys keep the order of their first occurrence.
pub(crate) fn last_of_each<T: Object>(objects: Vec<Stored<T>>) -> Vec<(ObjectKey, Stored<T>)> {
    let mut places: HashMap<ObjectKey, usize> = HashMap::with_capacity(objects.len());
    let mut last: Vec<(ObjectKey, Stored<T>)> = Vec::with_capacity(objects.len());
    for object in objects {
        let key = object.key();
        match places.entry(key.clone()) {
            Entry::Occupied(place) => last[*place.get()].1 = object,
            Entry::Vacant(place) => {
                place.insert(last.len());
                last.push((key, object));
            }
        }
    }
    last
}
