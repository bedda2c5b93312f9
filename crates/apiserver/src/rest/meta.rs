//! Reading and writing an object's metadata as JSON.

use serde_json::{Map, Value};

/// The metadata of an object; made, if there is none.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(members) = object else { unreachable!("made an object above") };
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else { unreachable!("made an object above") };
    metadata
}

/// A member of the metadata.
pub(crate) fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(name)
}

/// A text in the metadata; empty where it is absent.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    member(object, name).and_then(Value::as_str).unwrap_or_default()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = member(object, "finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    match finalizers.is_empty() {
        true => metadata.remove("finalizers"),
        false => metadata.insert("finalizers".into(), finalizers.into()),
    };
}

/// Whether a deletion is under way.
pub(crate) fn is_deleting(object: &Value) -> bool {
    member(object, "deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// The seconds that a deletion under way leaves the object.
pub(crate) fn grace_seconds(object: &Value) -> Option<i64> {
    member(object, "deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// The generation, if the object has one.
pub(crate) fn generation(object: &Value) -> Option<i64> {
    member(object, "generation").and_then(Value::as_i64)
}

/// Whether two objects differ in more than the times of their managed fields.
pub(crate) fn differ(new: &Value, old: &Value) -> bool {
    let skip = ["apiVersion", "kind", "metadata"];
    let rest = |object: &Value| {
        object.as_object().map(|members| {
            members
                .iter()
                .filter(|(name, _)| !skip.contains(&name.as_str()))
                .map(|(_, value)| value.clone())
                .collect::<Vec<_>>()
        })
    };
    let names = |object: &Value| {
        object
            .as_object()
            .map(|members| members.keys().filter(|name| !skip.contains(&name.as_str())).cloned().collect::<Vec<_>>())
    };
    names(new) != names(old) || rest(new) != rest(old) || timeless(new) != timeless(old)
}

fn timeless(object: &Value) -> Option<Value> {
    let mut metadata = object.get("metadata")?.clone();
    let managed = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in managed.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("time");
    }
    Some(metadata)
}
