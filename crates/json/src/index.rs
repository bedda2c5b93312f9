//! `value["key"]` and `value[0]`.

use std::ops::{Index, IndexMut};

use crate::{Json, Map, Text};

/// What a member can be asked for by.
macro_rules! keys {
    ($($key:ty)*) => {$(
        /// A member; `null` if there is none.
        impl Index<$key> for Json {
            type Output = Json;

            fn index(&self, key: $key) -> &Json {
                let key: &str = key.as_ref();
                self.get(key).unwrap_or(&Json::Null)
            }
        }

        /// A member, made if there is none, as is the object itself where there is `null`.
        ///
        /// # Panics
        /// If this is neither an object nor `null`.
        impl IndexMut<$key> for Json {
            fn index_mut(&mut self, key: $key) -> &mut Json {
                let key: &str = key.as_ref();
                if self.is_null() {
                    *self = Json::Object(Map::new());
                }
                match self {
                    Json::Object(members) => members.entry(key).or_insert(Json::Null),
                    other => panic!("no object has the member {key:?}: {other}"),
                }
            }
        }
    )*};
}

keys!(&str &String String &Text);

/// An item; `null` if there is none.
impl Index<usize> for Json {
    type Output = Json;

    fn index(&self, at: usize) -> &Json {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&Json::Null)
    }
}

/// An item.
///
/// # Panics
/// If there is none.
impl IndexMut<usize> for Json {
    fn index_mut(&mut self, at: usize) -> &mut Json {
        match self {
            Json::Array(items) => &mut items[at],
            other => panic!("no list has an item {at}: {other}"),
        }
    }
}

/// A member; `null` if there is none.
impl Index<&str> for Map {
    type Output = Json;

    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&Json::Null)
    }
}
