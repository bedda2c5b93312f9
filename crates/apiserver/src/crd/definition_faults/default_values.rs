//! Validates the defaults in a definition's schema.

use pintle_json::Json;

use crate::crd::at::At;
use crate::crd::pattern::Patterns;
use crate::crd::structural::Structural;
use crate::crd::{prune, validator};
use crate::validate::{FieldFault, FieldFaults};

/// The faults of the defaults of a whole schema: each has to be what its schema asks for.
pub(super) fn all(schema: &Json, path: At<'_>, patterns: &mut Patterns, faults: &mut FieldFaults) {
    if let Some(default) = schema.get("default").filter(|default| default.is_object()) {
        for key in ["apiVersion", "kind"].into_iter().filter(|key| default.get(key).is_none()) {
            faults.tell(|| FieldFault::required(path.member("default").member(key), ""));
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        let path = At::Key(&properties, name);
        match name.as_str() {
            "apiVersion" | "kind" | "metadata" => forbidden(property, name, path, faults),
            _ => below(property, path, patterns, faults),
        }
    }
}

fn forbidden(schema: &Json, top: &str, path: At<'_>, faults: &mut FieldFaults) {
    if schema.has("/default") {
        let why = format!("must not be set in top-level {top}");
        faults.tell(|| FieldFault::forbidden(path.member("default"), why));
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        forbidden(property, top, At::Key(&properties, name), faults);
    }
}

fn below(schema: &Json, path: At<'_>, patterns: &mut Patterns, faults: &mut FieldFaults) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let structural = Structural::read(schema, patterns);
        let path = path.member("default");
        let mut pruned = default.clone();
        prune::prune_value(&structural, &mut pruned);
        if pruned != *default {
            faults.tell(|| FieldFault::invalid(path, default, "must not have unknown fields"));
        }
        for mut fault in validator::validate(&structural, default, None, "") {
            faults.tell(|| {
                fault.field = match fault.field.as_str() {
                    "" => path.into(),
                    field => format!("{path}.{field}"),
                };
                fault
            });
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        below(property, At::Key(&properties, name), patterns, faults);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(key).filter(|schema| schema.is_object()) {
            below(schema, path.member(key), patterns, faults);
        }
    }
}
