//! The place of one member.

use super::{Map, MapLayout, find};
use crate::{Json, Text};

/// The place of a member, from [`Map::entry`].
#[derive(Debug)]
pub struct Entry<'a> {
    pub(super) members: &'a mut Map,
    pub(super) key: Text,
}

impl<'a> Entry<'a> {
    /// The member, which is `value` where there was none.
    pub fn or_insert(self, value: impl Into<Json>) -> &'a mut Json {
        self.or_insert_with(|| value.into())
    }

    /// The member; `make` makes it where there is none.
    pub fn or_insert_with(self, make: impl FnOnce() -> Json) -> &'a mut Json {
        let Self { members, key } = self;
        if !members.contains_key(&key) {
            return members.add(key, make());
        }
        match &mut members.0 {
            MapLayout::List(list) => {
                let at = find(list, &key).unwrap_or_else(|at| at);
                &mut list[at].1
            }
            MapLayout::Tree(tree) => tree.entry(key).or_insert_with(make),
        }
    }
}
