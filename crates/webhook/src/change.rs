//! Applies a handler's changes to the JSON from the API server.
//!
//! An object's Rust type may declare only some of the object's fields. A patch from the sent JSON to the returned
//! object would remove all undeclared fields. Therefore, this module compares the objects before and after the handler,
//! and applies the differences to the JSON.

use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value, json};

use crate::elements::origins;

/// What happens to an object in `sent` if it is only in `before`, and not in `after`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Missing {
    /// The Rust type does not serialize an empty object, so the members that the type does not declare are kept.
    Empty,
    /// The handler removed the object, so nothing is kept.
    Removed,
}

/// Applies the changes between `before` and `after` to `sent`. Keeps each field of `sent` that is missing in both
/// `before` and `after`.
///
/// The recursion depth is the nesting depth, which the JSON parser limits to 128 for `sent`. `before` and `after` are
/// serialized from Rust types.
pub(crate) fn merge(sent: &Value, before: &Value, after: &Value, missing: Missing) -> Value {
    if before == after {
        return sent.clone();
    }
    match (sent, before, after) {
        (Value::Object(sent), Value::Object(before), Value::Object(after)) => {
            merge_objects(sent, before, after, missing).into()
        }
        // Merge the elements one by one only if `sent` and `before` have the same length. With different lengths,
        // decoding has dropped or added elements, so the positions in the lists do not match. Replace a list of scalars
        // as a whole, because scalars have no undeclared fields.
        (Value::Array(sent), Value::Array(before), Value::Array(after))
            if sent.len() == before.len() && sent.iter().any(|element| element.is_object() || element.is_array()) =>
        {
            merge_lists(sent, before, after, missing).into()
        }
        _ => after.clone(),
    }
}

fn merge_objects(
    sent: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    missing: Missing,
) -> Map<String, Value> {
    let empty = Value::Object(Map::new());
    let mut merged = sent.clone();
    for (name, new) in after {
        let old = before.get(name);
        if old == Some(new) {
            continue;
        }
        let value = match (sent.get(name), old) {
            (Some(sent), Some(old)) => merge(sent, old, new, missing),
            // The Rust type did not serialize the map, because it was empty before the handler's change. However, the
            // map from the API server may contain members that the type does not declare.
            (Some(sent @ Value::Object(_)), None) => merge(sent, &empty, new, missing),
            _ => new.clone(),
        };
        merged.insert(name.clone(), value);
    }
    for (name, old) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let kept = sent.get(name).filter(|sent| missing == Missing::Empty && sent.is_object() && old.is_object());
        match kept.map(|sent| merge(sent, old, &empty, missing)).filter(|kept| *kept != empty) {
            Some(kept) => merged.insert(name.clone(), kept),
            None => merged.remove(name),
        };
    }
    merged
}

fn merge_lists(sent: &[Value], before: &[Value], after: &[Value], missing: Missing) -> Vec<Value> {
    let origins = origins(sent, before, after);
    let merged = after.iter().zip(origins).map(|(new, origin)| match origin {
        Some((sent_at, at)) => merge(&sent[sent_at], &before[at], new, missing),
        None => new.clone(),
    });
    merged.collect()
}

/// Corrects the values in `merged` that do not decode as expected. `decoded` is the result of decoding `merged`. Where
/// `decoded` and `expected` differ, the value in `after` replaces the value in `merged`. Lists are only replaced as a
/// whole. The elements of all lists in `decoded` and `expected` must be [sorted](crate::elements::sorted).
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

/// The maximum number of operations in a patch. For many operations on one list, the API server needs quadratic time.
const OPERATIONS: usize = 500;

/// Returns the JSON patch that changes `sent` to `merged`, or `None` if they are equal. If the patch would have too
/// many operations, it replaces whole members of the object instead, such as `spec`.
pub(crate) fn patch(sent: &Value, merged: &Value) -> Option<json_patch::Patch> {
    let patch = json_patch::diff(sent, merged);
    match (sent, merged) {
        _ if patch.0.is_empty() => None,
        (Value::Object(sent), Value::Object(merged)) if patch.0.len() > OPERATIONS => {
            // Decoding never fails, because `members` returns only valid operations.
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

/// Copies the metadata changes of a conversion to the metadata of the sent object. Ignores changes of fields that a
/// conversion must not change.
pub(crate) fn converted_metadata(sent: &Map<String, Value>, mut before: Value, mut after: Value) -> Map<String, Value> {
    let mut metadata = sent.clone();
    for part in CHANGEABLE {
        let take = |value: &mut Value| value.get_mut(part).map(mem::take).unwrap_or_else(|| Map::new().into());
        let (before, after) = (take(&mut before), take(&mut after));
        let old = sent.get(part).filter(|old| old.is_object()).cloned().unwrap_or_else(|| Map::new().into());
        match merge(&old, &before, &after, Missing::Removed) {
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
