//! Small ways to read and change JSON objects, used by the rules of the kinds.
//!
//! None panics: a value of another type than a rule expects is left alone or counts as absent.

pub(crate) mod metadata;
mod ordered;

pub(crate) use metadata::metadata_mut;
pub(crate) use ordered::Ordered;

use std::collections::HashSet;
use std::hash::Hash;

use pintle_json::{Json, Map, Text};

/// Whether two objects differ anywhere but in these members.
pub(crate) fn differ_outside(new: &Json, old: &Json, members: &[&str]) -> bool {
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let outside = |key: &&Text| !members.contains(&key.as_str());
    new.keys().filter(outside).any(|key| new.get(key) != old.get(key))
        || old.keys().filter(outside).any(|key| !new.contains_key(key))
}

/// A scalar as the text that a field selector compares; "" for what is absent.
pub(crate) fn text(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
    }
}

/// Sets a member of an object; anything but an object is left alone.
pub(crate) fn set(object: &mut Json, key: &str, value: Json) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key, value);
    }
}

/// Removes a member of an object.
pub(crate) fn remove(object: &mut Json, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(key);
    }
}

/// Sets a member of the metadata, which are made if absent.
pub(crate) fn set_metadata(object: &mut Json, key: &str, value: Json) {
    if let Some(members) = object.as_object_mut() {
        let metadata = members.entry("metadata").or_insert_with(|| Json::Object(Map::new()));
        set(metadata, key, value);
    }
}

/// Removes a member of the metadata.
pub(crate) fn remove_metadata(object: &mut Json, key: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        remove(metadata, key);
    }
}

/// Gives `new` the member of `old`, or none.
pub(crate) fn put_back(new: &mut Json, old: &Json, key: &str) {
    match old.get(key) {
        Some(value) => set(new, key, value.clone()),
        None => remove(new, key),
    }
}

/// Gives `new` all of `old` but these members.
pub(crate) fn put_back_all_but(new: &mut Json, old: &Json, members: &[&str]) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    new.retain(|key, _| members.contains(&key.as_str()));
    for (key, value) in old.iter().filter(|(key, _)| !members.contains(&key.as_str())) {
        new.insert(key.clone(), value.clone());
    }
}

/// Sets a member that is absent or null.
pub(crate) fn default(object: &mut Json, key: &str, value: impl Into<Json>) {
    if let Some(members) = object.as_object_mut() {
        let member = members.entry(key).or_insert(Json::Null);
        if member.is_null() {
            *member = value.into();
        }
    }
}

/// A member that is an object, made if absent or null; `None` if `object` or the member is of another type.
pub(crate) fn member<'a>(object: &'a mut Json, key: &str) -> Option<&'a mut Json> {
    default(object, key, Json::Object(Map::new()));
    object.get_mut(key).filter(|member| member.is_object())
}

/// A member that is an object and there.
pub(crate) fn present<'a>(object: &'a mut Json, key: &str) -> Option<&'a mut Json> {
    object.get_mut(key).filter(|member| member.is_object())
}

/// The items of a list member; none if it is absent.
pub(crate) fn items<'a>(object: &'a mut Json, key: &str) -> impl Iterator<Item = &'a mut Json> {
    object.get_mut(key).and_then(Json::as_array_mut).into_iter().flatten()
}

/// The items of the list at a pointer; none if it is absent.
pub(crate) fn list<'a>(object: &'a Json, pointer: &str) -> impl Iterator<Item = &'a Json> + use<'a> {
    object.at(pointer).and_then(Json::as_array).into_iter().flatten()
}

/// The text at a pointer; "" if there is none.
pub(crate) fn text_at<'a>(object: &'a Json, pointer: &str) -> &'a str {
    object.at(pointer).and_then(Json::as_str).unwrap_or_default()
}

/// The integer at a pointer.
pub(crate) fn integer_at(object: &Json, pointer: &str) -> Option<i64> {
    object.at(pointer).and_then(Json::as_i64)
}

/// Whether there is `true` at a pointer.
pub(crate) fn is_true(object: &Json, pointer: &str) -> bool {
    object.at(pointer).and_then(Json::as_bool).unwrap_or_default()
}

/// The condition of a type in the status.
pub(crate) fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Json> {
    list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == kind)
}

/// Whether the status says that a condition holds.
pub(crate) fn holds(object: &Json, kind: &str) -> bool {
    let is = |condition: &Json| text_at(condition, "/type") == kind && text_at(condition, "/status") == "True";
    list(object, "/status/conditions").any(is)
}

/// Whether there is anything but null at a pointer.
pub(crate) fn has(object: &Json, pointer: &str) -> bool {
    object.at(pointer).is_some_and(|value| !value.is_null())
}

/// Whether a value is null, an empty object, list or text.
pub(crate) fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(members) => members.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Of each item, whether it came before.
pub(crate) fn doubles<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.map(|item| !seen.insert(item)).collect()
}
