//! The words in which values are read and changed. What reads takes a path, what changes takes a key. None panics: a value of another
//! type than is asked for counts as absent, and is left alone.

use std::slice;

use crate::{Json, Map, Members};

impl Json {
    /// The text at a path; "" if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Self::as_str).unwrap_or_default()
    }

    /// The integer at a path.
    pub fn integer(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Self::as_i64)
    }

    /// Whether there is `true` at a path.
    pub fn is_true(&self, path: &str) -> bool {
        self.at(path).and_then(Self::as_bool).unwrap_or_default()
    }

    /// Whether there is anything but `null` at a path.
    pub fn has(&self, path: &str) -> bool {
        self.at(path).is_some_and(|value| !value.is_null())
    }

    /// The items of the list at a path; none if there is no list.
    pub fn list(&self, path: &str) -> slice::Iter<'_, Json> {
        self.at(path).and_then(Self::as_array).map(Vec::as_slice).unwrap_or_default().iter()
    }

    /// The texts in the list at a path; none if there is no list.
    pub fn texts<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(path).filter_map(Self::as_str)
    }

    /// The members of the object at a path; none if there is no object.
    pub fn members(&self, path: &str) -> Members<'_> {
        static NONE: Map = Map::new();
        self.at(path).and_then(Self::as_object).unwrap_or(&NONE).iter()
    }

    /// Sets a member of an object.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            members.insert(key, value.into());
        }
    }

    /// Removes a member of an object.
    pub fn unset(&mut self, key: &str) {
        if let Some(members) = self.as_object_mut() {
            members.remove(key);
        }
    }

    /// Sets a member that is absent or `null`.
    pub fn set_default(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(members) = self.as_object_mut() {
            let member = members.entry(key).or_insert(Self::Null);
            if member.is_null() {
                *member = value.into();
            }
        }
    }

    /// The member of an object that is an object itself, made where it is absent or `null`; `None` if either is of another type.
    pub fn member(&mut self, key: &str) -> Option<&mut Json> {
        self.set_default(key, Map::new());
        self.get_mut(key).filter(|member| member.is_object())
    }

    /// The items of a list member, to be changed; none if there is no list.
    pub fn items_mut(&mut self, key: &str) -> slice::IterMut<'_, Json> {
        self.get_mut(key).and_then(Self::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default().iter_mut()
    }
}
