//! Snapshots of one resource's objects.

use std::collections::HashSet;
use std::sync::Arc;

use super::encodings::{Encoding, Encodings};
use super::tree::{Branch, Tree};
use crate::key_range::KeyRange;
use crate::stored::{Key, Stored};

/// The objects of one resource, by key. Cloning an `Objects` takes constant time and memory.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    tree: Tree<Arc<Stored>>,
}

/// The minimum number of objects in a group, which consists of objects with adjacent keys and is encoded as a whole.
const MIN_NEIGHBOURS: usize = if cfg!(test) { 1 } else { 32 };

impl Objects {
    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.tree.get(key)
    }

    /// Inserts an object. Returns the object's previous version, and the stored key that all versions of the object
    /// share.
    pub(super) fn insert(&mut self, key: &str, object: Arc<Stored>) -> (Key, Option<Arc<Stored>>) {
        self.tree.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, Arc<Stored>)> {
        self.tree.remove(key)
    }

    /// Calls `each` with the objects of all tree nodes that are not in `visited`, and adds these nodes.
    pub(super) fn visit(&self, visited: &mut HashSet<usize>, each: impl FnMut(&Arc<Stored>)) {
        self.tree.visit(visited, each);
    }

    /// Returns an iterator over the objects in a range, in key order.
    pub fn run(&self, range: &KeyRange) -> Run {
        let end = range.end().map_or(self.tree.len(), |end| self.tree.rank(end));
        Run { at: self.tree.rank(range.start()), end, objects: self.clone() }
    }
}

/// Creates a snapshot of objects with generated keys, in the order of the iterator.
impl FromIterator<Stored> for Objects {
    fn from_iter<I: IntoIterator<Item = Stored>>(objects: I) -> Self {
        let mut all = Self::default();
        for (at, object) in objects.into_iter().enumerate() {
            all.insert(&format!("{at:04}"), Arc::new(object));
        }
        all
    }
}

/// An iterator over a snapshot's objects in a key range.
#[derive(Clone, Debug)]
pub struct Run {
    objects: Objects,
    /// The index of the next object, which equals `end` at the end of the iteration.
    at: usize,
    end: usize,
}

impl Run {
    /// Returns the next object without advancing the iterator.
    pub fn peek(&self) -> Option<&(Key, Arc<Stored>)> {
        self.objects.tree.at(self.at).filter(|_| self.at < self.end)
    }

    /// Skips the next object.
    pub fn pass(&mut self) {
        self.at += 1;
    }

    /// Returns the group of objects that starts at the current position, or `None`, without advancing the iterator.
    /// Requests can share the encoding of a group.
    pub fn neighbours(&self) -> Option<Neighbours> {
        let (before, neighbours) = self.objects.tree.branch_at(self.at)?;
        let len = neighbours.len();
        (before == self.at && len >= MIN_NEIGHBOURS && before + len <= self.end).then(|| Neighbours(neighbours.clone()))
    }

    /// Skips the group that [`neighbours`](Self::neighbours) returns. If no group starts at the current position, skips
    /// all objects up to the next group.
    pub fn pass_neighbours(&mut self) {
        let next = self.objects.tree.branch_at(self.at).map(|(before, neighbours)| before + neighbours.len());
        self.at = next.unwrap_or(self.end);
    }

    /// Returns the number of objects that are left in the iterator.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Returns an iterator from the current position to the position of `other`, which must be a clone of this iterator
    /// at the same or a later position.
    pub fn up_to(self, other: &Self) -> Self {
        Self { end: other.at.min(self.end), ..self }
    }
}

impl Iterator for Run {
    type Item = (Key, Arc<Stored>);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.peek().cloned();
        self.pass();
        next
    }
}

/// A group of objects with adjacent keys in a snapshot.
#[derive(Clone, Debug)]
pub struct Neighbours(Arc<Branch<Arc<Stored>>>);

impl Neighbours {
    /// Returns an iterator over the group's objects, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.values()
    }

    /// Returns the encoding of all objects in the group. The first call for an encoding creates it with `make`. The
    /// encoding is cached until an object in the group changes or the cache evicts the encoding.
    ///
    /// # Errors
    ///
    /// Returns an error if `make` returns an error.
    pub fn encode<E>(&self, encoding: Encoding, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        let Some(first) = self.iter().next() else { return make().map(Into::into) };
        let encodings = self.0.encodings.get_or_init(|| Arc::new(Encodings::new(first.encoding_cache())));
        encodings.find_or_make(encoding, make)
    }
}
