//! The objects of one resource as a value that is cheap to keep.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use super::kept::{Encoding, Encodings};
use super::{Key, KeyRange, Stored};

/// Objects by key. A clone costs nothing and shows for ever what was there when it was made.
///
/// There are two levels: runs of neighbours, and the list of them. A write copies the one run that it is about, and the list, and
/// these only where a clone shares them with it: so at most one write after each clone copies as many references as there are
/// runs.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// None of them is empty.
    leaves: Arc<Vec<Arc<Leaf>>>,
}

/// Neighbouring objects, and what they are shown as together: that is over with the first that changes.
#[derive(Debug, Default)]
struct Leaf {
    entries: Vec<(Key, Arc<Stored>)>,
    encodings: OnceLock<Arc<Encodings>>,
}

/// So many objects share a leaf at most; few in tests, so that leaves come and go in these.
const FULL: usize = if cfg!(test) { 4 } else { 128 };

/// Fewer than so many are not worth being kept as one.
const FEWEST: usize = FULL / 4;

/// A leaf, and a place in it that is within it; or behind the last leaf.
type Place = (usize, usize);

impl Objects {
    /// The object of that key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        let (leaf, at) = self.find(key).ok()?;
        Some(&self.leaves[leaf][at].1)
    }

    /// Puts an object there. Answers its key, as all versions of the object share it, and what was there before.
    pub(super) fn insert(&mut self, key: &str, object: Arc<Stored>) -> (Key, Option<Arc<Stored>>) {
        let place = self.find(key);
        let leaves = Arc::make_mut(&mut self.leaves);
        let (leaf, at) = match place {
            Ok((leaf, at)) => {
                let (key, there) = &mut Arc::make_mut(&mut leaves[leaf])[at];
                return (key.clone(), Some(std::mem::replace(there, object)));
            }
            Err(place) => place,
        };
        let key = Key::from(key);
        let entry = (key.clone(), object);
        let is_last = leaf + 1 == leaves.len();
        match leaves.get_mut(leaf).map(Arc::make_mut) {
            // Where keys come in their order, leaves get full.
            Some(full) if full.len() >= FULL && is_last && at == full.len() => {
                leaves.push(Arc::new(vec![entry].into()))
            }
            Some(full) if full.len() >= FULL => {
                let mut upper = full.split_off(FULL / 2);
                match at.checked_sub(FULL / 2) {
                    Some(at) => upper.insert(at, entry),
                    None => full.insert(at, entry),
                }
                leaves.insert(leaf + 1, Arc::new(upper.into()));
            }
            Some(leaf) => leaf.insert(at, entry),
            None => leaves.push(Arc::new(vec![entry].into())),
        }
        (key, None)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, Arc<Stored>)> {
        let (leaf, at) = self.find(key).ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let removed = Arc::make_mut(&mut leaves[leaf]).remove(at);
        let left = leaves[leaf].len();
        if left == 0 {
            leaves.remove(leaf);
        } else if leaves.get(leaf + 1).is_some_and(|next| left + next.len() <= FULL / 2) {
            let next = leaves.remove(leaf + 1);
            Arc::make_mut(&mut leaves[leaf]).extend(Arc::unwrap_or_clone(next).entries);
        }
        Some(removed)
    }

    /// Those of a range, in the order of their keys.
    pub fn run(&self, range: &KeyRange) -> Run {
        let place = |key: &str| self.within(self.find(key).unwrap_or_else(|place| place));
        let end = range.end().map_or((self.leaves.len(), 0), place);
        Run { at: place(range.start()), end, objects: self.clone() }
    }

    /// Where the key is, or else where it would be, which may be behind the last of a leaf.
    fn find(&self, key: &str) -> Result<Place, Place> {
        let leaf = self.leaves.partition_point(|leaf| *leaf[0].0 <= *key).saturating_sub(1);
        let Some(entries) = self.leaves.get(leaf) else { return Err((0, 0)) };
        let found = entries.binary_search_by(|(known, _)| (**known).cmp(key));
        found.map(|at| (leaf, at)).map_err(|at| (leaf, at))
    }

    fn within(&self, (leaf, at): Place) -> Place {
        match self.leaves.get(leaf) {
            Some(entries) if at == entries.len() => (leaf + 1, 0),
            _ => (leaf, at),
        }
    }
}

impl From<Vec<(Key, Arc<Stored>)>> for Leaf {
    fn from(entries: Vec<(Key, Arc<Stored>)>) -> Self {
        Self { entries, ..Self::default() }
    }
}

impl Clone for Leaf {
    fn clone(&self) -> Self {
        self.entries.clone().into()
    }
}

impl Deref for Leaf {
    type Target = Vec<(Key, Arc<Stored>)>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl DerefMut for Leaf {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.encodings = OnceLock::new();
        &mut self.entries
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
    at: Place,
    end: Place,
}

impl Run {
    /// The next one, which stays.
    pub fn peek(&self) -> Option<&(Key, Arc<Stored>)> {
        (self.at < self.end).then(|| &self.objects.leaves[self.at.0][self.at.1])
    }

    /// Passes over the next one.
    pub fn pass(&mut self) {
        if self.at < self.end {
            self.at = self.objects.within((self.at.0, self.at.1 + 1));
        }
    }

    /// The next ones, if they are neighbours that may be shown as one to many who ask. They stay.
    pub fn neighbours(&self) -> Option<Neighbours> {
        let (leaf, at) = self.at;
        let neighbours =
            self.objects.leaves.get(leaf).filter(|leaf_| at == 0 && leaf < self.end.0 && leaf_.len() >= FEWEST)?;
        Some(Neighbours(neighbours.clone()))
    }

    /// Passes over what [`neighbours`](Self::neighbours) has told, which is to be asked first: else over all up to the next leaf.
    pub fn pass_neighbours(&mut self) {
        self.at = (self.at.0 + 1, 0);
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        let between = self.objects.leaves.get(self.at.0..self.end.0).into_iter().flatten();
        (between.map(|leaf| leaf.len()).sum::<usize>() + self.end.1).saturating_sub(self.at.1)
    }

    /// The same up to where `other`, which is the same but further on, has come.
    pub fn up_to(self, other: &Self) -> Self {
        Self { end: other.at, ..self }
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
pub struct Neighbours(Arc<Leaf>);

impl Neighbours {
    /// Each of them, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.iter().map(|(_, object)| object)
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
