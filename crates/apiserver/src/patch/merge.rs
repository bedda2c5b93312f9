//! JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

/// Lays a merge patch over an object: null deletes, lists replace. Nulls in what is new are dropped, but for those in lists.
pub fn merge(object: &Value, patch: &Value) -> Value {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        let mut new = patch.clone();
        if !object.is_object() {
            drop_nulls(&mut new);
        }
        return new;
    };
    let mut out: Map<String, Value> = object.clone();
    for (name, value) in patch {
        let new = match (out.get(name), value) {
            (_, Value::Null) => {
                out.remove(name);
                continue;
            }
            (None | Some(Value::Null), value) => {
                let mut new = value.clone();
                drop_nulls(&mut new);
                new
            }
            (Some(old), value) => merge(old, value),
        };
        out.insert(name.clone(), new);
    }
    Value::Object(out)
}

/// Drops the members that are null, in lists as well.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
