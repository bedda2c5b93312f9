//! Validates the branches of a definition's schema: `allOf`, `anyOf`, `oneOf` and `not`.

use pintle_json::{Json, json};

use crate::crd::at::At;
use crate::validate::{FieldError, FieldErrors};

const BRANCHES: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The faults of the branches of a schema: only limits may stand there.
pub(super) fn errors(schema: &Json, path: At<'_>, errors: &mut FieldErrors) {
    below(schema, path, true, errors);
}

/// The types of an int-or-string may stand in the `anyOf` of a schema, or in that of the first of its `allOf`, and nowhere else.
fn below(schema: &Json, path: At<'_>, types_may_stand: bool, errors: &mut FieldErrors) {
    let is_int_or_string = types_may_stand && has_types_of_int_or_string(schema);
    each(schema, path, |branch, path| match path {
        At::Item(At::Member(_, "anyOf"), _) if is_int_or_string => (),
        At::Item(At::Member(_, "allOf"), 0) if types_may_stand => {
            inside(branch, path, has_types_of_int_or_string(branch), errors);
        }
        _ => inside(branch, path, false, errors),
    });
}

/// Fields that only a branch at the root speaks of.
pub(super) fn undeclared(schema: &Json, path: At<'_>, errors: &mut FieldErrors) {
    each(schema, path, |branch, branch_path| missing(branch, branch_path, Some(schema), path, errors));
}

/// The branches right below a schema, with their paths.
pub(super) fn each(schema: &Json, path: At<'_>, mut see: impl FnMut(&Json, At<'_>)) {
    for key in BRANCHES {
        let branches = path.member(key);
        for (at, branch) in schema.list(&format!("/{key}")).enumerate() {
            see(branch, branches.item(at));
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        see(not, path.member("not"));
    }
}

/// What is wrong in a branch; the types in its own `anyOf` may stand there if it is that of an int-or-string.
fn inside(schema: &Json, path: At<'_>, is_int_or_string: bool, errors: &mut FieldErrors) {
    let mut forbid = |key: &str, why: &str| errors.add(|| FieldError::forbidden(path.member(key), why));
    let flag = |key: &str| schema[key] == true;
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
    if flag("nullable") {
        forbid("nullable", "must be false to be structural");
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"]
    {
        if flag(key) {
            forbid(key, "must be false to be structural");
        }
    }
    for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if schema[key].is_string() {
            forbid(key, "must be undefined to be structural");
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        inside(property, At::Key(&properties, name), false, errors);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        inside(items, path.member("items"), false, errors);
    }
    each(schema, path, |branch, path| {
        let may_stand = is_int_or_string && matches!(path, At::Item(At::Member(_, "anyOf"), _));
        if !may_stand {
            inside(branch, path, false, errors);
        }
    });
}

fn has_types_of_int_or_string(schema: &Json) -> bool {
    schema["anyOf"] == json!([{"type": "integer"}, {"type": "string"}])
}

fn missing(branch: &Json, branch_path: At<'_>, declared: Option<&Json>, path: At<'_>, errors: &mut FieldErrors) {
    let (branch_path, path) = (branch_path.member("properties"), path.member("properties"));
    for (name, property) in branch.members("/properties") {
        let (branch_path, path) = (At::Key(&branch_path, name), At::Key(&path, name));
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
