//! Validates the schema of a definition, and that it is structural.

use regex::Regex;
use serde_json::{Value, json};

use super::{branches, defaults};
use crate::object::{has, list, text_at};
use crate::validate::FieldFault;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
/// What a schema of a definition may not have at all, and the words for it.
const UNSUPPORTED: &[&str] =
    &["id", "$schema", "patternProperties", "additionalItems", "definitions", "dependencies", "$ref"];

/// The faults of the whole schema of a version, at a path.
pub(super) fn all(schema: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = plain(schema, path);
    let mut structural = Vec::new();
    is_structural(schema, path, Place::Root, &mut structural);
    structural.extend(root(schema, path));
    structural.extend(branches::undeclared(schema, path));
    structural.sort_by_cached_key(ToString::to_string);
    if structural.is_empty() {
        faults.extend(defaults::all(schema, path));
    }
    faults.extend(structural);
    faults
}

/// Where a schema stands, by which its type is missed.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Field,
    Item,
}

/// What any schema has to keep to, structural or not.
fn plain(schema: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    if flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        faults.push(FieldFault::forbidden(format!("{path}.uniqueItems"), why));
    }
    let properties =
        schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    if properties && has(schema, "/additionalProperties") {
        let why = "additionalProperties and properties are mutual exclusive";
        faults.push(FieldFault::forbidden(format!("{path}.additionalProperties"), why));
    }
    let type_name = text_at(schema, "/type");
    if type_name == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        faults.push(FieldFault::forbidden(format!("{path}.type"), why));
    } else if !type_name.is_empty() && !TYPES.contains(&type_name) {
        faults.push(FieldFault::unsupported(format!("{path}.type"), &type_name.into(), TYPES));
    }
    for key in UNSUPPORTED.iter().filter(|key| schema.get(**key).is_some_and(|value| !value.is_null())) {
        faults.push(FieldFault::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = Regex::new(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        faults.push(FieldFault::invalid_text(format!("{path}.pattern"), pattern, why));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        faults.push(FieldFault::invalid(field, &Value::Bool(false), "must be true or undefined"));
    }
    faults.extend(map_type(schema, path));
    faults.extend(list_type(schema, path));
    match schema.get("items") {
        Some(Value::Array(_)) => {
            faults
                .push(FieldFault::forbidden(format!("{path}.items"), "items must be a schema object and not an array"));
        }
        None | Some(Value::Null) if type_name == "array" => {
            faults.push(FieldFault::required(format!("{path}.items"), "must be specified"));
        }
        _ => {}
    }
    for (schema, path) in children(schema, path) {
        faults.extend(plain(schema, &path));
    }
    faults
}

fn map_type(schema: &Value, path: &str) -> Vec<FieldFault> {
    let Some(kind) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else { return Vec::new() };
    let mut faults = Vec::new();
    let type_name = text_at(schema, "/type");
    if type_name != "object" {
        let why = "must be object if x-kubernetes-map-type is specified";
        faults.push(FieldFault::invalid_text(format!("{path}.type"), type_name, why));
    }
    if !["atomic", "granular"].contains(&kind) {
        faults.push(FieldFault::unsupported(
            format!("{path}.x-kubernetes-map-type"),
            &kind.into(),
            &["atomic", "granular"],
        ));
    }
    faults
}

fn list_type(schema: &Value, path: &str) -> Vec<FieldFault> {
    const LIST: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let mut faults = Vec::new();
    let type_name = text_at(schema, "/type");
    let kind = schema.get(LIST).and_then(Value::as_str);
    let keys: Vec<&str> = list(schema, &format!("/{KEYS}")).filter_map(Value::as_str).collect();
    let all_keys = json!(keys);
    let items = schema.get("items").unwrap_or(&Value::Null);
    if kind.is_some() && type_name != "array" {
        let why = "must be array if x-kubernetes-list-type is specified";
        faults.push(FieldFault::invalid_text(format!("{path}.type"), type_name, why));
        return faults;
    }
    match kind {
        Some("map" | "atomic" | "set") | None => {}
        Some(other) => {
            faults.push(FieldFault::unsupported(format!("{path}.{LIST}"), &other.into(), &["atomic", "set", "map"]));
        }
    }
    if !keys.is_empty() && kind != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        faults.push(match kind {
            None => FieldFault::required(format!("{path}.{LIST}"), why),
            Some(kind) => FieldFault::invalid_text(format!("{path}.{LIST}"), kind, why),
        });
    }
    match kind {
        Some("map") => {
            let of_items = text_at(items, "/type");
            if of_items != "object" {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                faults.push(FieldFault::invalid_text(format!("{path}.items.type"), of_items, why));
                return faults;
            }
            if keys.is_empty() {
                faults.push(FieldFault::required(
                    format!("{path}.{KEYS}"),
                    "must not be empty if x-kubernetes-list-type is map",
                ));
            }
            for key in &keys {
                let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
                    let why = "entries must all be names of item properties";
                    faults.push(FieldFault::invalid(format!("{path}.{KEYS}"), &all_keys, why));
                    continue;
                };
                let of_key = text_at(property, "/type");
                if matches!(of_key, "array" | "object") {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    faults.push(FieldFault::invalid_text(format!("{path}.items.properties[{key}].type"), of_key, why));
                }
                let required = list(items, "/required").any(|name| name.as_str() == Some(key));
                if !required && !has(property, "/default") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    faults.push(FieldFault::required(format!("{path}.items.properties[{key}].default"), why));
                }
                if has(property, "/nullable") && property.get("nullable") == Some(&Value::Bool(true)) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    faults.push(FieldFault::forbidden(format!("{path}.items.properties[{key}].nullable"), why));
                }
            }
            if (1..keys.len()).any(|at| keys[..at].contains(&keys[at])) {
                faults.push(FieldFault::invalid(
                    format!("{path}.{KEYS}"),
                    &all_keys,
                    "must not contain duplicate entries",
                ));
            }
        }
        Some("set") => {
            if items.get("nullable") == Some(&Value::Bool(true)) {
                let why = "cannot be nullable when x-kubernetes-list-type is set";
                faults.push(FieldFault::forbidden(format!("{path}.items.nullable"), why));
            }
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let part = match text_at(items, "/type") {
                "object" => "x-kubernetes-map-type",
                "array" => LIST,
                _ => return faults,
            };
            let found = items.get(part).cloned().unwrap_or_default();
            let implied = part == LIST && found.is_null();
            if found != "atomic" && !implied {
                faults.push(FieldFault::invalid(format!("{path}.items.{part}"), &found, why));
            }
        }
        _ => {}
    }
    faults
}

/// All schemas right below one, branches included, with their paths.
fn children<'a>(schema: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let mut found = fields(schema, path);
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = list(schema, &format!("/{key}")).collect::<Vec<_>>().into_iter().enumerate();
        found.extend(branches.map(|(at, branch)| (branch, format!("{path}.{key}[{at}]"))));
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        found.push((not, format!("{path}.not")));
    }
    found
}

/// The schemas of fields, items and map values right below one.
fn fields<'a>(schema: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let mut found = Vec::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.push((property, format!("{path}.properties[{name}]")));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(key).filter(|schema| schema.is_object()) {
            found.push((schema, format!("{path}.{key}")));
        }
    }
    found
}

/// What a structural schema needs on top: a type everywhere outside the branches, and nothing but limits inside them.
fn is_structural(schema: &Value, path: &str, place: Place, faults: &mut Vec<FieldFault>) {
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let type_name = text_at(schema, "/type");
    let untyped = flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
    if type_name.is_empty() && (place == Place::Root || !untyped) {
        let why = match place {
            Place::Root => "must not be empty at the root",
            Place::Field => "must not be empty for specified object fields",
            Place::Item => "must not be empty for specified array items",
        };
        faults.push(FieldFault::required(format!("{path}.type"), why));
    }
    if flag("x-kubernetes-embedded-resource") && place != Place::Root {
        let empty = schema.get("properties").is_none_or(crate::object::is_empty);
        if empty && !flag("x-kubernetes-preserve-unknown-fields") {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            faults.push(FieldFault::required(format!("{path}.properties"), why));
        }
        if type_name != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            faults.push(FieldFault::invalid_text(format!("{path}.type"), type_name, why));
        }
    }
    branches::faults(schema, path, faults);
    for (child, child_path) in fields(schema, path) {
        let place = if child_path.ends_with(".items") { Place::Item } else { Place::Field };
        is_structural(child, &child_path, place, faults);
    }
}

/// What the root of a resource may say of itself.
fn root(schema: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let type_name = text_at(schema, "/type");
    if !type_name.is_empty() && type_name != "object" {
        faults.push(FieldFault::invalid_text(format!("{path}.type"), type_name, "must be object at the root"));
    }
    for (key, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let found = text_at(schema, &format!("/properties/{key}/type"));
        if !found.is_empty() && found != wanted {
            faults.push(FieldFault::invalid_text(
                format!("{path}.properties[{key}].type"),
                found,
                format!("must be {wanted}"),
            ));
        }
    }
    if let Some(metadata) = schema.pointer("/properties/metadata") {
        let members = metadata.get("properties").and_then(Value::as_object);
        let other =
            members.and_then(|members| members.keys().find(|key| !matches!(key.as_str(), "name" | "generateName")));
        if let Some(other) = other {
            let why = format!(
                "must not specify anything other than name and generateName, but metadata.{other} is implicitly specified"
            );
            faults.push(FieldFault::forbidden(format!("{path}.properties[metadata]"), why));
        }
    }
    faults
}
