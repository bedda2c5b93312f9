//! Embedded objects in custom resources (`x-kubernetes-embedded-resource`).

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::{Json, Map};
use pintle_kinds::object_meta;
use pintle_schema as schema;

use super::field_path::FieldPath;
use super::structural::{Additional, Structural};

/// Returns an error if an embedded object cannot be decoded as a Kubernetes object.
pub(super) fn malformed(schema: &Structural, value: &Json, path: FieldPath<'_>) -> Option<FieldError> {
    match value {
        Json::Object(members) => members.iter().find_map(|(name, member)| {
            let below = path.member(name);
            if schema.embedded
                && let Some(why) = malformed_part(name, member)
            {
                return Some(FieldError::invalid(below, member, why));
            }
            match (schema.properties.get(name.as_str()), &schema.additional) {
                (Some(schema), _) => malformed(schema, member, below),
                (None, Some(Additional::Schema(schema))) => malformed(schema, member, FieldPath::Key(&path, name)),
                _ => None,
            }
        }),
        Json::Array(items) => {
            let schema = schema.items.as_ref()?;
            items.iter().enumerate().find_map(|(at, item)| malformed(schema, item, path.item(at)))
        }
        _ => None,
    }
}

fn malformed_part(name: &str, value: &Json) -> Option<String> {
    match name {
        "apiVersion" | "kind" => (!value.is_string()).then(|| "must be a string".into()),
        "metadata" => schema::read_metadata(value).err().map(|error| error.to_string()),
        _ => None,
    }
}

/// Normalizes the metadata of embedded objects, as if Go had decoded and encoded it. Does not change undecodable
/// metadata, because validation rejects it.
pub(super) fn normalise(schema: &Structural, value: &mut Json) {
    match value {
        Json::Object(members) => {
            if schema.embedded
                && let Some(metadata) = members.get_mut("metadata")
            {
                match schema::read_metadata(metadata) {
                    _ if metadata.is_null() => *metadata = Map::default().into(),
                    Ok(mut read) => {
                        // In the metadata of a complete object, an empty list resets the field managers.
                        if read.get("managedFields").is_some_and(Json::is_empty) {
                            read.unset("managedFields");
                        }
                        *metadata = read;
                    }
                    Err(_) => {}
                }
            }
            for (name, member) in members.iter_mut() {
                if let Some(schema) = schema.member(name) {
                    normalise(schema, member);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| normalise(schema, item));
            }
        }
        _ => {}
    }
}

pub(super) fn errors(schema: &Structural, value: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    collect_errors(schema, value, FieldPath::Start(""), &mut errors);
    errors
}

fn collect_errors(schema: &Structural, value: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    match value {
        Json::Object(members) => {
            if schema.embedded {
                types(members, path, errors);
                if let Some(Json::Object(metadata)) = members.get("metadata") {
                    for mut error in object_meta::embedded_errors(metadata) {
                        error.field = path.member(&error.field).into();
                        errors.push(error);
                    }
                }
            }
            for (name, member) in members {
                let member_schema = match (schema.properties.get(name.as_str()), &schema.additional) {
                    (Some(schema), _) => schema,
                    (None, Some(Additional::Schema(schema))) => schema,
                    _ => continue,
                };
                collect_errors(member_schema, member, path.member(name), errors);
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter().enumerate().for_each(|(at, item)| collect_errors(schema, item, path.item(at), errors));
            }
        }
        _ => {}
    }
}

fn types(members: &Map, path: FieldPath<'_>, errors: &mut FieldErrors) {
    for key in ["apiVersion", "kind"] {
        let Some(Json::String(text)) = members.get(key) else {
            errors.required_if(!members.contains_key(key), path.member(key), "");
            continue;
        };
        let mut wrong = |why: String| errors.add(|| FieldError::invalid_text(path.member(key), text, why));
        if text.is_empty() {
            wrong("must not be empty".into());
        } else if key == "apiVersion" && text.matches('/').count() > 1 {
            wrong(format!("unexpected GroupVersion string: {text}"));
        } else if key == "kind" {
            let found = name_errors(NameRule::Rfc1035Label, &text.to_lowercase(), false);
            if !found.is_empty() {
                wrong(format!("may have mixed case, but should otherwise match: {}", found.join(",")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::pattern::Patterns;
    use super::*;

    #[test]
    fn metadata_of_an_embedded_object_loses_empty_fields() {
        let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true});
        let schema = Structural::read(&schema, &mut Patterns::default());
        let mut object = json!({"metadata": {
            "name": "", "generation": 0, "labels": {}, "annotations": {"a": "1"}, "finalizers": [], "managedFields": [],
            "ownerReferences": [], "creationTimestamp": null,
        }});
        normalise(&schema, &mut object);
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "1"}}}));
    }

    #[test]
    fn embedded_objects_with_wrong_types_are_malformed() {
        let object = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {
            "one": object,
            "list": {"type": "array", "items": object},
            "map": {"type": "object", "additionalProperties": object},
        }});
        let schema = Structural::read(&schema, &mut Patterns::default());
        let check = |value: Json, expected: Option<&str>| {
            let found = malformed(&schema, &value, FieldPath::Start("")).map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        check(json!({"one": {"apiVersion": "v1", "kind": "A", "metadata": null}, "kind": 1}), None);
        check(json!({"list": [{}, {"kind": true}]}), Some("list[1].kind: Invalid value: true: must be a string"));
        check(
            json!({"map": {"x.y": {"apiVersion": null}}}),
            Some("map[x.y].apiVersion: Invalid value: null: must be a string"),
        );
        check(
            json!({"one": {"metadata": {"labels": {"a": 1}}}}),
            Some(
                "one.metadata: Invalid value: {\"labels\":{\"a\":1}}: json: cannot unmarshal number into Go struct field \
                 ObjectMeta.labels of type string",
            ),
        );
    }
}
