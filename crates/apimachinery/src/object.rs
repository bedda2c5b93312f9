//! Functions for API objects as JSON.
//!
//! The functions in this module do not panic: they ignore values of unexpected types, or treat them as absent.

pub mod metadata;
mod ordered;

pub use metadata::metadata_mut;
pub use ordered::Ordered;

use std::collections::HashSet;
use std::hash::Hash;

use pintle_json::{Json, Text};

/// Returns `true` if two objects differ in a member that is not in `members`.
pub fn differ_outside(new: &Json, old: &Json, members: &[&str]) -> bool {
    let rest = |(key, _): &(&Text, &Json)| !members.contains(&key.as_str());
    !new.members("").filter(rest).eq(old.members("").filter(rest))
}

/// Formats a scalar as a string, for comparison with the value in a field selector. An absent value becomes an empty
/// string.
pub fn text(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
    }
}

/// Sets a metadata member, and creates the metadata if they are absent.
pub fn set_metadata(object: &mut Json, key: &str, value: impl Into<Json>) {
    if let Some(metadata) = object.member("metadata") {
        metadata.set(key, value);
    }
}

pub fn remove_metadata(object: &mut Json, key: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        metadata.unset(key);
    }
}

/// Copies the member `key` from `old` to `new`, or removes it from `new` if `old` does not have it.
pub fn restore_member(new: &mut Json, old: &Json, key: &str) {
    match old.get(key) {
        Some(value) => new.set(key, value.clone()),
        None => new.unset(key),
    }
}

/// Replaces all members of `new` with the members of `old`, except for the keys in `members`.
pub fn restore_except(new: &mut Json, old: &Json, members: &[&str]) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    new.retain(|key, _| members.contains(&key.as_str()));
    new.extend(old.iter().filter(|(key, _)| !members.contains(&key.as_str())).map(|(key, value)| (key, value.clone())));
}

/// Returns the status condition of type `kind`.
pub fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Json> {
    object.list("/status/conditions").find(|condition| condition.text("/type") == kind)
}

/// Returns `true` if the status condition of type `kind` is `True`.
pub fn holds(object: &Json, kind: &str) -> bool {
    let is_true_condition = |condition: &Json| condition.text("/type") == kind && condition.text("/status") == "True";
    object.list("/status/conditions").any(is_true_condition)
}

/// Sets a condition. Keeps `lastTransitionTime` if the condition's status does not change. Returns `true` if the
/// condition has changed the object.
pub fn set_condition(object: &mut Json, mut wanted: Json, now: &str) -> bool {
    let kind = wanted.text("/type").to_owned();
    let old = condition(object, &kind);
    let lasts = old.filter(|old| old.text("/status") == wanted.text("/status"));
    let time = lasts.map_or_else(|| now.into(), |old| old["lastTransitionTime"].clone());
    wanted.set("lastTransitionTime", time);
    if old == Some(&wanted) {
        return false;
    }
    let mut conditions: Vec<Json> = object.list("/status/conditions").cloned().collect();
    match conditions.iter_mut().find(|known| known.text("/type") == kind) {
        Some(known) => *known = wanted,
        None => conditions.push(wanted),
    }
    if let Some(status) = object.member("status") {
        status.set("conditions", conditions);
    }
    true
}

/// Returns one boolean per item, which is `true` if an equal item precedes the item.
pub fn duplicates<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.map(|item| !seen.insert(item)).collect()
}

/// Returns the key of an object within its resource.
pub fn key(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}
