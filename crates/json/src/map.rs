//! The methods of [`Map`].

mod entry;
mod iter;

use std::fmt;
use std::hash::{Hash, Hasher};

pub use entry::Entry;
pub use iter::{IntoMembers, Members, MembersMut};

use crate::json::{Json, Map, MapLayout};
use crate::text::Text;

/// The maximum number of members in the list layout. An insertion moves at most this number of members.
const MAX_LIST_LEN: usize = 32;

impl Map {
    /// Creates an empty map without allocating.
    pub const fn new() -> Self {
        Self(MapLayout::List(Vec::new()))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            MapLayout::List(list) => list.len(),
            MapLayout::Tree(tree) => tree.len(),
        }
    }

    /// Returns `true` if the map has no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of `key`, or `None` if the map does not contain `key`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match &self.0 {
            MapLayout::List(list) => find(list, key).ok().map(|at| &list[at].1),
            MapLayout::Tree(tree) => tree.get(key),
        }
    }

    /// Returns a mutable reference to the value of `key`.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        match &mut self.0 {
            MapLayout::List(list) => find(list, key).ok().map(|at| &mut list[at].1),
            MapLayout::Tree(tree) => tree.get_mut(key),
        }
    }

    /// Returns `true` if the map contains `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Inserts a member, and returns the previous value of the key, if any.
    pub fn insert(&mut self, key: impl Into<Text>, value: Json) -> Option<Json> {
        let key = key.into();
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        self.add(key, value);
        None
    }

    /// Returns the entry of a key for in-place insertion or modification.
    pub fn entry(&mut self, key: impl Into<Text>) -> Entry<'_> {
        Entry { members: self, key: key.into() }
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        match &mut self.0 {
            MapLayout::List(list) => find(list, key).ok().map(|at| list.remove(at).1),
            MapLayout::Tree(tree) => tree.remove(key),
        }
    }

    /// Keeps only the members for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Json) -> bool) {
        match &mut self.0 {
            MapLayout::List(list) => list.retain_mut(|(key, value)| keep(key, value)),
            MapLayout::Tree(tree) => tree.retain(keep),
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Inserts a member, whose key must not be in the map yet.
    fn add(&mut self, key: Text, value: Json) -> &mut Json {
        if let MapLayout::List(list) = &mut self.0 {
            if list.len() == MAX_LIST_LEN {
                self.0 = MapLayout::Tree(Box::new(std::mem::take(list).into_iter().collect()));
            } else if list.len() == list.capacity() {
                // Start with a capacity of one and then four, because most objects have one member, and many have up
                // to four. `Vec` would start with a capacity of four.
                list.reserve_exact([1, 3].get(list.len()).copied().unwrap_or(list.len()));
            }
        }
        match &mut self.0 {
            MapLayout::List(list) => {
                let at = find(list, &key).unwrap_or_else(|at| at);
                list.insert(at, (key, value));
                &mut list[at].1
            }
            MapLayout::Tree(tree) => tree.entry(key).or_insert(value),
        }
    }
}

/// Returns the index of a key in the list layout, or as an error the index at which to insert it.
fn find(list: &[(Text, Json)], key: &str) -> Result<usize, usize> {
    match list.last() {
        // Compare with the last member first, because most keys are inserted in ascending order.
        Some((last, _)) if last.as_str() < key => Err(list.len()),
        _ => list.binary_search_by(|(known, _)| known.as_str().cmp(key)),
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

/// Compares maps by their members, ignoring differences in layout.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|member| member.hash(state));
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts the keys `0..many` in the given order, and returns an upper bound for the number of moved members.
    fn moved(many: usize, order: impl FnOnce(&mut Vec<usize>)) -> usize {
        let mut keys: Vec<_> = (0..many).collect();
        order(&mut keys);
        let mut map = Map::new();
        let mut moved = 0;
        for key in keys {
            map.insert(format!("{key:08}"), Json::Null);
            moved += match &map.0 {
                MapLayout::List(list) => list.len(),
                MapLayout::Tree(_) => 0,
            };
        }
        assert_eq!(map.len(), many);
        moved
    }

    #[test]
    fn no_order_of_keys_makes_insertion_quadratic() {
        const MANY: usize = 100_000;
        let seed = fastrand::u64(..);
        let all = [
            moved(MANY, |_| ()),
            moved(MANY, |keys| keys.reverse()),
            moved(MANY, |keys| fastrand::Rng::with_seed(seed).shuffle(keys)),
        ];
        assert!(all.iter().all(|moved| *moved <= MAX_LIST_LEN * MAX_LIST_LEN), "{all:?}, seed {seed}");
    }
}
