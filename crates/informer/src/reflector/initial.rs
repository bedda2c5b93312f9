//! The objects of a streaming list.

use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use pintle_meta::Object;

use crate::state::ListProgress;

/// The objects are stored in a vector, so that the reflector can return them immediately when the list is complete.
/// Dropping a map with 100,000 keys would take a long time. The lookup table contains only numbers, so dropping it is
/// cheap.
pub(super) struct Initial<T> {
    /// The objects, in the order of the stream. If an object is deleted, the last object takes its position. The order
    /// depends only on the stream.
    objects: Vec<T>,
    places: HashTable<(u64, usize)>,
    hasher: DefaultHashBuilder,
    pub(super) progressed: Instant,
}

impl<T: Object> Initial<T> {
    pub(super) fn opened(now: Instant) -> Self {
        let (places, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        Self { objects: Vec::new(), places, hasher, progressed: now }
    }

    pub(super) fn put(&mut self, now: Instant, object: T) {
        let hash = self.hash(&object);
        let is_it = |&(_, at): &(u64, usize)| is_one(&self.objects[at], &object);
        match self.places.entry(hash, is_it, |(hash, _)| *hash) {
            Entry::Occupied(place) => self.objects[place.get().1] = object,
            Entry::Vacant(place) => {
                place.insert((hash, self.objects.len()));
                self.objects.push(object);
                self.progressed = now;
            }
        }
    }

    pub(super) fn remove(&mut self, object: &T) {
        let hash = self.hash(object);
        let is_it = |&(_, at): &(u64, usize)| is_one(&self.objects[at], object);
        let Ok(place) = self.places.find_entry(hash, is_it) else { return };
        let ((_, at), _) = place.remove();
        self.objects.swap_remove(at);
        let Some(moved) = self.objects.get(at) else { return };
        let (hash, was_last) = (self.hash(moved), self.objects.len());
        if let Some((_, place)) = self.places.find_mut(hash, |(_, at)| *at == was_last) {
            *place = at;
        }
    }

    fn hash(&self, object: &T) -> u64 {
        let metadata = object.metadata();
        self.hasher.hash_one((metadata.namespace(), metadata.name()))
    }
}

impl<T> Initial<T> {
    pub(super) fn into_objects(self) -> Vec<T> {
        self.objects
    }

    pub(super) fn progress(&self) -> ListProgress {
        ListProgress { received: self.objects.len(), remaining: None }
    }
}

fn is_one<T: Object>(one: &T, other: &T) -> bool {
    let (one, other) = (one.metadata(), other.metadata());
    one.name() == other.name() && one.namespace() == other.namespace()
}
