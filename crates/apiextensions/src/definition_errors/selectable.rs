//! Validates the selectable fields of a version.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;

const MAX_FIELDS: usize = 8;
/// As in kube-apiserver, the fields `apiVersion` and `kind` are selectable if the schema declares them.
const SCALARS: [&str; 3] = ["string", "boolean", "integer"];

pub(super) fn all(version: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut unique = HashSet::new();
    let Some(schema) = version.at("/schema/openAPIV3Schema") else { return errors };
    for (at, field) in version.list("/selectableFields").enumerate() {
        let (text, field) = (field.text("/jsonPath"), format!("{path}[{at}].jsonPath"));
        if text.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let invalid = |why: &str| FieldError::invalid_text(field.as_str(), text, why);
        let (names, schema) = match declared(schema, text) {
            Ok(found) => found,
            Err(why) => {
                errors.push(invalid(&format!("is an invalid path: {why}")));
                continue;
            }
        };
        if names.first() == Some(&"metadata") {
            errors.push(invalid("must not point to fields in metadata"));
        }
        if !schema.is_some_and(|schema| SCALARS.contains(&schema.text("/type"))) {
            errors.push(invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats \
                 are allowed.",
            ));
        }
        errors.duplicate_if(!unique.insert(names), field, &Json::from(text));
    }
    if unique.len() > MAX_FIELDS {
        let message = format!("Too many: {}: must have at most {MAX_FIELDS} items", unique.len());
        errors.push(FieldError::new(FieldErrorType::TooMany, path, message));
    }
    errors
}

/// Returns the names in a path and the schema of its field. Returns no schema for a map value without a schema. Paths
/// cannot escape dots, so they cannot refer to a field name with a dot.
fn declared<'a>(root: &'a Json, path: &'a str) -> Result<(Vec<&'a str>, Option<&'a Json>), String> {
    let (mut schema, mut names, mut rest) = (Some(root), Vec::new(), path);
    while !rest.is_empty() {
        let (token, after) = first_token(rest);
        match token {
            "[" => return Err("array notation is not allowed".into()),
            "." if after.is_empty() => return Err("unexpected end of JSON path".into()),
            "." => {}
            other => return Err(format!("expected [ or . but got: {other}")),
        }
        let (name, after) = first_token(after);
        schema = below(schema, name).ok_or("does not refer to a valid field")?;
        names.push(name);
        rest = after;
    }
    Ok((names, schema))
}

/// Splits off the first token: a delimiter, a text in single quotes, or a name.
fn first_token(text: &str) -> (&str, &str) {
    let is_delimiter = |letter: char| matches!(letter, '.' | '[' | ']');
    let end = match text.chars().next() {
        Some(first) if is_delimiter(first) => Some(1),
        Some('\'') => {
            let ends = text.match_indices('\'').map(|(at, _)| at).filter(|at| *at > 0);
            ends.map(|at| at + 1).find(|end| !text[..end - 1].ends_with('\\'))
        }
        _ => text.find(is_delimiter),
    };
    text.split_at(end.unwrap_or(text.len()))
}

#[expect(clippy::option_option, reason = "the outer None is a field that does not exist")]
fn below<'a>(schema: Option<&'a Json>, name: &str) -> Option<Option<&'a Json>> {
    let schema = schema?;
    if let Some(Json::Object(properties)) = schema.get("properties")
        && !properties.is_empty()
    {
        return properties.get(name).map(Some);
    }
    match schema.get("additionalProperties") {
        None | Some(Json::Null) => None,
        Some(values) => Some(Some(values).filter(|values| values.is_object())),
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    /// The expected messages come from kube-apiserver 1.36.1.
    #[test]
    fn invalid_paths_of_selectable_fields_are_rejected() {
        let text = || json!({"type": "string"});
        let spec = json!({"type": "object", "properties": {
            "s": text(), "n": {"type": "number"}, "map": {"type": "object", "additionalProperties": text()},
            "free": {"type": "object", "additionalProperties": true}, "a.b": text(),
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"s": text()}},
            "either": {"x-kubernetes-int-or-string": true},
        }});
        let metadata = json!({"type": "object", "properties": {"name": text()}});
        let properties = json!({"kind": text(), "metadata": metadata, "spec": spec});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
        let absent = "does not refer to a valid field";
        let wrong_type = "must point to a field of type string, boolean or integer.";
        for (path, expected) in [
            (".spec.s", ""),
            (".kind", ""),
            (".spec.map.any", ""),
            (".spec.open.s", ""),
            (".spec.open.any", absent),
            (".spec.a\\.b", absent),
            (".spec..s", absent),
            (".spec.s ", absent),
            (".spec.'s'", absent),
            (".spec.n", wrong_type),
            (".spec.either", wrong_type),
            (".spec.free.any", wrong_type),
            (".metadata.name", "must not point to fields in metadata"),
            (".spec['s']", "array notation is not allowed"),
            (".spec[", "array notation is not allowed"),
            (".spec.s.", "unexpected end of JSON path"),
            (".spec.s]", "expected [ or . but got: ]"),
            ("spec.s", "expected [ or . but got: spec"),
        ] {
            let found = all(&json!({"schema": schema, "selectableFields": [{"jsonPath": path}]}), "f");
            let messages: Vec<_> = found.iter().map(|error| error.message.as_str()).collect();
            assert_eq!(messages.is_empty(), expected.is_empty(), "{path}: {messages:?}");
            assert!(messages.iter().all(|message| message.contains(expected)), "{path}: {messages:?}");
        }
        let twice = vec![json!({"jsonPath": ".spec.s"}); 9];
        let found = all(&json!({"schema": schema, "selectableFields": twice}), "f");
        assert!(found.iter().all(|error| error.message.starts_with("Duplicate value")), "{found:?}");
    }
}
