//! Validation of label selectors.

use pintle_apimachinery::validate::{FieldError, FieldErrors, label_key_faults, label_value_faults};
use pintle_json::Json;

use super::check::Check;

/// Validates the keys and values of the labels at `pointer`. `field` is the path of the labels.
pub fn label_errors(object: &Json, pointer: &str, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (key, value) in object.members(pointer) {
        let value = value.as_str().unwrap_or_default();
        for (text, why) in [(key.as_str(), label_key_faults(key)), (value, label_value_faults(value))] {
            errors.extend(why.iter().map(|why| FieldError::invalid_text(field, text, why)));
        }
    }
    errors
}

/// Validates a `LabelSelector`.
pub fn selector_errors(selector: &Json, path: &str) -> FieldErrors {
    let mut errors = label_errors(selector, "/matchLabels", &format!("{path}.matchLabels"));
    let expressions = Check::at(selector, path).each("matchExpressions", |expression, _| {
        let operator = expression.object().text("/operator").to_owned();
        let values = expression.object().get("values").is_some_and(|values| !values.is_empty());
        let expression = match operator.as_str() {
            "In" | "NotIn" => {
                expression.required_because("values", "must be specified when `operator` is 'In' or 'NotIn'")
            }
            "Exists" | "DoesNotExist" => expression.refuse(values, || {
                FieldError::forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            }),
            other => expression.invalid_text_if(true, "operator", other, "not a valid selector operator"),
        };
        let key = expression.object().text("/key");
        let why = label_key_faults(key);
        let expression = why.iter().fold(expression, |check, why| check.invalid_text_if(true, "key", key, why));
        expression.each("values", |value, _| {
            let text = value.object().as_str().unwrap_or_default();
            let why = label_value_faults(text);
            why.iter().fold(value, |value, why| value.invalid_text_if(true, "", text, why))
        })
    });
    errors.extend(expressions.done());
    errors
}
