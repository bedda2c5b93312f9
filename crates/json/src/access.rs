//! Methods that read and change [`Json`] values. Methods that only read take a path, which is a JSON pointer. Methods that change a value
//! take a key. No method panics. A value of the wrong type is treated like an absent value, and is not changed.

use std::slice;

use crate::json::Json;
use crate::map::{Map, Members};

impl Json {
    /// Returns the string at this path. Returns "" if the path does not lead to a string.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Self::as_str).unwrap_or_default()
    }

    /// Returns the integer at this path.
    pub fn integer(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Self::as_i64)
    }

    /// Returns whether the value at this path is `true`.
    pub fn is_true(&self, path: &str) -> bool {
        self.at(path).and_then(Self::as_bool).unwrap_or_default()
    }

    /// Returns whether the path leads to a value other than `null`.
    pub fn has(&self, path: &str) -> bool {
        self.at(path).is_some_and(|value| !value.is_null())
    }

    /// Returns an iterator over the array at this path. The iterator is empty if the path does not lead to an array.
    pub fn list(&self, path: &str) -> slice::Iter<'_, Json> {
        self.at(path).and_then(Self::as_array).map(Vec::as_slice).unwrap_or_default().iter()
    }

    /// Returns an iterator over the strings in the array at this path. The iterator is empty if the path does not lead
    /// to an array.
    pub fn texts<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(path).filter_map(Self::as_str)
    }

    /// Returns an iterator over the members of the object at this path. The iterator is empty if the path does not lead to
    /// an object.
    pub fn members(&self, path: &str) -> Members<'_> {
        static NONE: Map = Map::new();
        self.at(path).and_then(Self::as_object).unwrap_or(&NONE).iter()
    }

    /// Sets the value of an object member.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            members.insert(key, value.into());
        }
    }

    /// Removes an object member.
    pub fn unset(&mut self, key: &str) {
        if let Some(members) = self.as_object_mut() {
            members.remove(key);
        }
    }

    /// Sets the value of an object member if the member is absent or `null`.
    pub fn set_default(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            let member = members.entry(key).or_insert(Self::Null);
            if member.is_null() {
                *member = value.into();
            }
        }
    }

    /// Returns an object member that is itself an object. If the member is absent or `null`, the method inserts an empty object.
    /// Returns `None` if `self` or the member has another type.
    pub fn member(&mut self, key: &str) -> Option<&mut Json> {
        self.set_default(key, Map::new());
        self.get_mut(key).filter(|member| member.is_object())
    }

    /// Returns a mutable iterator over the items of an object member that is an array. The iterator is empty if the member is not
    /// an array.
    pub fn items_mut(&mut self, key: &str) -> slice::IterMut<'_, Json> {
        self.get_mut(key).and_then(Self::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default().iter_mut()
    }
}
