//! Validates the defaults in a schema.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};

use crate::field_path::FieldPath;
use crate::rules::{DefaultBudget, RuleTree};
use crate::structural::Structural;
use crate::{embedded, prune, validator};

/// Reports each default that violates its field's schema or the schema's validation rules. Validating all defaults of
/// the schema takes at most `steps` validation steps. All defaults together share the CEL cost budget for one object.
pub(super) fn all(
    schema: &Json,
    structural: &Structural,
    path: FieldPath<'_>,
    steps: &mut usize,
    errors: &mut FieldErrors,
) {
    if let Some(default) = schema.get("default").filter(|default| default.is_object()) {
        for key in ["apiVersion", "kind"].into_iter().filter(|key| default.get(key).is_none()) {
            errors.add(|| FieldError::required(path.member("default").member(key), ""));
        }
    }
    let tree = has_default(schema).then(|| RuleTree::read(schema)).flatten();
    let mut check = Check { steps, budget: DefaultBudget::default(), errors };
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        let path = FieldPath::Key(&properties, name);
        match name.as_str() {
            "apiVersion" | "kind" | "metadata" => forbidden(property, name, path, check.errors),
            _ => {
                if let Some(structural) = structural.properties.get(name.as_str()) {
                    let rules = tree.as_ref().and_then(|tree| tree.property(name));
                    check.below(Part { schema: property, structural, rules }, None, path);
                }
            }
        }
    }
}

fn has_default(schema: &Json) -> bool {
    schema.has("/default")
        || schema.members("/properties").any(|(_, property)| has_default(property))
        || schema.get("items").filter(|items| items.is_object()).is_some_and(has_default)
}

fn forbidden(schema: &Json, top: &str, path: FieldPath<'_>, errors: &mut FieldErrors) {
    if schema.has("/default") {
        let why = format!("must not be set in top-level {top}");
        errors.add(|| FieldError::forbidden(path.member("default"), why));
    }
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        forbidden(property, top, FieldPath::Key(&properties, name), errors);
    }
}

#[derive(Clone, Copy)]
struct Part<'a> {
    schema: &'a Json,
    structural: &'a Structural,
    rules: Option<&'a RuleTree>,
}

struct Check<'a> {
    steps: &'a mut usize,
    budget: DefaultBudget,
    errors: &'a mut FieldErrors,
}

impl Check<'_> {
    fn below(&mut self, part: Part<'_>, within: Option<&Within<'_>>, path: FieldPath<'_>) {
        let Part { schema, structural, rules } = part;
        let within = within.filter(|_| !structural.embedded);
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            self.default(default, part, within, path.member("default"));
        }
        let properties = path.member("properties");
        for (name, property) in schema.members("/properties") {
            let Some(below_it) = structural.properties.get(name.as_str()) else { continue };
            let deeper =
                Within { above: within, object: within.map_or(structural, |within| within.object), step: Some(name) };
            let is_within = within.is_some() || structural.embedded && pintle_store::OBJECT.contains(&name.as_str());
            let rules = rules.and_then(|rules| rules.property(name));
            let part = Part { schema: property, structural: below_it, rules };
            self.below(part, is_within.then_some(&deeper), FieldPath::Key(&properties, name));
        }
        if let (Some(schema), Some(items)) = (schema.get("items"), structural.items.as_deref()) {
            let deeper = within.map(|within| Within { above: Some(within), object: within.object, step: None });
            let part = Part { schema, structural: items, rules: rules.and_then(RuleTree::items) };
            self.below(part, deeper.as_ref(), path.member("items"));
        }
        // As in kube-apiserver, defaults below `additionalProperties` are not checked. Defaults below
        // `additionalProperties` in the metadata are forbidden.
        if within.is_some() && schema.has("/additionalProperties/default") {
            let why = "must not be set inside additionalProperties applying to object metadata";
            let path = path.member("additionalProperties");
            self.errors.add(|| FieldError::forbidden(path.member("default"), why));
        }
    }

    fn default(&mut self, default: &Json, part: Part<'_>, within: Option<&Within<'_>>, path: FieldPath<'_>) {
        let structural = part.structural;
        let found = match within {
            Some(within) => errors_of_metadata(default, within, path),
            None => {
                let known = without_unknown_metadata(default, structural);
                self.errors.extend(unknown_fields(&known, structural, path));
                errors_of_objects(&known, structural, path)
            }
        };
        if found.is_empty() {
            let of_values = validator::validate_default(structural, default, self.steps);
            match part.rules.filter(|_| of_values.is_empty()) {
                Some(rules) => {
                    let of_rules = self.budget.evaluate(rules, structural, default);
                    self.errors.extend(placed(of_rules, path, below));
                }
                None => self.errors.extend(placed(of_values, path, joined)),
            }
        }
        self.errors.extend(found);
    }
}

/// A path that starts at an embedded object, and leads to a value in its `metadata`, `apiVersion` or `kind`.
struct Within<'a> {
    above: Option<&'a Within<'a>>,
    object: &'a Structural,
    /// The name of an object member, or `None` for a list item.
    step: Option<&'a str>,
}

/// Returns the errors of a default inside metadata, by validating an object that contains only this default.
fn errors_of_metadata(default: &Json, within: &Within<'_>, path: FieldPath<'_>) -> FieldErrors {
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
    let why = match embedded::malformed(within.object, &object, FieldPath::Start("")) {
        Some(error) => error.to_string(),
        None => {
            let found: Vec<_> =
                embedded::errors(within.object, &object).into_iter().map(|error| error.to_string()).collect();
            match found.len() {
                0 => return FieldErrors::default(),
                1 => found.concat(),
                _ => format!("[{}]", found.join(", ")),
            }
        }
    };
    let mut errors = FieldErrors::default();
    errors.add(|| FieldError::invalid(path, default, format!("must result in valid metadata: {why}")));
    errors
}

fn without_unknown_metadata(default: &Json, structural: &Structural) -> Json {
    let mut known = default.clone();
    prune::prune_embedded(structural, &mut known);
    known
}

fn unknown_fields(default: &Json, structural: &Structural, path: FieldPath<'_>) -> Option<FieldError> {
    let mut pruned = default.clone();
    prune::prune_value(structural, &mut pruned);
    (pruned != *default).then(|| FieldError::invalid(path, default, "must not have unknown fields"))
}

fn errors_of_objects(default: &Json, structural: &Structural, path: FieldPath<'_>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    match embedded::malformed(structural, default, path) {
        Some(error) => errors.push(error),
        None => errors.extend(placed(embedded::errors(structural, default), path, below)),
    }
    errors
}

/// Prefixes the error paths with `path`, which is the path of the default.
fn placed<'a, E: IntoIterator<Item = FieldError>>(
    errors: E,
    path: FieldPath<'a>,
    place: fn(FieldPath<'a>, &str) -> String,
) -> impl Iterator<Item = FieldError> + use<'a, E> {
    errors.into_iter().map(move |mut error| {
        error.field = place(path, &error.field);
        error
    })
}

/// Joins a path and a nested field's path. As in kube-apiserver, writes a dot even before an index.
fn joined(path: FieldPath<'_>, field: &str) -> String {
    match field {
        // An error about the whole value has an empty path.
        "" | "<nil>" => path.into(),
        field => format!("{path}.{field}"),
    }
}

fn below(path: FieldPath<'_>, field: &str) -> String {
    if field.starts_with('[') { format!("{path}{field}") } else { joined(path, field) }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;

    use super::super::structure;
    use super::*;
    use crate::pattern::Patterns;
    use crate::validator::MAX_STEPS;

    fn object(properties: impl IntoIterator<Item = (String, Json)>) -> Json {
        json!({"type": "object", "properties": properties.into_iter().collect::<pintle_json::Map>()})
    }

    #[test]
    fn defaults_of_a_definition_share_one_step_limit() {
        let (mut patterns, mut steps) = (Patterns::default(), 60_000);
        let mut errors = |count: usize| {
            // Matching this text against the pattern takes 13,000 steps.
            let text = format!("{}1", "a".repeat(1 << 12));
            let default = json!({"type": "string", "pattern": r"\pL{50}1", "default": text});
            let schema = object((0..count).map(|at| (format!("p{at}"), default.clone())));
            structure::all(&schema, "s", &mut patterns, &mut steps)
        };
        assert_eq!(errors(4), FieldErrors::default());
        let found = errors(1);
        let messages = found.iter().map(|error| error.to_string()).collect::<Vec<_>>();
        assert!(messages.len() == 1 && messages[0].contains("steps to validate"), "of another version: {messages:?}");
    }

    #[test]
    fn nested_defaults_are_validated_in_linear_time() {
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
            for (_, schema) in schemas.iter().filter(|(size, _)| *size == parts) {
                let errors = structure::all(schema, "s", &mut Patterns::default(), &mut { MAX_STEPS });
                assert_eq!(errors, FieldErrors::default());
            }
        };
        assert!(is_linear(PARTS, checks));
    }
}
