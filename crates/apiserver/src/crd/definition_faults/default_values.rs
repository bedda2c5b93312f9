//! Validates the defaults in a definition's schema.

use pintle_json::Json;

use crate::crd::at::At;
use crate::crd::structural::{Additional, Structural};
use crate::crd::{prune, validator};
use crate::validate::{FieldFault, FieldFaults};

/// The faults of the defaults of a whole schema: each has to be what its schema asks for. They may take so many steps together.
pub(super) fn all(schema: &Json, structural: &Structural, path: At<'_>, steps: &mut usize, faults: &mut FieldFaults) {
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
            _ => {
                if let Some(structural) = structural.properties.get(name.as_str()) {
                    below(property, structural, path, steps, faults);
                }
            }
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

fn below(schema: &Json, structural: &Structural, path: At<'_>, steps: &mut usize, faults: &mut FieldFaults) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let path = path.member("default");
        let mut pruned = default.clone();
        prune::prune_value(structural, &mut pruned);
        if pruned != *default {
            faults.tell(|| FieldFault::invalid(path, default, "must not have unknown fields"));
        }
        for mut fault in validator::validate_within(structural, default, None, "", steps) {
            faults.tell(|| {
                fault.field = match fault.field.as_str() {
                    // A fault of the whole value has no path where it is found.
                    "" | "<nil>" => path.into(),
                    field => format!("{path}.{field}"),
                };
                fault
            });
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        if let Some(structural) = structural.properties.get(name.as_str()) {
            below(property, structural, At::Key(&properties, name), steps, faults);
        }
    }
    let additional = match &structural.additional {
        Some(Additional::Schema(schema)) => Some(&**schema),
        _ => None,
    };
    for (key, structural) in [("items", structural.items.as_deref()), ("additionalProperties", additional)] {
        if let (Some(schema), Some(structural)) = (schema.get(key), structural) {
            below(schema, structural, path.member(key), steps, faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::structure;
    use super::*;
    use crate::clock::effort::is_linear;
    use crate::crd::pattern::Patterns;
    use crate::crd::validator::MOST_STEPS;

    fn object(properties: impl IntoIterator<Item = (String, Json)>) -> Json {
        json!({"type": "object", "properties": properties.into_iter().collect::<pintle_json::Map>()})
    }

    #[test]
    fn the_defaults_of_a_definition_take_the_steps_of_one_value_together() {
        let (mut patterns, mut steps) = (Patterns::default(), MOST_STEPS);
        let mut faults = |count: usize| {
            // A match of each takes a million steps.
            let default = json!({"type": "string", "pattern": r"^\pL{5}", "default": "a".repeat(1 << 16)});
            let schema = object((0..count).map(|at| (format!("p{at}"), default.clone())));
            structure::all(&schema, "s", &mut patterns, &mut steps)
        };
        assert_eq!(faults(4), FieldFaults::default());
        let found = faults(1);
        let told = found.iter().map(|fault| fault.to_string()).collect::<Vec<_>>();
        assert!(told.len() == 1 && told[0].contains("steps to validate"), "of another version: {told:?}");
    }

    #[test]
    fn a_schema_is_read_once_whatever_its_defaults_stand_in() {
        const PARTS: usize = 15;
        let nested = |parts: usize| {
            let plain = |at: usize| (format!("p{at}"), json!({"type": "string"}));
            (0..parts).fold(object((0..200 * parts).map(plain)), |mut within, _| {
                within["default"] = json!({});
                object([("a".to_owned(), within)])
            })
        };
        let schemas = [PARTS, 4 * PARTS].map(|parts| (parts, nested(parts)));
        let checks = |parts: usize| {
            for (_, schema) in schemas.iter().filter(|(of, _)| *of == parts) {
                let faults = structure::all(schema, "s", &mut Patterns::default(), &mut { MOST_STEPS });
                assert_eq!(faults, FieldFaults::default());
            }
        };
        assert!(is_linear(PARTS, checks));
    }
}
