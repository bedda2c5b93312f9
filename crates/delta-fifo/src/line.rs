//! Keyed entries in a line: found by key, taken out at the front, or anywhere.

use std::hash::Hash;
use std::ops::{Index, IndexMut};

use crate::keyed::{KeyHash, Keyed, Place};

/// Entries in a line. Each step takes the same time, however long the line is.
#[derive(Debug)]
pub(crate) struct Line<K, V> {
    nodes: Keyed<K, Node<V>>,
    head: Place,
    tail: Place,
}

#[derive(Debug)]
struct Node<V> {
    before: Place,
    behind: Place,
    value: V,
}

/// The place of nothing.
const END: Place = Place::MAX;

impl<K, V> Line<K, V> {
    pub(crate) fn new() -> Self {
        Self { nodes: Keyed::new(), head: END, tail: END }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry that has waited longest.
    pub(crate) fn front(&self) -> Option<(Place, &K)> {
        Some((self.head, self.nodes.get(self.head)?.0))
    }

    /// All entries, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &K, &V)> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let (key, node) = self.nodes.get(next)?;
            let place = std::mem::replace(&mut next, node.behind);
            Some((place, key, &node.value))
        })
    }

    /// Puts an entry at the end of the line. There must be none that can be found by its key, whose hash is `hash`.
    pub(crate) fn push_back(&mut self, hash: KeyHash, key: K, value: V) -> Place {
        let place = self.nodes.insert(hash, key, Node { before: END, behind: END, value });
        self.link(place);
        place
    }

    pub(crate) fn pop_front(&mut self) -> Option<(K, V)> {
        self.remove(self.head)
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<(K, V)> {
        self.nodes.get(place)?;
        self.unlink(place);
        let (key, node) = self.nodes.remove(place)?;
        Some((key, node.value))
    }

    /// Makes an entry the last one in the line.
    pub(crate) fn move_to_back(&mut self, place: Place) {
        self.unlink(place);
        self.link(place);
    }

    /// Leaves an entry in the line, such that its key does not find it.
    pub(crate) fn unlist(&mut self, place: Place) {
        self.nodes.unlist(place);
    }

    fn link(&mut self, place: Place) {
        let before = std::mem::replace(&mut self.tail, place);
        let node = &mut self.nodes[place];
        (node.before, node.behind) = (before, END);
        match before {
            END => self.head = place,
            _ => self.nodes[before].behind = place,
        }
    }

    fn unlink(&mut self, place: Place) {
        let (before, behind) = (self.nodes[place].before, self.nodes[place].behind);
        match before {
            END => self.head = behind,
            _ => self.nodes[before].behind = behind,
        }
        match behind {
            END => self.tail = before,
            _ => self.nodes[behind].before = before,
        }
    }
}

impl<K: Eq + Hash, V> Line<K, V> {
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        self.nodes.hash(key)
    }

    /// Where the entry of a key is; `hash` is the key's.
    pub(crate) fn find(&self, hash: KeyHash, key: &K) -> Option<Place> {
        self.nodes.find(hash, key)
    }

    /// The same, by the key alone.
    pub(crate) fn place_of(&self, key: &K) -> Option<Place> {
        self.find(self.hash(key), key)
    }
}

/// The entry of a place that is in use.
impl<K, V> Index<Place> for Line<K, V> {
    type Output = V;

    fn index(&self, place: Place) -> &V {
        &self.nodes[place].value
    }
}

impl<K, V> IndexMut<Place> for Line<K, V> {
    fn index_mut(&mut self, place: Place) -> &mut V {
        &mut self.nodes[place].value
    }
}
