//! Finds type errors in the result of a strategic merge patch. The error messages are the same as in Go's conversion of
//! a map to a typed object.

use pintle_json::Json;

use crate::types::{Scalar, Type};

/// Returns an error for the first nested value that does not match its type. Does not check types that implement
/// `Unmarshaler` in Go, such as times.
pub(super) fn misfit(value: &Json, ty: &Type) -> Option<String> {
    match (ty, value) {
        (Type::Any | Type::Union(_), _) | (_, Json::Null) => None,
        (Type::Struct { struct_type, .. }, Json::Object(members)) => {
            members.iter().find_map(|(name, member)| misfit(member, &struct_type.field(name)?.ty))
        }
        (Type::Map(map), Json::Object(members)) => members.values().find_map(|member| misfit(member, &map.value)),
        (Type::List(list), Json::Array(items)) => items.iter().find_map(|item| misfit(item, &list.item)),
        (Type::Struct { .. }, found) => Some(format!("cannot restore struct from: {}", go_type(found))),
        (Type::Map(_), found) => Some(format!("cannot restore map from {}", go_type(found))),
        (Type::List(_), found) => Some(format!("cannot restore slice from {}", go_type(found))),
        (Type::Scalar(scalar), found) => scalar_misfit(*scalar, found),
    }
}

fn scalar_misfit(scalar: Scalar, found: &Json) -> Option<String> {
    let expected = match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Bytes if !found.is_string() => return Some(format!("cannot restore slice from {}", go_type(found))),
        _ => return None,
    };
    let found = go_type(found);
    match (expected, found) {
        ("string", "string") | ("bool", "bool") | ("int32" | "int64", "int64") => None,
        // Return an error. Go would convert a number in a string field to a character, and truncate a float in an
        // integer field.
        ("string", "int64") | ("int32" | "int64", "float64") => Some(format!("cannot convert {found} to {expected}")),
        _ => Some(format!("unrecognized type: {expected}")),
    }
}

pub(super) fn go_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "nil",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "slice",
        Json::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::PatchBody;
    use crate::Schema;

    #[test]
    fn strategic_patch_with_wrong_type_reports_a_conversion_error() {
        let schema = Schema::builtin("v1", "ConfigMap").expect("a built-in kind");
        let live = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"a": "b"}});
        for (patch, expected) in [
            (json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
            (json!({"metadata": {"labels": ["x"]}}), "cannot restore map from slice"),
            (json!({"metadata": {"labels": {"x": 1}}}), "cannot convert int64 to string"),
            (json!({"metadata": "x"}), "cannot restore struct from: string"),
            (json!({"metadata": [1]}), "cannot restore struct from: slice"),
            (json!({"metadata": {"finalizers": {"a": 1}}}), "cannot restore slice from map"),
            (json!({"metadata": {"ownerReferences": [3]}}), "cannot restore struct from: int64"),
            (json!({"metadata": {"generation": "a"}}), "unrecognized type: int64"),
            (json!({"data": true}), "cannot restore map from bool"),
            (json!({"data": {"b": 1.5}}), "unrecognized type: string"),
            (json!({"immutable": "x"}), "unrecognized type: bool"),
            (json!({"binaryData": {"a": 1}}), "cannot restore slice from int64"),
        ] {
            let body = PatchBody::strategic(patch.to_string().as_bytes()).expect("an object");
            assert_eq!(body.misfit(&live, &schema).as_deref(), Some(expected), "{patch}");
        }
    }
}
