//! Snapshots of the objects of one resource.

use std::sync::Arc;

use super::encodings::{Encoding, Encodings};
use super::tree::{Branch, Tree};
use super::{Key, KeyRange, Stored};

/// Objects by key. A clone is an immutable snapshot and takes constant time and memory.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    tree: Tree<Arc<Stored>>,
}

/// The minimum number of neighbours to encode together.
const MIN_NEIGHBOURS: usize = if cfg!(test) { 1 } else { 32 };

impl Objects {
    /// Returns the object with a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.tree.get(key)
    }

    /// Inserts an object. Returns its key, which all versions of the object share, and the previous object.
    pub(super) fn insert(&mut self, key: &str, object: Arc<Stored>) -> (Key, Option<Arc<Stored>>) {
        self.tree.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, Arc<Stored>)> {
        self.tree.remove(key)
    }

    /// Returns an iterator over the objects in a range, in the order of their keys.
    pub fn run(&self, range: &KeyRange) -> Run {
        let end = range.end().map_or(self.tree.len(), |end| self.tree.rank(end));
        Run { at: self.tree.rank(range.start()), end, objects: self.clone() }
    }
}

/// Uses keys that only keep the order, for objects without keys of their own.
impl FromIterator<Stored> for Objects {
    fn from_iter<I: IntoIterator<Item = Stored>>(objects: I) -> Self {
        let mut all = Self::default();
        for (at, object) in objects.into_iter().enumerate() {
            all.insert(&format!("{at:04}"), Arc::new(object));
        }
        all
    }
}

/// An iterator over the objects in a range of a snapshot.
#[derive(Clone, Debug)]
pub struct Run {
    objects: Objects,
    /// The number of objects before the next one, and before the end.
    at: usize,
    end: usize,
}

impl Run {
    /// Returns the next object without advancing.
    pub fn peek(&self) -> Option<&(Key, Arc<Stored>)> {
        self.objects.tree.at(self.at).filter(|_| self.at < self.end)
    }

    /// Skips the next object.
    pub fn pass(&mut self) {
        self.at += 1;
    }

    /// Returns the next objects without advancing, if they are neighbours that can be encoded together for many requests.
    pub fn neighbours(&self) -> Option<Neighbours> {
        let (before, neighbours) = self.objects.tree.branch_at(self.at)?;
        let len = neighbours.len();
        (before == self.at && len >= MIN_NEIGHBOURS && before + len <= self.end).then(|| Neighbours(neighbours.clone()))
    }

    /// Skips the objects that [`neighbours`](Self::neighbours) returns. Call it only if that method returned some; otherwise it skips all
    /// objects up to the next neighbours.
    pub fn pass_neighbours(&mut self) {
        let next = self.objects.tree.branch_at(self.at).map(|(before, neighbours)| before + neighbours.len());
        self.at = next.unwrap_or(self.end);
    }

    /// Returns the number of remaining objects.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Returns the run with its end at the position of `other`, which is the same run at a later position.
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

/// Objects with adjacent keys that have not changed since.
#[derive(Clone, Debug)]
pub struct Neighbours(Arc<Branch<Arc<Stored>>>);

impl Neighbours {
    /// Returns an iterator over the objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.values()
    }

    /// Returns the common encoding of the objects. It is made on the first call, and cached while the limit allows and no object changes.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub fn encode<E>(&self, encoding: Encoding, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        let Some(first) = self.iter().next() else { return make().map(Into::into) };
        let encodings = self.0.encodings.get_or_init(|| Arc::new(Encodings::new(first.encoding_cache())));
        encodings.find_or_make(encoding, make)
    }
}
