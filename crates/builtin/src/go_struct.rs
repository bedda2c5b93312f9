//! Formats values with the names and the order of their Go fields, as in the errors of kube-apiserver.

use std::fmt;

use pintle_apimachinery::validate::{FieldError, FieldErrorType};
use pintle_json::Json;

/// Formats an object as JSON. `fields` contains the JSON name and the Go name of each field. An absent field is null.
pub(super) fn go_struct(object: &Json, fields: &[(&str, &str)]) -> String {
    let parts = fields.iter().map(|(name, go_name)| format!("{go_name:?}:{}", object[*name]));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// Creates an error for an invalid object.
pub(super) fn invalid_struct(
    field: &str,
    object: &Json,
    fields: &[(&str, &str)],
    why: impl fmt::Display,
) -> FieldError {
    FieldError::new(FieldErrorType::Invalid, field, format!("Invalid value: {}: {why}", go_struct(object, fields)))
}
