//! Inputs and results of writes to a cache.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pintle_meta::{Object, ObjectKey};

use crate::error::IndexFailed;
use crate::store::Write;
use crate::stored::Stored;
use crate::undecodable::Undecodable;

/// The result of writing one key.
pub(crate) struct WriteResult<T> {
    /// The previous object, if it was replaced or deleted.
    pub(crate) before: Option<Stored<T>>,
    /// The reason why the object was not stored, if it was refused.
    pub(super) refused: Option<IndexFailed>,
    /// The failures of index functions on the object. The object is stored without the values of the indices whose
    /// functions failed.
    pub(crate) unindexed: Vec<IndexFailed>,
}

/// The result of replacing all objects of a cache.
pub(crate) struct Replaced<T> {
    /// The previously cached objects that the list does not contain, ordered by key.
    pub(crate) deleted: Vec<(ObjectKey, Stored<T>)>,
    /// The objects of the list. Each object is paired with the previous object of its key.
    pub(crate) present: Vec<(ObjectKey, Option<Stored<T>>, Stored<T>)>,
    /// The failures of index functions on objects of the list. Such an object is stored without the values of the
    /// indices whose functions failed.
    pub(crate) unindexed: Vec<IndexFailed>,
}

/// An object with the values of its indices, ready to be stored.
pub(super) struct Indexed<T> {
    pub(super) write: Write<Stored<T>>,
    pub(super) unindexed: Vec<IndexFailed>,
}

impl<T> From<Write<Stored<T>>> for Indexed<T> {
    fn from(write: Write<Stored<T>>) -> Self {
        Self { write, unindexed: Vec::new() }
    }
}

/// An object that the cache refuses because an index function failed on it.
pub(super) struct Refused {
    pub(super) error: IndexFailed,
    pub(super) entry: Undecodable,
    /// Whether the stored object has the same key but another uid. If the uid differs, the stored object must have been
    /// deleted on the server.
    pub(super) was_replaced: bool,
}

pub(super) fn take<T>(key: &ObjectKey) -> Write<Stored<T>> {
    Write { key: key.clone(), value: None, values: Vec::new() }
}

/// If several objects have the same key, keeps only the last one. The result has the order in which the keys first occur.
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
