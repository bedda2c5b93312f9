//! What goes into a write to a cache, and what comes of it.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pintle_meta::{Object, ObjectKey};

use crate::guarded::Guarded;
use crate::store::Write;
use crate::{IndexFailed, Undecodable};

/// What came of a change.
pub(crate) struct Written<T> {
    /// What was there, if something else is there now, or nothing is.
    pub(crate) before: Option<Guarded<T>>,
    /// Why the object was not stored.
    pub(super) refused: Option<IndexFailed>,
    /// The index functions that failed on the object, which is stored without their values.
    pub(crate) unindexed: Vec<IndexFailed>,
}

/// What came of a replacement.
pub(crate) struct Replaced<T> {
    /// What was there and is not in the list, ordered by key.
    pub(crate) deleted: Vec<(ObjectKey, Guarded<T>)>,
    /// The list, each object with what was there for its key.
    pub(crate) present: Vec<(ObjectKey, Option<Guarded<T>>, Guarded<T>)>,
    /// The index functions that failed on objects of the list, which are stored without their values.
    pub(crate) unindexed: Vec<IndexFailed>,
}

/// An object that is ready to be stored.
pub(super) struct Indexed<T> {
    pub(super) write: Write<Guarded<T>>,
    pub(super) unindexed: Vec<IndexFailed>,
}

impl<T> From<Write<Guarded<T>>> for Indexed<T> {
    fn from(write: Write<Guarded<T>>) -> Self {
        Self { write, unindexed: Vec::new() }
    }
}

/// An object that cannot be indexed.
pub(super) struct Refused {
    pub(super) error: IndexFailed,
    pub(super) entry: Undecodable,
    /// What is there for its key is another object, which is gone.
    pub(super) is_succeeded: bool,
}

pub(super) fn take<T>(key: &ObjectKey) -> Write<Guarded<T>> {
    Write { key: key.clone(), value: None, values: Vec::new() }
}

/// Of several objects with one key the last one, in the order in which the keys come first.
pub(crate) fn last_of_each<T: Object>(objects: Vec<Guarded<T>>) -> Vec<(ObjectKey, Guarded<T>)> {
    let mut places: HashMap<ObjectKey, usize> = HashMap::with_capacity(objects.len());
    let mut last: Vec<(ObjectKey, Guarded<T>)> = Vec::with_capacity(objects.len());
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
