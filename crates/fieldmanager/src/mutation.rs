//! Merges an apply configuration from a MutatingAdmissionPolicy. The merge records no owners.

use pintle_json::{Json, Map};
use pintle_schema::{Schema, Type};

use super::compare::{atomic_map, keyed};
use super::field_set::{check, check_cel_value};
use super::key_defaults;
use super::merge::merge;

/// Merges a configuration into an object, like a MutatingAdmissionPolicy. No fields are removed, and no owners are recorded.
///
/// # Errors
///
/// Returns kube-apiserver's error message if:
///
/// - the configuration does not fit the schema;
/// - the configuration contains a list, map or struct that server-side apply treats as one value;
/// - a list item cannot be identified, for example because it has none of its key fields.
pub fn merge_configuration(schema: &Schema, live: &Json, configuration: &Json) -> Result<Json, String> {
    let ty = schema.root();
    let errors = check_cel_value(ty, configuration);
    if !errors.is_empty() {
        let text = match &errors[..] {
            [one] => one.clone(),
            all => format!("errors:\n  {}", all.join("\n  ")),
        };
        return Err(format!("failed to convert patch object to typed object: {text}"));
    }
    let mut undeclared = check(ty, live).into_iter().filter(|error| error.ends_with("field not declared in schema"));
    if let Some(error) = undeclared.next() {
        return Err(format!("failed to convert original object to typed object: {error}"));
    }
    let mut atomic = Vec::new();
    find_atomic(ty, configuration, &mut String::new(), &mut atomic);
    if !atomic.is_empty() {
        let fields = atomic.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {fields}"));
    }
    let is_within_limit = |object: &Json| key_defaults::is_within_limit(ty, object);
    if !is_within_limit(configuration) || !is_within_limit(live) {
        return Err("failed to merge patch: list items omit too many keys that have defaults".into());
    }
    let merged = merge(ty, Some(live), Some(configuration)).map_err(|why| format!("failed to merge patch: {why}"))?;
    Ok(merged.unwrap_or_else(|| Json::Object(Map::new())))
}

/// Adds the path of each list, map or struct that server-side apply treats as one value.
fn find_atomic(ty: &Type, value: &Json, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Json::Object(members) => {
            if atomic_map(ty) {
                found.push(path.clone());
            }
            for (name, value) in members {
                // Values inside the members of a map are allowed, because the schema does not declare these members.
                if let Some(field) = ty.field(name) {
                    path.push('.');
                    path.push_str(name);
                    find_atomic(&field.ty, value, path, found);
                    path.truncate(length);
                }
            }
        }
        Json::Array(items) => match keyed(ty) {
            None => found.push(path.clone()),
            Some(list) => {
                for (at, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
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

    #[test]
    fn undeclared_field_is_refused() {
        let why = merged(("v1", "ConfigMap"), &json!({}), &json!({"date": {"a": "b"}})).unwrap_err();
        assert_eq!(why, "failed to convert patch object to typed object: .date: field not declared in schema");
    }
}
