//! The parts of validation that all kinds share. The parts are field errors, and rules for names and labels.

mod field_error;
mod names;
mod printable;
#[cfg(test)]
mod tests;

pub(crate) use field_error::{FieldError, FieldErrorType, FieldErrors};
pub(crate) use names::{NameRule, annotation_key_errors, name_errors};
pub(crate) use printable::is_printable;
// If a text has the format of a label key but is not used as a label key, Kubernetes calls it a "qualified name".
pub(crate) use pintle_meta::{label_key_faults, label_key_faults as qualified_name_faults, label_value_faults};
