//! Methods to read and modify [`Json`] values.
//!
//! Methods that read a value take a JSON pointer, except [`get`](Json::get). Methods that modify a value take a key. None
//! of these methods panics. If a value has the wrong type, it counts as absent and is not modified.

use std::slice;

use crate::json::{Json, Map};
use crate::map::Members;

impl Json {
    /// Returns `true` if the value is `null`, an empty string, an empty array or an empty object.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::String(text) => text.is_empty(),
            Self::Array(items) => items.is_empty(),
            Self::Object(members) => members.is_empty(),
            Self::Bool(_) | Self::Number(_) => false,
        }
    }

    /// Returns the member `key` of an object, or `None` if it is absent.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.as_object()?.get(key)
    }

    /// Returns a mutable reference to the member `key` of an object, or `None` if it is absent.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Returns the string at `path`, or `""` if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Self::as_str).unwrap_or_default()
    }

    /// Returns the integer at `path`, or `None` if the value is not an integer in the range of `i64`.
    pub fn integer(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Self::as_i64)
    }

    /// Returns `true` if the value at `path` is `true`.
    pub fn is_true(&self, path: &str) -> bool {
        self.at(path).and_then(Self::as_bool).unwrap_or_default()
    }

    /// Returns `true` if the value at `path` is present and not `null`.
    pub fn has(&self, path: &str) -> bool {
        self.at(path).is_some_and(|value| !value.is_null())
    }

    /// Returns an iterator over the items of the array at `path`, or an empty iterator if there is no array.
    pub fn list(&self, path: &str) -> slice::Iter<'_, Json> {
        self.at(path).and_then(Self::as_array).map(Vec::as_slice).unwrap_or_default().iter()
    }

    /// Returns an iterator over the strings in the array at `path`, or an empty iterator if there is no array.
    pub fn texts<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(path).filter_map(Self::as_str)
    }

    /// Returns an iterator over the members of the object at `path`, or an empty iterator if there is no object.
    pub fn members(&self, path: &str) -> Members<'_> {
        static NONE: Map = Map::new();
        self.at(path).and_then(Self::as_object).unwrap_or(&NONE).iter()
    }

    /// Sets the object member `key`. Does nothing if `self` is not an object.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            members.insert(key, value.into());
        }
    }

    /// Returns the name of the JSON type: `null`, `bool`, `number`, `string`, `array` or `object`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Removes the object member `key`. Does nothing if `self` is not an object.
    pub fn unset(&mut self, key: &str) {
        if let Some(members) = self.as_object_mut() {
            members.remove(key);
        }
    }

    /// Sets the object member `key` if it is absent or `null`.
    pub fn set_default(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            let member = members.entry(key).or_insert(Self::Null);
            if member.is_null() {
                *member = value.into();
            }
        }
    }

    /// Returns the object in the member `key`, and creates an empty object if the member is absent or `null`. Returns
    /// `None` if `self` or the member is not an object.
    pub fn member(&mut self, key: &str) -> Option<&mut Json> {
        self.set_default(key, Map::new());
        self.get_mut(key).filter(|member| member.is_object())
    }

    /// Returns a mutable iterator over the items of the array in the member `key`, or an empty iterator if the member
    /// is not an array.
    pub fn items_mut(&mut self, key: &str) -> slice::IterMut<'_, Json> {
        self.get_mut(key).and_then(Self::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default().iter_mut()
    }
}
