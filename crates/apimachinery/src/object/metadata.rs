//! Reads and writes object metadata as JSON.

use std::collections::HashSet;

use pintle_json::{Json, Map, Text};

/// Returns the object's metadata, and creates it first if it is absent or not an object.
pub fn metadata_mut(object: &mut Json) -> &mut Json {
    if !object.is_object() {
        *object = Json::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Json::Object(Map::new());
    }
    metadata
}

pub fn member<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    object["metadata"].get(name)
}

/// Returns the object's name, or an empty string if it has no name.
pub fn name(object: &Json) -> &str {
    object.text("/metadata/name")
}

/// Returns the object's namespace, or an empty string for a cluster-scoped object.
pub fn namespace(object: &Json) -> &str {
    object.text("/metadata/namespace")
}

/// Returns the object's uid, or an empty string if it has no uid yet.
pub fn uid(object: &Json) -> &str {
    object.text("/metadata/uid")
}

pub fn finalizers(object: &Json) -> Vec<&str> {
    object.texts("/metadata/finalizers").collect()
}

/// Sets the finalizers, or removes the field if the list is empty.
pub fn set_finalizers(object: &mut Json, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() { metadata.unset("finalizers") } else { metadata.set("finalizers", finalizers) }
}

/// Returns `true` if the object has a deletion timestamp.
pub fn is_deleting(object: &Json) -> bool {
    object.has("/metadata/deletionTimestamp")
}

/// Returns a terminating object's grace period in seconds.
pub fn grace_seconds(object: &Json) -> Option<i64> {
    object.integer("/metadata/deletionGracePeriodSeconds")
}

pub fn generation(object: &Json) -> Option<i64> {
    object.integer("/metadata/generation")
}

/// Removes duplicate owner references and returns the warnings about them. `is_patch` selects the text of the warnings:
/// kube-apiserver uses a different text for patches, because it checks patches after mutating admission.
pub fn drop_repeated_owners(object: &mut Json, is_patch: bool) -> Vec<String> {
    let mut repeated = Vec::new();
    if let Some(Json::Array(references)) = object.at_mut("/metadata/ownerReferences") {
        let mut seen = HashSet::new();
        references.retain(|reference| {
            let first = seen.insert(reference.clone());
            if !first {
                repeated.push(reference.text("/uid").to_owned());
            }
            first
        });
    }
    if repeated.is_empty() {
        return Vec::new();
    }
    let (uids, when) = (repeated.join(" "), if is_patch { " after mutating admission happens" } else { "" });
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    )]
}

/// Returns `true` if two objects differ in their JSON text, ignoring timestamps in managed fields. The float `1.0`, which
/// is written as `1`, equals the integer.
pub fn differ(new: &Json, old: &Json) -> bool {
    fn rest(object: &Json) -> impl Iterator<Item = (&Text, &Json)> {
        let members = object.members("");
        members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    }
    !all_same(rest(new), rest(old)) || without_times(new) != without_times(old)
}

fn all_same<'a>(
    mut new: impl Iterator<Item = (&'a Text, &'a Json)>,
    mut old: impl Iterator<Item = (&'a Text, &'a Json)>,
) -> bool {
    loop {
        match (new.next(), old.next()) {
            (Some((name, new)), Some((other, old))) if name == other && is_same(new, old) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

fn is_same(new: &Json, old: &Json) -> bool {
    match (new, old) {
        (Json::Object(new), Json::Object(old)) => all_same(new.iter(), old.iter()),
        (Json::Array(new), Json::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| is_same(new, old))
        }
        (Json::Number(_), Json::Number(_)) => new == old || new.is_f64() && format!("{new}") == format!("{old}"),
        _ => new == old,
    }
}

fn without_times(object: &Json) -> Option<Json> {
    let mut metadata = object.get("metadata")?.clone();
    metadata.items_mut("managedFields").for_each(|entry| entry.unset("time"));
    Some(metadata)
}
