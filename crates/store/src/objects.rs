//! The objects of one resource as a value that is cheap to keep.

use std::sync::Arc;

use super::kept::{Encoding, Encodings};
use super::tree::{Branch, Tree};
use super::{Key, KeyRange, Stored};

/// Objects by key. A clone costs nothing and shows for ever what was there when it was made.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    tree: Tree<Arc<Stored>>,
}

/// Fewer than so many are not worth being kept as one.
const FEWEST: usize = if cfg!(test) { 1 } else { 32 };

impl Objects {
    /// The object of that key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.tree.get(key)
    }

    /// Puts an object there. Answers its key, as all versions of the object share it, and what was there before.
    pub(super) fn insert(&mut self, key: &str, object: Arc<Stored>) -> (Key, Option<Arc<Stored>>) {
        self.tree.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, Arc<Stored>)> {
        self.tree.remove(key)
    }

    /// Those of a range, in the order of their keys.
    pub fn run(&self, range: &KeyRange) -> Run {
        let end = range.end().map_or(self.tree.len(), |end| self.tree.rank(end));
        Run { at: self.tree.rank(range.start()), end, objects: self.clone() }
    }
}

/// Under keys that tell nothing but the order, for objects that have no place of their own.
impl FromIterator<Stored> for Objects {
    fn from_iter<I: IntoIterator<Item = Stored>>(objects: I) -> Self {
        let mut all = Self::default();
        for (at, object) in objects.into_iter().enumerate() {
            all.insert(&format!("{at:04}"), Arc::new(object));
        }
        all
    }
}

/// Neighbouring objects, one after the other, as they were when the run was begun.
#[derive(Clone, Debug)]
pub struct Run {
    objects: Objects,
    /// How many objects come before the next one, and before the end.
    at: usize,
    end: usize,
}

impl Run {
    /// The next one, which stays.
    pub fn peek(&self) -> Option<&(Key, Arc<Stored>)> {
        self.objects.tree.at(self.at).filter(|_| self.at < self.end)
    }

    /// Passes over the next one.
    pub fn pass(&mut self) {
        self.at += 1;
    }

    /// The next ones, if they are neighbours that may be shown as one to many who ask. They stay.
    pub fn neighbours(&self) -> Option<Neighbours> {
        let (before, neighbours) = self.objects.tree.branch_at(self.at)?;
        let len = neighbours.len();
        (before == self.at && len >= FEWEST && before + len <= self.end).then(|| Neighbours(neighbours.clone()))
    }

    /// Passes over what [`neighbours`](Self::neighbours) has told, which is to be asked first: else over all up to the next ones.
    pub fn pass_neighbours(&mut self) {
        let next = self.objects.tree.branch_at(self.at).map(|(before, neighbours)| before + neighbours.len());
        self.at = next.unwrap_or(self.end);
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// The same up to where `other`, which is the same but further on, has come.
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

/// Objects that stand one behind the other, and that nobody has written to since.
#[derive(Clone, Debug)]
pub struct Neighbours(Arc<Branch<Arc<Stored>>>);

impl Neighbours {
    /// Each of them, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.values()
    }

    /// What they are shown as together, made when somebody first asks for it, and kept while there is room and none of them changes.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn encode<E>(&self, encoding: Encoding, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        let Some(first) = self.iter().next() else { return make().map(Into::into) };
        let encodings = self.0.encodings.get_or_init(|| Arc::new(Encodings::new(first.room())));
        encodings.find_or_make(encoding, make)
    }
}
