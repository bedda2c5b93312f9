//! The differences between an applied configuration and a stored object.

use serde_json::Value;

/// The fields that specify the type of an object. Decoded objects may lack these fields.
const IDENTITY: [&str; 2] = ["apiVersion", "kind"];
/// The path of the list of conditions. The server merges the items of this list by their `type`.
const CONDITIONS: [&str; 2] = ["status", "conditions"];

type Visit<'a> = dyn FnMut(&[String], Option<&Value>, &Value) + 'a;

/// Calls `visit` for each field of `applied` that is missing in `live` or has a different value in `live`. The arguments
/// of `visit` are the path, the live value and the applied value.
pub(super) fn visit_differences(live: &Value, applied: &Value, visit: &mut Visit<'_>) {
    let mut path = Vec::new();
    match applied {
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())).for_each(|(name, field)| {
                within_member(name, &mut path, |path| visit_field(live.get(name), field, path, visit))
            })
        }
        _ => visit_field(Some(live), applied, &mut path, visit),
    }
}

fn visit_field(live: Option<&Value>, applied: &Value, path: &mut Vec<String>, visit: &mut Visit<'_>) {
    match (live, applied) {
        (Some(Value::Object(live)), Value::Object(applied)) => applied.iter().for_each(|(name, field)| {
            within_member(name, path, |path| visit_field(live.get(name), field, path, visit))
        }),
        (Some(Value::Array(live)), Value::Array(applied)) if *path == CONDITIONS => {
            for (index, item) in applied.iter().enumerate() {
                let found = live.iter().find(|live| live["type"] == item["type"]);
                within_member(&index.to_string(), path, |path| visit_field(found, item, path, visit));
            }
        }
        // The server may add default fields to list items. If the lengths differ, another manager may have added items,
        // and only the server can merge the lists.
        (Some(Value::Array(live)), Value::Array(applied)) if live.len() == applied.len() => {
            for (index, (live, item)) in live.iter().zip(applied).enumerate() {
                within_member(&index.to_string(), path, |path| visit_field(Some(live), item, path, visit));
            }
        }
        // Types may omit empty maps and lists when they are serialized, so they are not a difference.
        (None, Value::Object(applied)) if applied.is_empty() => {}
        (None, Value::Array(applied)) if applied.is_empty() => {}
        (Some(live), applied) if live == applied => {}
        _ => visit(path, live, applied),
    }
}

/// Returns `true` for values that the server omits when it encodes a field of a Go struct with `omitempty`.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

fn within_member(name: &str, path: &mut Vec<String>, check: impl FnOnce(&mut Vec<String>)) {
    path.push(name.to_owned());
    check(path);
    path.pop();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn live_object_contains_what_was_applied() {
        for (live, applied, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": {"x": 1, "y": 2}}), json!({"a": {"x": 1}}), true),
            (json!({"a": {"x": 1}}), json!({"a": {"x": 2}}), false),
            (json!({"l": [{"name": "a", "default": 1}]}), json!({"l": [{"name": "a"}]}), true),
            (json!({"l": [{"name": "b"}, {"name": "a"}]}), json!({"l": [{"name": "a"}, {"name": "b"}]}), false),
            (json!({"l": [1, 2]}), json!({"l": [1]}), false),
            (json!({}), json!({"labels": {}, "l": []}), true),
            (json!({}), json!({"apiVersion": "v1", "kind": "ConfigMap"}), true),
            (json!({"x": {}}), json!({"x": {"kind": "ConfigMap"}}), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
        ] {
            let mut differences = 0;
            visit_differences(&live, &applied, &mut |_, _, _| differences += 1);
            assert_eq!(differences == 0, expected, "{live} {applied}");
        }
    }
}
