//! Applies the changes of a handler to the JSON that the API server sent.
//!
//! A Rust type may declare only some fields of the object. If the patch were computed from the JSON and the returned
//! object, it would remove the other fields. Therefore, this module compares the objects before and after the handler,
//! and applies the differences to the JSON.

use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value, json};

use crate::elements::origins;

/// Applies the changes between `before` and `after` to `sent`. If a field of `sent` is missing in both `before` and
/// `after`, its value is kept.
///
/// The recursion depth equals the nesting depth. The JSON parser limits the nesting depth of `sent` to 128. `before`
/// and `after` are serialized from Rust types.
pub(crate) fn merge(sent: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return sent.clone();
    }
    match (sent, before, after) {
        (Value::Object(sent), Value::Object(before), Value::Object(after)) => merge_objects(sent, before, after).into(),
        // Merge the elements one by one only if `sent` and `before` have the same length. Otherwise, decoding has
        // dropped or added elements, so the positions in the two lists do not match. A list of scalars is replaced as a
        // whole, because it has no unknown fields to keep.
        (Value::Array(sent), Value::Array(before), Value::Array(after))
            if sent.len() == before.len() && sent.iter().any(|element| element.is_object() || element.is_array()) =>
        {
            merge_lists(sent, before, after).into()
        }
        _ => after.clone(),
    }
}

fn merge_objects(
    sent: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let empty = Value::Object(Map::new());
    let mut merged = sent.clone();
    for (name, new) in after {
        let old = before.get(name);
        if old == Some(new) {
            continue;
        }
        let value = match (sent.get(name), old) {
            (Some(sent), Some(old)) => merge(sent, old, new),
            // The map was empty before the change, so the Rust type did not serialize it. However, the map in the JSON
            // may contain members that are not declared in the Rust type.
            (Some(sent @ Value::Object(_)), None) => merge(sent, &empty, new),
            _ => new.clone(),
        };
        merged.insert(name.clone(), value);
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        merged.remove(name);
    }
    merged
}

fn merge_lists(sent: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let origins = origins(sent, before, after);
    let merged = after.iter().zip(origins).map(|(new, origin)| match origin {
        Some((sent_at, at)) => merge(&sent[sent_at], &before[at], new),
        None => new.clone(),
    });
    merged.collect()
}

/// Corrects the parts of `merged` that do not decode as expected. `decoded` contains the actual result of decoding
/// `merged`. Where `decoded` and `expected` differ, the part of `merged` is replaced with the part of `after`. Lists
/// are replaced as a whole. The elements of all lists in `decoded` and `expected` are
/// [sorted](crate::elements::sorted).
pub(crate) fn correct(merged: &mut Value, decoded: &Value, expected: &Value, after: &Value) {
    if decoded == expected {
        return;
    }
    match (merged, decoded, expected, after) {
        (Value::Object(merged), Value::Object(decoded), Value::Object(expected), Value::Object(after)) => {
            let names: BTreeSet<_> = decoded.keys().chain(expected.keys()).collect();
            for name in names {
                let (decoded, expected) = (decoded.get(name), expected.get(name));
                match (merged.get_mut(name), decoded, expected, after.get(name)) {
                    _ if decoded == expected => (),
                    (Some(merged), Some(decoded), Some(expected), Some(after)) => {
                        correct(merged, decoded, expected, after);
                    }
                    (.., Some(after)) => _ = merged.insert(name.clone(), after.clone()),
                    (.., None) => _ = merged.remove(name),
                }
            }
        }
        (merged, ..) => merged.clone_from(after),
    }
}

/// The maximum number of operations in a patch. The API server needs quadratic time for many operations on the same
/// list.
const OPERATIONS: usize = 500;

/// Returns the JSON patch that changes `sent` to `merged`. Returns `None` if they are equal. If the patch would have
/// too many operations, it replaces whole members of the object, such as `spec`.
pub(crate) fn patch(sent: &Value, merged: &Value) -> Option<json_patch::Patch> {
    let patch = json_patch::diff(sent, merged);
    match (sent, merged) {
        _ if patch.0.is_empty() => None,
        (Value::Object(sent), Value::Object(merged)) if patch.0.len() > OPERATIONS => {
            // Decoding the smaller patch cannot fail, because its operations are valid.
            Some(serde_json::from_value(members(sent, merged)).unwrap_or(patch))
        }
        _ => Some(patch),
    }
}

fn members(sent: &Map<String, Value>, merged: &Map<String, Value>) -> Value {
    let path = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let changed = merged.iter().filter(|(name, new)| sent.get(*name) != Some(new));
    let set = changed.map(|(name, new)| json!({"op": "add", "path": path(name), "value": new}));
    let removed = sent.keys().filter(|name| !merged.contains_key(*name));
    set.chain(removed.map(|name| json!({"op": "remove", "path": path(name)}))).collect()
}

pub(crate) const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

/// Copies the metadata changes of a conversion to the metadata of the sent object. Changes to fields that a conversion
/// must not change are ignored.
pub(crate) fn converted_metadata(sent: &Map<String, Value>, mut before: Value, mut after: Value) -> Map<String, Value> {
    let mut metadata = sent.clone();
    for part in CHANGEABLE {
        let take = |value: &mut Value| value.get_mut(part).map(mem::take).unwrap_or_else(|| Map::new().into());
        let (before, after) = (take(&mut before), take(&mut after));
        let old = sent.get(part).filter(|old| old.is_object()).cloned().unwrap_or_else(|| Map::new().into());
        match merge(&old, &before, &after) {
            Value::Object(merged) if merged.is_empty() => _ = metadata.remove(part),
            merged => _ = metadata.insert(part.into(), merged),
        }
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_change_is_a_short_patch() {
        let sent = json!({"spec": {"list": vec![1; 20_000]}, "a/b~": 1, "gone": vec![0; 600], "kept": [1]});
        let merged = json!({"spec": {"list": []}, "a/b~": vec![2; 600], "kept": [1]});
        let patch = patch(&sent, &merged).unwrap();
        assert_eq!(patch.0.len(), 3, "{patch}");
        let mut patched = sent;
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, merged);
    }
}
