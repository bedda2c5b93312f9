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
        is_quantity |= resolve(reference, root, &mut seen, &mut parts);
    }
    if is_quantity && members.contains_key(INT_OR_STRING) {
        members.entry("pattern").or_insert_with(|| PATTERN.into());
    }
    for (key, child) in members {
        let parts_at = parts.iter().filter_map(|part| part.get(key.as_str()));
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
}

/// Adds `schema`, the schema that it refers to, and their alternatives to `parts`. Returns `true` if `schema` refers to
/// a `Quantity` or to an `Option<Quantity>`.
fn resolve<'a>(schema: &'a Value, root: &'a Value, seen: &mut BTreeSet<&'a str>, parts: &mut Vec<&'a Value>) -> bool {
    parts.push(schema);
    for key in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        let values = alternatives.filter(|alternative| alternative["type"] != "null");
        let quantities: Vec<bool> = values.map(|alternative| resolve(alternative, root, seen, parts)).collect();
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
        Some(target) => resolve(target, root, seen, parts),
        None => false,
    }
}
