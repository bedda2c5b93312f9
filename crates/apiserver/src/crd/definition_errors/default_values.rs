//! Validates the defaults in a definition's schema.

use pintle_json::{Json, json};

use crate::crd::at::At;
use crate::crd::structural::{Additional, Structural};
use crate::crd::{embedded, prune, validator};
use crate::validate::{FieldError, FieldErrors};

/// The faults of the defaults of a whole schema: each has to be what its schema asks for. They may take so many steps together.
pub(super) fn all(schema: &Json, structural: &Structural, path: At<'_>, steps: &mut usize, errors: &mut FieldErrors) {
    if let Some(default) = schema.get("default").filter(|default| default.is_object()) {
        for key in ["apiVersion", "kind"].into_iter().filter(|key| default.get(key).is_none()) {
            errors.add(|| FieldError::required(path.member("default").member(key), ""));
        }
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        let path = At::Key(&properties, name);
        match name.as_str() {
            "apiVersion" | "kind" | "metadata" => forbidden(property, name, path, errors),
            _ => {
                if let Some(structural) = structural.properties.get(name.as_str()) {
                    below(property, structural, None, path, steps, errors);
                }
            }
        }
    }
}

fn forbidden(schema: &Json, top: &str, path: At<'_>, errors: &mut FieldErrors) {
    if schema.has("/default") {
        let why = format!("must not be set in top-level {top}");
        errors.add(|| FieldError::forbidden(path.member("default"), why));
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        forbidden(property, top, At::Key(&properties, name), errors);
    }
}

fn below(
    schema: &Json,
    structural: &Structural,
    within: Option<&Within<'_>>,
    path: At<'_>,
    steps: &mut usize,
    errors: &mut FieldErrors,
) {
    let within = within.filter(|_| !structural.embedded);
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let path = path.member("default");
        let found = match within {
            Some(within) => errors_of_metadata(default, within, path),
            None => {
                let known = without_unknown_metadata(default, structural);
                errors.extend(unknown_fields(&known, structural, path));
                errors_of_objects(&known, structural, path)
            }
        };
        if found.is_empty() {
            for mut error in validator::validate_within(structural, default, None, "", steps) {
                errors.add(|| {
                    error.field = beneath(path, &error.field);
                    error
                });
            }
        }
        errors.extend(found);
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        let Some(below_it) = structural.properties.get(name.as_str()) else { continue };
        let deeper =
            Within { above: within, object: within.map_or(structural, |within| within.object), step: Some(name) };
        let is_within = within.is_some() || structural.embedded && pintle_store::OBJECT.contains(&name.as_str());
        below(property, below_it, is_within.then_some(&deeper), At::Key(&properties, name), steps, errors);
    }
    if let (Some(schema), Some(items)) = (schema.get("items"), structural.items.as_deref()) {
        let deeper = within.map(|within| Within { above: Some(within), object: within.object, step: None });
        below(schema, items, deeper.as_ref(), path.member("items"), steps, errors);
    }
    if let (Some(schema), Some(Additional::Schema(additional))) =
        (schema.get("additionalProperties"), &structural.additional)
    {
        below(schema, additional, None, path.member("additionalProperties"), steps, errors);
    }
}

/// The way down from an embedded object to a part of what every object has.
struct Within<'a> {
    above: Option<&'a Within<'a>>,
    object: &'a Structural,
    /// A member; `None` for an item.
    step: Option<&'a str>,
}

/// The faults of a default that stands in metadata: of the object that it would be a part of.
fn errors_of_metadata(default: &Json, within: &Within<'_>, path: At<'_>) -> FieldErrors {
    let mut object = default.clone();
    let mut at = Some(within);
    while let Some(Within { above, step, .. }) = at {
        object = match step {
            Some(name) => Json::Object([((*name).to_owned(), object)].into_iter().collect()),
            None => json!([object]),
        };
        at = *above;
    }
    for (key, value) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
        object.set_default(key, value);
    }
    let why = match embedded::malformed(within.object, &object, At::Start("")) {
        Some(error) => error.to_string(),
        None => {
            let told: Vec<_> =
                embedded::errors(within.object, &object).into_iter().map(|error| error.to_string()).collect();
            match told.len() {
                0 => return FieldErrors::default(),
                1 => told.concat(),
                _ => format!("[{}]", told.join(", ")),
            }
        }
    };
    let mut errors = FieldErrors::default();
    errors.add(|| FieldError::invalid(path, default, format!("must result in valid metadata: {why}")));
    errors
}

/// What no metadata has is passed over in a default.
fn without_unknown_metadata(default: &Json, structural: &Structural) -> Json {
    let mut known = default.clone();
    prune::prune_embedded(structural, &mut known);
    known
}

fn unknown_fields(default: &Json, structural: &Structural, path: At<'_>) -> Option<FieldError> {
    let mut pruned = default.clone();
    prune::prune_value(structural, &mut pruned);
    (pruned != *default).then(|| FieldError::invalid(path, default, "must not have unknown fields"))
}

/// What is wrong with the objects that any other default holds.
fn errors_of_objects(default: &Json, structural: &Structural, path: At<'_>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    match embedded::malformed(structural, default, path) {
        Some(error) => errors.push(error),
        None => {
            for mut error in embedded::errors(structural, default) {
                errors.add(|| {
                    error.field = beneath(path, &error.field);
                    error
                });
            }
        }
    }
    errors
}

fn beneath(path: At<'_>, field: &str) -> String {
    match field {
        // A fault of the whole value has no path where it is found.
        "" | "<nil>" => path.into(),
        field => format!("{path}.{field}"),
    }
}

#[cfg(test)]
mod tests {
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
        let (mut patterns, mut steps) = (Patterns::default(), 60_000);
        let mut errors = |count: usize| {
            // A match of each takes 13,000 steps.
            let text = format!("{}1", "a".repeat(1 << 12));
            let default = json!({"type": "string", "pattern": r"\pL{50}1", "default": text});
            let schema = object((0..count).map(|at| (format!("p{at}"), default.clone())));
            structure::all(&schema, "s", &mut patterns, &mut steps)
        };
        assert_eq!(errors(4), FieldErrors::default());
        let found = errors(1);
        let told = found.iter().map(|error| error.to_string()).collect::<Vec<_>>();
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
                let errors = structure::all(schema, "s", &mut Patterns::default(), &mut { MOST_STEPS });
                assert_eq!(errors, FieldErrors::default());
            }
        };
        assert!(is_linear(PARTS, checks));
    }
}
