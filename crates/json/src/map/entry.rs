//! The entry of a key in a map.

use super::find;
use crate::json::{Json, Map, MapLayout};
use crate::text::Text;

/// A view into the occupied or vacant entry of a key in a [`Map`], which [`Map::entry`] returns.
#[derive(Debug)]
pub struct Entry<'a> {
    pub(super) members: &'a mut Map,
    pub(super) key: Text,
}

impl<'a> Entry<'a> {
    /// Returns a mutable reference to the value of the key, after inserting `value` if the key is absent.
    pub fn or_insert(self, value: impl Into<Json>) -> &'a mut Json {
        self.or_insert_with(|| value.into())
    }

    /// Returns a mutable reference to the value of the key, after inserting the result of `make` if the key is
    /// absent.
    pub fn or_insert_with(self, make: impl FnOnce() -> Json) -> &'a mut Json {
        let Self { members, key } = self;
        let found = match &members.0 {
            MapLayout::List(list) => find(list, &key),
            // Do not search the tree here, because `BTreeMap::entry` does the search.
            MapLayout::Tree(_) => Ok(0),
        };
        let Ok(at) = found else { return members.add(key, make()) };
        match &mut members.0 {
            MapLayout::List(list) => &mut list[at].1,
            MapLayout::Tree(tree) => tree.entry(key).or_insert_with(make),
        }
    }
}
