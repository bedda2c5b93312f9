//! Indexing with `value["key"]` and `value[0]`.

use std::ops::{Index, IndexMut};

use crate::json::Json;
use crate::map::Map;
use crate::text::Text;

macro_rules! keys {
    ($($key:ty)*) => {$(
        /// Returns a member, or `null` if there is no such member.
        impl Index<$key> for Json {
            type Output = Json;

            fn index(&self, key: $key) -> &Json {
                let key: &str = key.as_ref();
                self.get(key).unwrap_or(&Json::Null)
            }
        }

        /// Returns a member. An absent member is inserted with the value `null`. If `self` is `null`, `self` first
        /// becomes an empty object.
        ///
        /// # Panics
        /// Panics if `self` is not an object or `null`.
        impl IndexMut<$key> for Json {
            fn index_mut(&mut self, key: $key) -> &mut Json {
                let key: &str = key.as_ref();
                if self.is_null() {
                    *self = Json::Object(Map::new());
                }
                match self {
                    Json::Object(members) => members.entry(key).or_insert(Json::Null),
                    other => panic!("cannot access key {key:?}: not an object: {other}"),
                }
            }
        }
    )*};
}

keys!(&str &String String &Text);

/// Returns an item, or `null` if there is no such item.
impl Index<usize> for Json {
    type Output = Json;

    fn index(&self, at: usize) -> &Json {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&Json::Null)
    }
}

/// Returns an item.
///
/// # Panics
/// Panics if `self` is not an array or has no item at this index.
impl IndexMut<usize> for Json {
    fn index_mut(&mut self, at: usize) -> &mut Json {
        match self {
            Json::Array(items) => &mut items[at],
            other => panic!("cannot access index {at}: not an array: {other}"),
        }
    }
}

/// Returns a member, or `null` if there is no such member.
impl Index<&str> for Map {
    type Output = Json;

    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&Json::Null)
    }
}
