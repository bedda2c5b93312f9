//! What objects of the API have in common, in the words of JSON.
//!
//! None panics: a value of another type than a rule expects is left alone or counts as absent.

pub(crate) mod metadata;
mod ordered;

pub(crate) use metadata::metadata_mut;
pub(crate) use ordered::Ordered;

use std::collections::HashSet;
use std::hash::Hash;

use pintle_json::{Json, Text};

/// Whether two objects differ anywhere but in these members.
pub(crate) fn differ_outside(new: &Json, old: &Json, members: &[&str]) -> bool {
    let rest = |(key, _): &(&Text, &Json)| !members.contains(&key.as_str());
    !new.members("").filter(rest).eq(old.members("").filter(rest))
}

/// A scalar as the text that a field selector compares; "" for what is absent.
pub(crate) fn text(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
    }
}

/// Sets a member of the metadata, which are made if absent.
pub(crate) fn set_metadata(object: &mut Json, key: &str, value: impl Into<Json>) {
    if let Some(metadata) = object.member("metadata") {
        metadata.set(key, value);
    }
}

/// Removes a member of the metadata.
pub(crate) fn remove_metadata(object: &mut Json, key: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        metadata.unset(key);
    }
}

/// Gives `new` the member of `old`, or none.
pub(crate) fn put_back(new: &mut Json, old: &Json, key: &str) {
    match old.get(key) {
        Some(value) => new.set(key, value.clone()),
        None => new.unset(key),
    }
}

/// Gives `new` all of `old` but these members.
pub(crate) fn put_back_all_but(new: &mut Json, old: &Json, members: &[&str]) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    new.retain(|key, _| members.contains(&key.as_str()));
    new.extend(old.iter().filter(|(key, _)| !members.contains(&key.as_str())).map(|(key, value)| (key, value.clone())));
}

/// The condition of a type in the status.
pub(crate) fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Json> {
    object.list("/status/conditions").find(|condition| condition.text("/type") == kind)
}

/// Whether the status says that a condition holds.
pub(crate) fn holds(object: &Json, kind: &str) -> bool {
    let is = |condition: &Json| condition.text("/type") == kind && condition.text("/status") == "True";
    object.list("/status/conditions").any(is)
}

/// Sets a condition in the status, which is made if absent. Its time is that since which it is as it is; answers whether anything
/// changed.
pub(crate) fn set_condition(object: &mut Json, mut wanted: Json, now: &str) -> bool {
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

/// Of each item, whether it came before.
pub(crate) fn doubles<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.map(|item| !seen.insert(item)).collect()
}
