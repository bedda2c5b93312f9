//! Merges an apply configuration from a MutatingAdmissionPolicy, without recording owners.

use pintle_json::{Json, Map};
use pintle_schema::{Schema, Type};

use super::compare::{associative_list, is_atomic_map};
use super::field_set::{error_text, schema_errors_except_duplicates, schema_errors_of_cel_value};
use super::key_defaults;
use super::merge::merge;

/// Merges a configuration into an object, like a MutatingAdmissionPolicy. `merge_configuration` does not remove
/// fields or record owners.
///
/// # Errors
///
/// Returns kube-apiserver's error message in these cases:
///
/// - the configuration does not match the schema;
/// - the object does not match the schema, except for duplicate list items. A custom resource can have such duplicates,
///   because kube-apiserver runs the policies before it validates the resource;
/// - the configuration contains an atomic list, map or struct;
/// - a list item cannot be identified, for example because it omits all key fields;
/// - list items omit too many key fields with default values.
pub fn merge_configuration(schema: &Schema, live: &Json, configuration: &Json) -> Result<Json, String> {
    let ty = schema.root();
    let errors = schema_errors_of_cel_value(ty, configuration);
    if !errors.is_empty() {
        return Err(format!("failed to convert patch object to typed object: {}", error_text(&errors)));
    }
    let mut atomic = Vec::new();
    find_atomic(ty, configuration, &mut String::new(), &mut atomic);
    if !atomic.is_empty() {
        let fields = atomic.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {fields}"));
    }
    let errors = schema_errors_except_duplicates(ty, live);
    if !errors.is_empty() {
        return Err(format!("failed to convert original object to typed object: {}", error_text(&errors)));
    }
    let is_within_limit = |object: &Json| key_defaults::is_within_limit(ty, object);
    if !is_within_limit(configuration) || !is_within_limit(live) {
        return Err("failed to merge patch: list items omit too many keys that have defaults".into());
    }
    let merged = merge(ty, Some(live), Some(configuration)).map_err(|why| format!("failed to merge patch: {why}"))?;
    Ok(merged.unwrap_or_else(|| Json::Object(Map::new())))
}

/// Adds the path of each atomic list, map or struct to `found`.
fn find_atomic(ty: &Type, value: &Json, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Json::Object(members) => {
            if is_atomic_map(ty) {
                found.push(path.clone());
            }
            for (name, value) in members {
                // Skip undeclared members, because they are members of a map.
                if let Some(field) = ty.field(name) {
                    path.push('.');
                    path.push_str(name);
                    find_atomic(&field.ty, value, path, found);
                    path.truncate(length);
                }
            }
        }
        Json::Array(items) => match associative_list(ty) {
            None => found.push(path.clone()),
            Some(list) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    find_atomic(&list.item, item, path, found);
                    path.truncate(length);
                }
            }
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn merged(kind: (&str, &str), live: &Json, configuration: &Json) -> Result<Json, String> {
        merge_configuration(&Schema::builtin(kind.0, kind.1).unwrap(), live, configuration)
    }

    #[test]
    fn list_items_are_merged_by_key() {
        let live = json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}});
        let configuration = json!({"spec": {"containers": [{"name": "b", "image": "z"}, {"name": "c"}]}});
        let expected =
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}, {"name": "c"}]}});
        assert_eq!(merged(("v1", "Pod"), &live, &configuration), Ok(expected));
    }

    #[test]
    fn atomic_values_are_refused() {
        for (configuration, fields) in [
            (json!({"spec": {"containers": [{"name": "a", "command": ["x"]}]}}), ".spec.containers[0].command"),
            (json!({"spec": {"nodeSelector": {"a": "b"}}}), ".spec.nodeSelector"),
            (json!({"spec": {"tolerations": [{"key": "a"}]}}), ".spec.tolerations"),
        ] {
            let why = format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {fields}");
            assert_eq!(merged(("v1", "Pod"), &json!({}), &configuration), Err(why), "{configuration}");
        }
    }

    #[test]
    fn undeclared_field_of_the_object_is_refused() {
        let why = merged(("v1", "ConfigMap"), &json!({"date": 1}), &json!({"data": {"a": "b"}})).unwrap_err();
        assert_eq!(why, "failed to convert original object to typed object: .date: field not declared in schema");
    }

    fn custom() -> Schema {
        let spec = json!({"type": "object", "properties": {
            "size": {"type": "integer"}, "name": {"type": "string"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "path": {"type": "array", "items": {"type": "string"}},
        }});
        Schema::custom("Widget", &json!({"type": "object", "properties": {"spec": spec}}))
    }

    #[test]
    fn wrong_types_in_a_custom_object_are_refused() {
        let configuration = json!({"spec": {"name": "x"}});
        let merged = |spec: Json| merge_configuration(&custom(), &json!({"spec": spec}), &configuration);
        let prefix = "failed to convert original object to typed object: ";
        let size = ".spec.size: expected numeric (int or float), got string";
        for (spec, why) in [
            (json!({"size": "x"}), size.to_owned()),
            (json!({"tags": {}}), ".spec.tags: expected list, got &{map[]}".to_owned()),
            (
                json!({"size": "x", "other": 1}),
                format!("errors:\n  .spec.other: field not declared in schema\n  {size}"),
            ),
        ] {
            assert_eq!(merged(spec.clone()), Err(format!("{prefix}{why}")), "{spec}");
        }
        assert!(merged(json!({"size": null})).is_ok());
    }

    #[test]
    fn duplicate_list_items_of_the_object_are_allowed() {
        let live = json!({"spec": {"tags": ["a", "a"]}});
        let merged = merge_configuration(&custom(), &live, &json!({"spec": {"name": "x"}}));
        assert_eq!(merged, Ok(json!({"spec": {"tags": ["a", "a"], "name": "x"}})));
    }

    #[test]
    fn atomic_values_are_refused_before_the_object_is_checked() {
        let why = merge_configuration(&custom(), &json!({"spec": {"size": "x"}}), &json!({"spec": {"path": ["x"]}}));
        let expected = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.path";
        assert_eq!(why, Err(expected.into()));
    }

    #[test]
    fn undeclared_field_is_refused() {
        let why = merged(("v1", "ConfigMap"), &json!({}), &json!({"date": {"a": "b"}})).unwrap_err();
        assert_eq!(why, "failed to convert patch object to typed object: .date: field not declared in schema");
    }
}
