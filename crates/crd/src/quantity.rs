//! Restricts the schemas of Kubernetes quantities to valid quantities.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::schema_object::{INT_OR_STRING, Object};

/// The schema name of k8s-openapi's `Quantity`. schemars adds a number if the program contains two versions of
/// k8s-openapi.
const NAME: &str = "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The pattern that controller-gen writes.
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Adds the pattern of a quantity to the schema of each `Quantity` in `schema`, which is the schema of `T` without
/// references.
///
/// The schema of a `Quantity` differs from the schema of an `IntOrString` only in its name and its description. A
/// schema without references has no names, and the doc comment of a field replaces the description. Therefore, this
/// function compares `schema` with the schema with references.
pub(crate) fn restrict_quantities<T: JsonSchema + ?Sized>(schema: &mut Value) {
    let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    restrict(schema, vec![&root], &root);
}

/// Removes optional members that are empty quantities from `value`. Returns `true` if `value` is invalid, because it is an
/// empty quantity itself, or because a required member or an item is one.
fn remove_empty_quantities(schema: &Value, value: &mut Value) -> bool {
    if schema["pattern"] == PATTERN && value == "" {
        return true;
    }
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
    let mut is_invalid = false;
    alternatives.for_each(|schema| is_invalid |= remove_empty_quantities(schema, value));
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let child = schema["properties"].get(name.as_str()).unwrap_or(&schema["additionalProperties"]);
            let is_kept = !remove_empty_quantities(child, member);
            let is_required = || schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            is_invalid |= !is_kept && is_required();
            is_kept
        }),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| is_invalid |= remove_empty_quantities(&schema["items"], item));
        }
        _ => {}
    }
    is_invalid
}

/// Adds the alternatives that controller-gen writes for a quantity.
pub(crate) fn add_alternatives(schema: &mut Object) {
    if schema.get("pattern").is_some_and(|pattern| pattern == PATTERN) && schema.contains_key(INT_OR_STRING) {
        schema.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
    }
}

/// `references` contains the corresponding parts of the schema with references. There can be several parts, because
/// schemars merges the alternatives of a union if they are not references.
fn restrict<'a>(schema: &mut Value, references: Vec<&'a Value>, root: &'a Value) {
    let Value::Object(members) = schema else { return };
    let (mut parts, mut seen, mut is_quantity) = (Vec::new(), BTreeSet::new(), false);
    for reference in references {
        is_quantity |= resolve(reference, root, &mut seen, &mut parts, false);
    }
    if is_quantity && members.contains_key(INT_OR_STRING) {
        members.entry("pattern").or_insert_with(|| PATTERN.into());
    }
    for (key, child) in members {
        // The alternatives of an alternative have other indexes than the alternatives of the schema itself.
        let is_union = matches!(key.as_str(), "anyOf" | "oneOf" | "allOf");
        let parts_at = parts.iter().filter(|(_, is_alternative)| !(is_union && *is_alternative));
        let parts_at = parts_at.filter_map(|(part, _)| part.get(key.as_str()));
        match (key.as_str(), child) {
            ("properties" | "patternProperties", Value::Object(children)) => {
                for (name, child) in children {
                    let references = parts_at.clone().filter_map(|parts| parts.get(name.as_str()));
                    restrict(child, references.collect(), root);
                }
            }
            ("items" | "additionalProperties", child) => restrict(child, parts_at.collect(), root),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(children)) => {
                for (index, child) in children.iter_mut().enumerate() {
                    let references = parts_at.clone().filter_map(|parts| parts.get(index));
                    restrict(child, references.collect(), root);
                }
            }
            _ => {}
        }
    }
    remove_empty_default(schema);
}

/// Removes empty quantities from the default of `schema`, or the whole default if such a quantity is required.
/// `Quantity::default()` is an empty string, which schemars writes for `#[serde(default)]`. The API server rejects a
/// definition whose default does not match the pattern.
fn remove_empty_default(schema: &mut Value) {
    let Some(mut default) = schema.get("default").cloned() else { return };
    let is_invalid = remove_empty_quantities(schema, &mut default);
    let Value::Object(members) = schema else { return };
    if is_invalid {
        members.remove("default");
    } else {
        members.insert("default".into(), default);
    }
}

/// Adds `schema`, the schema that it refers to, and their alternatives to `parts`, each with the flag whether it is an
/// alternative. Returns `true` if `schema` refers to a `Quantity` or to an `Option<Quantity>`.
fn resolve<'a>(
    schema: &'a Value,
    root: &'a Value,
    seen: &mut BTreeSet<&'a str>,
    parts: &mut Vec<(&'a Value, bool)>,
    is_alternative: bool,
) -> bool {
    parts.push((schema, is_alternative));
    for key in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        let values = alternatives.filter(|alternative| alternative["type"] != "null");
        let quantities: Vec<bool> = values.map(|alternative| resolve(alternative, root, seen, parts, true)).collect();
        if quantities == [true] {
            return true;
        }
    }
    let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return false };
    if reference.trim_end_matches(|c: char| c.is_ascii_digit()) == NAME {
        return true;
    }
    let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
    match target.filter(|_| seen.insert(reference)) {
        Some(target) => resolve(target, root, seen, parts, is_alternative),
        None => false,
    }
}
