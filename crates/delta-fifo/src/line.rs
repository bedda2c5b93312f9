//! A linked list of keyed entries.

use std::hash::Hash;
use std::ops::{Index, IndexMut};

use crate::keyed::{KeyHash, Keyed, Place};

/// A linked list of keyed entries, where every operation takes constant time.
#[derive(Debug)]
pub(crate) struct Line<K, V> {
    nodes: Keyed<K, Node<V>>,
    head: Place,
    tail: Place,
}

#[derive(Debug)]
struct Node<V> {
    prev: Place,
    next: Place,
    value: V,
}

/// The index before the first entry and after the last entry of the list. The index `END` contains
/// no entry.
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

    pub(crate) fn front(&self) -> Option<(Place, &K)> {
        Some((self.head, self.nodes.get(self.head)?.0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &K, &V)> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let (key, node) = self.nodes.get(next)?;
            let place = std::mem::replace(&mut next, node.next);
            Some((place, key, &node.value))
        })
    }

    /// Appends an entry. No listed entry may have the same key.
    pub(crate) fn push_back(&mut self, hash: KeyHash, key: K, value: V) -> Place {
        let place = self.nodes.insert(hash, key, Node { prev: END, next: END, value });
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

    pub(crate) fn move_to_back(&mut self, place: Place) {
        self.unlink(place);
        self.link(place);
    }

    /// Hides an entry from lookups by key, but keeps its position in the list.
    pub(crate) fn unlist(&mut self, place: Place) {
        self.nodes.unlist(place);
    }

    fn link(&mut self, place: Place) {
        let prev = std::mem::replace(&mut self.tail, place);
        let node = &mut self.nodes[place];
        (node.prev, node.next) = (prev, END);
        match prev {
            END => self.head = place,
            _ => self.nodes[prev].next = place,
        }
    }

    fn unlink(&mut self, place: Place) {
        let (prev, next) = (self.nodes[place].prev, self.nodes[place].next);
        match prev {
            END => self.head = next,
            _ => self.nodes[prev].next = next,
        }
        match next {
            END => self.tail = prev,
            _ => self.nodes[next].prev = prev,
        }
    }
}

impl<K: Eq + Hash, V> Line<K, V> {
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        self.nodes.hash(key)
    }

    pub(crate) fn find(&self, hash: KeyHash, key: &K) -> Option<Place> {
        self.nodes.find(hash, key)
    }

    pub(crate) fn place_of(&self, key: &K) -> Option<Place> {
        self.find(self.hash(key), key)
    }
}

/// Panics if there is no entry at the index.
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
