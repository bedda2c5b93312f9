//! What makes an object invalid, in words that all kinds share: faults, and the rules of names and labels.

mod field_error;
mod names;
mod printable;
#[cfg(test)]
mod tests;

pub(crate) use field_error::{FieldError, FieldErrorType, FieldErrors};
pub(crate) use names::{NameRule, annotation_key_errors, name_errors};
pub(crate) use printable::is_printable;
// A key of a label is what Kubernetes calls a qualified name, where it asks for one elsewhere.
pub(crate) use pintle_meta::{label_key_faults, label_key_faults as qualified_name_faults, label_value_faults};
