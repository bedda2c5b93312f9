//! Indexing with `value["key"]` and `value[0]`.

use std::ops::{Index, IndexMut};

use crate::json::{Json, Map};
use crate::text::Text;

macro_rules! keys {
    ($($key:ty)*) => {$(
        /// Returns a member of an object, or `null` if the member is absent.
        impl Index<$key> for Json {
            type Output = Json;

            fn index(&self, key: $key) -> &Json {
                let key: &str = key.as_ref();
                self.get(key).unwrap_or(&Json::Null)
            }
        }

        /// Returns a member of an object, which becomes `null` if it is absent. A `null` value becomes an empty
        /// object first.
        ///
        /// # Panics
        /// Panics if `self` is a value other than an object or `null`.
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

/// Returns an item of an array, or `null` if the index is out of range.
impl Index<usize> for Json {
    type Output = Json;

    fn index(&self, at: usize) -> &Json {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&Json::Null)
    }
}

/// Returns an item.
///
/// # Panics
/// Returns an item of an array for modification, and panics if `self` is not an array or the index is out of range.
impl IndexMut<usize> for Json {
    fn index_mut(&mut self, at: usize) -> &mut Json {
        match self {
            Json::Array(items) => &mut items[at],
            other => panic!("cannot access index {at}: not an array: {other}"),
        }
    }
}

/// Returns a member of an object, or `null` if the member is absent.
impl Index<&str> for Map {
    type Output = Json;

    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&Json::Null)
    }
}
