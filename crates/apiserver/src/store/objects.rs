//! The objects of one resource as a value that is cheap to keep.

use std::sync::Arc;

use super::{Key, Range, Stored};

/// Objects by key. A clone costs nothing and shows for ever what was there when it was made.
///
/// There are two levels: runs of neighbours, and the list of them. A write copies the one run that it is about, and the list, and
/// these only where a clone shares them with it: so at most one write after each clone copies as many references as there are
/// runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// None of them is empty.
    leaves: Arc<Vec<Arc<Leaf>>>,
}

type Leaf = Vec<(Key, Arc<Stored>)>;

/// So many objects share a leaf at most; few in tests, so that leaves come and go in these.
const FULL: usize = if cfg!(test) { 4 } else { 128 };

/// A leaf, and a place in it that is within it; or behind the last leaf.
type Slot = (usize, usize);

impl Objects {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
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
            Some(full) if full.len() >= FULL && is_last && at == full.len() => leaves.push(Arc::new(vec![entry])),
            Some(full) if full.len() >= FULL => {
                let mut upper = full.split_off(FULL / 2);
                match at.checked_sub(FULL / 2) {
                    Some(at) => upper.insert(at, entry),
                    None => full.insert(at, entry),
                }
                leaves.insert(leaf + 1, Arc::new(upper));
            }
            Some(leaf) => leaf.insert(at, entry),
            None => leaves.push(Arc::new(vec![entry])),
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
            Arc::make_mut(&mut leaves[leaf]).extend(Arc::unwrap_or_clone(next));
        }
        Some(removed)
    }

    /// Those of a range, in the order of their keys.
    pub(crate) fn run(&self, range: &Range) -> Run {
        let place = |key: &str| self.within(self.find(key).unwrap_or_else(|place| place));
        let end = range.end().map_or((self.leaves.len(), 0), place);
        Run { at: place(range.start()), end, objects: self.clone() }
    }

    /// Where the key is, or else where it would be, which may be behind the last of a leaf.
    fn find(&self, key: &str) -> Result<Slot, Slot> {
        let leaf = self.leaves.partition_point(|leaf| *leaf[0].0 <= *key).saturating_sub(1);
        let Some(entries) = self.leaves.get(leaf) else { return Err((0, 0)) };
        let found = entries.binary_search_by(|(known, _)| (**known).cmp(key));
        found.map(|at| (leaf, at)).map_err(|at| (leaf, at))
    }

    fn within(&self, (leaf, at): Slot) -> Slot {
        match self.leaves.get(leaf) {
            Some(entries) if at == entries.len() => (leaf + 1, 0),
            _ => (leaf, at),
        }
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
pub(crate) struct Run {
    objects: Objects,
    at: Slot,
    end: Slot,
}

impl Run {
    /// The next one, which stays.
    pub(crate) fn peek(&self) -> Option<&(Key, Arc<Stored>)> {
        (self.at < self.end).then(|| &self.objects.leaves[self.at.0][self.at.1])
    }

    pub(crate) fn pass(&mut self) {
        if self.at < self.end {
            self.at = self.objects.within((self.at.0, self.at.1 + 1));
        }
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        let between = self.objects.leaves.get(self.at.0..self.end.0).into_iter().flatten();
        (between.map(|leaf| leaf.len()).sum::<usize>() + self.end.1).saturating_sub(self.at.1)
    }

    /// The same up to where `other`, which is the same but further on, has come.
    pub(crate) fn up_to(self, other: &Self) -> Self {
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
