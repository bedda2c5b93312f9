//! Validation that is common to all kinds: field errors, and the rules for names and labels.

mod field_error;
mod names;
mod printable;
#[cfg(test)]
mod tests;

pub use field_error::{FieldError, FieldErrorType, FieldErrors};
pub use names::{NameRule, annotation_key_errors, name_errors};
pub use printable::is_printable;
// Kubernetes calls other strings in the format of a label key "qualified names".
pub use pintle_meta::{label_key_faults, label_key_faults as qualified_name_faults, label_value_faults};
