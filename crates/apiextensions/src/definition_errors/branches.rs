//! Validates the branches of a schema: the items of `allOf`, `anyOf`, `oneOf` and `not`.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};

use crate::field_path::FieldPath;

const BRANCHES: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Reports errors in a schema's branches. A branch may contain only value validations.
pub(super) fn errors(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    below(schema, path, true, errors);
}

/// Reports errors in all branches below a schema. In an int-or-string schema, only the schema's `anyOf` and the `anyOf`
/// of its first `allOf` item may contain types. Branches in other positions must not contain types.
fn below(schema: &Json, path: FieldPath<'_>, types_allowed: bool, errors: &mut FieldErrors) {
    let is_int_or_string = types_allowed && has_types_of_int_or_string(schema);
    each(schema, path, |branch, path| match path {
        FieldPath::Item(FieldPath::Member(_, "anyOf"), _) if is_int_or_string => (),
        FieldPath::Item(FieldPath::Member(_, "allOf"), 0) if types_allowed => {
            inside(branch, path, has_types_of_int_or_string(branch), errors);
        }
        _ => inside(branch, path, false, errors),
    });
}

/// Reports fields that a branch declares, but the schema itself does not.
pub(super) fn undeclared(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    each(schema, path, |branch, branch_path| missing(branch, branch_path, Some(schema), path, errors));
}

pub(super) fn each(schema: &Json, path: FieldPath<'_>, mut visit: impl FnMut(&Json, FieldPath<'_>)) {
    for key in BRANCHES {
        let branches = path.member(key);
        for (at, branch) in schema.list(&format!("/{key}")).enumerate() {
            visit(branch, branches.item(at));
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        visit(not, path.member("not"));
    }
}

/// Reports errors inside a branch. The branch's `anyOf` may contain types only if `is_int_or_string` is true.
fn inside(schema: &Json, path: FieldPath<'_>, is_int_or_string: bool, errors: &mut FieldErrors) {
    let mut forbid = |key: &str, why: &str| errors.add(|| FieldError::forbidden(path.member(key), why));
    let is_set = |key: &str| schema[key] == true;
    for key in ["description", "type", "title"] {
        if !schema.text(&format!("/{key}")).is_empty() {
            forbid(key, "must be empty to be structural");
        }
    }
    if schema.get("additionalProperties").is_some_and(|additional| !additional.is_empty()) {
        forbid("additionalProperties", "must be undefined to be structural");
    }
    if schema.has("/default") {
        forbid("default", "must be undefined to be structural");
    }
    if is_set("nullable") {
        forbid("nullable", "must be false to be structural");
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"]
    {
        if is_set(key) {
            forbid(key, "must be false to be structural");
        }
    }
    for key in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if schema.list(&format!("/{key}")).next().is_some() {
            forbid(key, "must be empty to be structural");
        }
    }
    for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if schema[key].is_string() {
            forbid(key, "must be undefined to be structural");
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        inside(property, FieldPath::Key(&properties, name), false, errors);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        inside(items, path.member("items"), false, errors);
    }
    each(schema, path, |branch, path| {
        let is_allowed = is_int_or_string && matches!(path, FieldPath::Item(FieldPath::Member(_, "anyOf"), _));
        if !is_allowed {
            inside(branch, path, false, errors);
        }
    });
}

fn has_types_of_int_or_string(schema: &Json) -> bool {
    schema["anyOf"] == json!([{"type": "integer"}, {"type": "string"}])
}

fn missing(
    branch: &Json,
    branch_path: FieldPath<'_>,
    declared: Option<&Json>,
    path: FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    let (branch_path, path) = (branch_path.member("properties"), path.member("properties"));
    for (name, property) in branch.members("/properties") {
        let (branch_path, path) = (FieldPath::Key(&branch_path, name), FieldPath::Key(&path, name));
        let found =
            declared.and_then(|declared| declared.get("properties")).and_then(|properties| properties.get(name));
        match found {
            None => {
                errors.add(|| FieldError::required(path, &format!("because it is defined in {branch_path}")));
            }
            Some(found) => missing(property, branch_path, Some(found), path, errors),
        }
    }
}
