//! Validates the match conditions of policies and webhooks.

use pintle_json::Json;

use pintle_admission::policy::{Expressions, INSTANTIATION_FAILED};
use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};

const MAX_CONDITIONS: usize = 64;

/// Validates match conditions. `prefix` is the path of the policy's spec or of the webhook, followed by a dot.
pub(super) fn match_conditions(spec: &Json, prefix: &str, expressions: &Expressions) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let conditions: Vec<_> = spec.list("/matchConditions").collect();
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(format!("{prefix}matchConditions"), conditions.len(), MAX_CONDITIONS));
    }
    let twice = duplicates(conditions.iter().map(|condition| condition.text("/name")));
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{prefix}matchConditions[{at}]");
        let (name, text) = (condition.text("/name"), condition.text("/expression").trim());
        expression(text, &format!("{path}.expression"), "", &mut errors, |text| {
            expressions.match_condition(text).err()
        });
        let field = format!("{path}.name");
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        errors.extend(
            qualified_name_faults(name).into_iter().map(|why| FieldError::invalid_text(field.as_str(), name, why)),
        );
        errors.duplicate_if(twice[at], field, &name.into());
    }
    errors
}

pub(super) fn expression(
    text: &str,
    field: &str,
    missing: &str,
    errors: &mut FieldErrors,
    compile: impl FnOnce(&str) -> Option<String>,
) {
    if text.trim().is_empty() {
        errors.push(FieldError::required(field, missing));
    } else if let Some(why) = compile(text) {
        errors.push(if why.starts_with(INSTANTIATION_FAILED) {
            FieldError::internal(field, why)
        } else {
            FieldError::invalid_text(field, text, why)
        });
    }
}
