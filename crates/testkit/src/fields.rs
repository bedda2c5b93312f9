//! Compares objects, ignoring the fields that differ in each run.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

/// The metadata fields for which the server sets a different value in each run.
const SERVER_METADATA: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];

const SHOWN: usize = 120;

/// Replaces the values of a Secret with digests, so that reports do not contain the values.
pub(crate) fn hide_secrets(resource: &str, object: &mut Value) {
    if resource != "secrets" {
        return;
    }
    for part in ["data", "stringData"] {
        let values = object.get_mut(part).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(Map::values_mut) {
            let mut digest = DefaultHasher::new();
            value.to_string().hash(&mut digest);
            *value = format!("[redacted, digest {:08x}]", digest.finish() as u32).into();
        }
    }
}

/// Removes the fields that are different in each run: uids, versions, generations and managed fields. Also masks
/// timestamps, and replaces the `observedGeneration` of the status and its conditions with `[current]` or `[outdated]`.
pub(crate) fn normalize(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64();
    if let Some(status) = object.get_mut("status") {
        relate_generation(status, generation);
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        conditions.into_iter().flatten().for_each(|condition| relate_generation(condition, generation));
        remove_generations(status);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_METADATA.iter().for_each(|name| drop(metadata.remove(*name)));
    }
    mask(object);
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) if is_time(text) => *text = "[time]".into(),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(members) => members.values_mut().for_each(mask),
        _ => {}
    }
}

fn relate_generation(observer: &mut Value, generation: Option<i64>) {
    if let Some(observed) = observer.get_mut("observedGeneration").filter(|observed| observed.is_i64()) {
        *observed = if observed.as_i64() == generation { "[current]" } else { "[outdated]" }.into();
    }
}

/// Removes the remaining `observedGeneration` numbers, because they are generations of other objects, such as children.
fn remove_generations(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_generations),
        Value::Object(members) => {
            members.retain(|name, member| name != "observedGeneration" || !member.is_i64());
            members.values_mut().for_each(remove_generations);
        }
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    text.len() > SHAPE.len()
        && text.ends_with(|last: char| last == 'Z' || last.is_ascii_digit())
        && SHAPE.iter().zip(text.bytes()).all(|(shape, byte)| match shape {
            b'0' => byte.is_ascii_digit(),
            other => *other == byte,
        })
}

pub(crate) fn replace(value: &mut Value, with: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(other) = with(text) {
                *text = other;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, with)),
        Value::Object(members) => members.values_mut().for_each(|member| replace(member, with)),
        _ => {}
    }
}

/// Returns the differences between two states of an object. Each line describes one difference. `None` represents an
/// object that does not exist.
pub(crate) fn differences(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    match (before, after) {
        (None, None) => Vec::new(),
        (None, Some(_)) => vec!["created".into()],
        (Some(_), None) => vec!["deleted".into()],
        (Some(before), Some(after)) => {
            let mut found = Vec::new();
            compare("", before, after, &mut found);
            found
        }
    }
}

/// Returns the fields that a write has changed. Returns `.metadata.managedFields` if only metadata from the server has
/// changed.
pub(crate) fn changes(resource: &str, before: Option<Value>, after: Option<Value>) -> Vec<String> {
    let shown = |object: &Option<Value>| {
        object.clone().map(|mut object| {
            hide_secrets(resource, &mut object);
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            for name in metadata.into_iter().flat_map(|metadata| SERVER_METADATA.map(|name| metadata.remove(name))) {
                drop(name);
            }
            object
        })
    };
    let version = |object: &Option<Value>| object.as_ref().map(|object| object["metadata"]["resourceVersion"].clone());
    if version(&before) == version(&after) {
        return Vec::new();
    }
    let found = differences(shown(&before).as_ref(), shown(&after).as_ref());
    if found.is_empty() { vec![".metadata.managedFields".into()] } else { found }
}

/// Returns the API version and the kind of each owner to which a write has added a reference with `blockOwnerDeletion`.
pub(crate) fn blocked_owners(before: Option<&Value>, after: Option<&Value>) -> Vec<(String, String)> {
    let blocking = |object: Option<&Value>| -> Vec<Value> {
        let owners = object.and_then(|object| object["metadata"]["ownerReferences"].as_array()).into_iter().flatten();
        owners.filter(|owner| owner["blockOwnerDeletion"] == true).cloned().collect()
    };
    let text = |owner: &Value, name: &str| owner[name].as_str().unwrap_or_default().to_owned();
    let (old, mut new) = (blocking(before), blocking(after));
    new.retain(|owner| old.iter().all(|known| known["uid"] != owner["uid"]));
    new.iter().map(|owner| (text(owner, "apiVersion"), text(owner, "kind"))).collect()
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, old) in before {
                match after.get(name) {
                    Some(new) => compare(&format!("{path}.{name}"), old, new, found),
                    None => found.push(format!("{path}.{name}: {} -> absent", short(old))),
                }
            }
            for (name, new) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                found.push(format!("{path}.{name}: absent -> {}", short(new)));
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), old, new, found);
            }
        }
        (before, after) if before != after => found.push(format!("{path}: {} -> {}", short(before), short(after))),
        _ => {}
    }
}

pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn normalize_removes_what_the_server_sets() {
        let metadata =
            json!({"name": "a", "uid": "u", "resourceVersion": "7", "generation": 2, "labels": {"uid": "x"}});
        let mut object = json!({
            "metadata": metadata,
            "spec": {"observedGeneration": 2},
            "status": {
                "observedGeneration": 2,
                "conditions": [{"lastTransitionTime": "2026-11-28T09:00:00Z", "observedGeneration": 1}],
                "children": [{"name": "b", "observedGeneration": 2}, {"conditions": [{"observedGeneration": 3}]}],
            },
        });
        normalize(&mut object);
        let expected = json!({
            "metadata": {"name": "a", "labels": {"uid": "x"}},
            "spec": {"observedGeneration": 2},
            "status": {
                "observedGeneration": "[current]",
                "conditions": [{"lastTransitionTime": "[time]", "observedGeneration": "[outdated]"}],
                "children": [{"name": "b"}, {"conditions": [{}]}],
            },
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn blocked_owners_are_new_and_block_deletion() {
        let owner = |kind: &str, blocks: Option<bool>| json!({"kind": kind, "uid": kind, "blockOwnerDeletion": blocks});
        let object = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
        let before = object(json!([owner("A", Some(true)), owner("B", Some(false))]));
        let after = object(json!([owner("A", Some(true)), owner("B", Some(true)), owner("C", None)]));
        let found = |before, after| blocked_owners(before, after).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
        assert_eq!(found(Some(&before), Some(&after)), ["B"]);
        assert_eq!(found(None, Some(&after)), ["A", "B"]);
        assert!(found(Some(&after), None).is_empty() && found(None, Some(&json!({}))).is_empty());
    }

    #[test]
    fn changes_name_the_fields_and_hide_secrets() {
        let object = |version: &str, data: Value| Some(json!({"metadata": {"resourceVersion": version}, "data": data}));
        let changed = |resource: &str, before, after| changes(resource, before, after).join("; ");
        let before = object("1", json!({"a": "x", "b": [1, 2], "c": 1}));
        let after = object("2", json!({"a": "y", "b": [1, 3], "d": 1}));
        let expected = ".data.a: \"x\" -> \"y\"; .data.b[1]: 2 -> 3; .data.c: 1 -> absent; .data.d: absent -> 1";
        assert_eq!(changed("configmaps", before.clone(), after), expected);
        assert_eq!(changed("configmaps", before.clone(), before.clone()), "");
        let same = object("2", json!({"a": "x", "b": [1, 2], "c": 1}));
        assert_eq!(changed("configmaps", before.clone(), same), ".metadata.managedFields");
        assert_eq!(changed("configmaps", before.clone(), None), "deleted");
        let secret = changed("secrets", object("1", json!({"p": "c2VjcmV0"})), object("2", json!({"p": "b3RoZXI="})));
        assert!(secret.contains("redacted") && !secret.contains("c2VjcmV0"), "{secret}");
    }
}
