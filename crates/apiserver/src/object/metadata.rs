//! Reading and writing an object's metadata as JSON.

use std::collections::HashSet;

use pintle_json::{Json, Map, Text};

/// The metadata of an object; made, if there is none.
pub(crate) fn metadata_mut(object: &mut Json) -> &mut Map {
    if !object.is_object() {
        *object = Json::Object(Map::new());
    }
    let Json::Object(members) = object else { unreachable!("made an object above") };
    let metadata = members.entry("metadata").or_insert_with(|| Json::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Json::Object(Map::new());
    }
    let Json::Object(metadata) = metadata else { unreachable!("made an object above") };
    metadata
}

/// A member of the metadata.
pub(crate) fn member<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    object.get("metadata")?.get(name)
}

/// A text in the metadata; empty where it is absent.
pub(crate) fn text<'a>(object: &'a Json, name: &str) -> &'a str {
    member(object, name).and_then(Json::as_str).unwrap_or_default()
}

/// The name; empty where there is none.
pub(crate) fn name(object: &Json) -> &str {
    text(object, "name")
}

/// The namespace; empty in cluster scope.
pub(crate) fn namespace(object: &Json) -> &str {
    text(object, "namespace")
}

/// The UID; empty where the object has none yet.
pub(crate) fn uid(object: &Json) -> &str {
    text(object, "uid")
}

/// The finalizers.
pub(crate) fn finalizers(object: &Json) -> Vec<&str> {
    let list = member(object, "finalizers").and_then(Json::as_array);
    list.into_iter().flatten().filter_map(Json::as_str).collect()
}

/// Sets the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Json, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    match finalizers.is_empty() {
        true => metadata.remove("finalizers"),
        false => metadata.insert("finalizers", finalizers.into()),
    };
}

/// Whether a deletion is under way.
pub(crate) fn is_deleting(object: &Json) -> bool {
    member(object, "deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// The seconds that a deletion under way leaves the object.
pub(crate) fn grace_seconds(object: &Json) -> Option<i64> {
    member(object, "deletionGracePeriodSeconds").and_then(Json::as_i64)
}

/// The generation, if the object has one.
pub(crate) fn generation(object: &Json) -> Option<i64> {
    member(object, "generation").and_then(Json::as_i64)
}

/// Drops owner references that stand twice; answers what to warn of.
pub(crate) fn drop_repeated_owners(object: &mut Json) -> Vec<String> {
    let mut repeated = Vec::new();
    let references = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
    if let Some(references) = references.and_then(Json::as_array_mut) {
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
    let uids = repeated.join(" ");
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    )]
}

/// Whether two objects differ in more than the times of their managed fields.
pub(crate) fn differ(new: &Json, old: &Json) -> bool {
    fn rest(object: &Json) -> impl Iterator<Item = (&Text, &Json)> {
        let members = object.members("");
        members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    }
    !rest(new).eq(rest(old)) || timeless(new) != timeless(old)
}

fn timeless(object: &Json) -> Option<Json> {
    let mut metadata = object.get("metadata")?.clone();
    let managed = metadata.get_mut("managedFields").and_then(Json::as_array_mut);
    for entry in managed.into_iter().flatten().filter_map(Json::as_object_mut) {
        entry.remove("time");
    }
    Some(metadata)
}
