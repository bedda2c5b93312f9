//! Validates the branches of a definition's schema: `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use crate::object::{is_empty, list, text_at};
use crate::validate::FieldFault;

const BRANCHES: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The faults of the branches of a schema: only limits may stand there.
pub(super) fn faults(schema: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    for (branch, path) in all(schema, path) {
        inside(branch, &path, faults);
    }
}

/// Fields that only a branch at the root speaks of.
pub(super) fn undeclared(schema: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (branch, branch_path) in all(schema, path) {
        missing(branch, &branch_path, Some(schema), path, &mut faults);
    }
    faults
}

/// The branches right below a schema, with their paths.
fn all<'a>(schema: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let mut found = Vec::new();
    for key in BRANCHES {
        let pointer = format!("/{key}");
        found.extend(list(schema, &pointer).enumerate().map(|(at, branch)| (branch, format!("{path}.{key}[{at}]"))));
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        found.push((not, format!("{path}.not")));
    }
    found
}

fn inside(schema: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let mut forbid = |key: &str, why: &str| faults.push(FieldFault::forbidden(format!("{path}.{key}"), why));
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    for key in ["description", "type", "title"] {
        if !text_at(schema, &format!("/{key}")).is_empty() && !is_type_of_int_or_string(schema, path, key) {
            forbid(key, "must be empty to be structural");
        }
    }
    if schema.get("additionalProperties").is_some_and(|additional| !is_empty(additional)) {
        forbid("additionalProperties", "must be undefined to be structural");
    }
    if schema.get("default").is_some_and(|default| !default.is_null()) {
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
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        inside(property, &format!("{path}.properties[{name}]"), faults);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        inside(items, &format!("{path}.items"), faults);
    }
    for (branch, path) in all(schema, path) {
        inside(branch, &path, faults);
    }
}

/// The one place where a branch may have a type: the two of an int-or-string.
fn is_type_of_int_or_string(schema: &Value, path: &str, key: &str) -> bool {
    let lone = schema.as_object().is_some_and(|members| members.len() == 1);
    let fitting = (path.ends_with("anyOf[0]") && text_at(schema, "/type") == "integer")
        || (path.ends_with("anyOf[1]") && text_at(schema, "/type") == "string");
    key == "type" && lone && fitting
}

fn missing(branch: &Value, branch_path: &str, declared: Option<&Value>, path: &str, faults: &mut Vec<FieldFault>) {
    for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let (branch_path, path) = (format!("{branch_path}.properties[{name}]"), format!("{path}.properties[{name}]"));
        let found =
            declared.and_then(|declared| declared.get("properties")).and_then(|properties| properties.get(name));
        match found {
            None => faults.push(FieldFault::required(path, &format!("because it is defined in {branch_path}"))),
            Some(found) => missing(property, &branch_path, Some(found), &path, faults),
        }
    }
}
