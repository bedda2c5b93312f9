//! Validates the defaults in a definition's schema.

use serde_json::Value;

use crate::crd::structural::Structural;
use crate::crd::{prune, validate};
use crate::validate::FieldFault;

/// The faults of the defaults of a whole schema: each has to be what its schema asks for.
pub(super) fn all(schema: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if let Some(default) = schema.get("default").filter(|default| default.is_object()) {
        for key in ["apiVersion", "kind"].into_iter().filter(|key| default.get(key).is_none()) {
            faults.push(FieldFault::required(format!("{path}.default.{key}"), ""));
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.properties[{name}]");
        match name.as_str() {
            "apiVersion" | "kind" | "metadata" => forbidden(property, name, &path, &mut faults),
            _ => below(property, &path, &mut faults),
        }
    }
    faults
}

fn forbidden(schema: &Value, top: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if schema.get("default").is_some_and(|default| !default.is_null()) {
        faults.push(FieldFault::forbidden(format!("{path}.default"), format!("must not be set in top-level {top}")));
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        forbidden(property, top, &format!("{path}.properties[{name}]"), faults);
    }
}

fn below(schema: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let structural = Structural::read(schema);
        let path = format!("{path}.default");
        let mut pruned = default.clone();
        prune::prune_value(&structural, &mut pruned);
        if pruned != *default {
            faults.push(FieldFault::invalid(path.as_str(), default, "must not have unknown fields"));
        }
        for mut fault in validate::validate(&structural, default, None, "") {
            fault.field = match fault.field.as_str() {
                "" => path.clone(),
                field => format!("{path}.{field}"),
            };
            faults.push(fault);
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        below(property, &format!("{path}.properties[{name}]"), faults);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(key).filter(|schema| schema.is_object()) {
            below(schema, &format!("{path}.{key}"), faults);
        }
    }
}
