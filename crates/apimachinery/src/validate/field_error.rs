//! Field errors with a path, a type and a message, like Kubernetes' Go type `field.Error`.

use std::fmt;

use pintle_json::{Json, go_float};
use pintle_meta::StatusCause;

/// A validation error about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub reason: FieldErrorType,
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// The message without the path, such as `Invalid value: "x": why`.
    pub message: String,
}

/// The type of a [`FieldError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorType {
    /// The field has an invalid value.
    Invalid,
    /// The field is required but has no value.
    Required,
    /// The value of the field must be unique, but occurs more than once.
    Duplicate,
    /// The field has a value that is not one of the supported values.
    NotSupported,
    /// The field must not be set.
    Forbidden,
    /// A string or a map is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// The value of the field has the wrong JSON type.
    TypeInvalid,
    /// The field refers to an object or a field that does not exist.
    NotFound,
    /// The server cannot validate the value of the field.
    Internal,
}

impl FieldErrorType {
    /// Returns the error type as the `reason` of a Status cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }
}

/// Displays a value like Kubernetes' Go code, which writes a float like `%v` and other values as JSON.
struct Shown<'a>(&'a Json);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_f64().filter(|_| !self.0.is_i64()) {
            Some(float) => f.write_str(&go_float(float)),
            None => self.0.fmt(f),
        }
    }
}

impl FieldError {
    /// Creates a field error with a complete message.
    pub fn new(reason: FieldErrorType, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    /// Creates an error for an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Json, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Invalid, field, format!("Invalid value: {}: {why}", Shown(value)))
    }

    /// Creates an error for an invalid value. `value` is the JSON of the value, in Go's format.
    pub fn invalid_go(field: impl Into<String>, value: &str, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Invalid, field, format!("Invalid value: {value}: {why}"))
    }

    /// Creates an error for an invalid string.
    pub fn invalid_text(field: impl Into<String>, value: &str, why: impl fmt::Display) -> Self {
        Self::invalid(field, &Json::from(value), why)
    }

    /// Creates an error for a missing value.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self::new(FieldErrorType::Required, field, message)
    }

    /// Creates an error for a duplicate value.
    pub fn duplicate(field: impl Into<String>, value: &Json) -> Self {
        Self::new(FieldErrorType::Duplicate, field, format!("Duplicate value: {}", Shown(value)))
    }

    /// Creates an error for a value that is not in `known`.
    pub fn unsupported(field: impl Into<String>, value: &Json, known: &[&str]) -> Self {
        let value = Shown(value);
        let known: Vec<_> = known.iter().map(|item| format!("\"{item}\"")).collect();
        let message = if known.is_empty() {
            format!("Unsupported value: {value}")
        } else {
            format!("Unsupported value: {value}: supported values: {}", known.join(", "))
        };
        Self::new(FieldErrorType::NotSupported, field, message)
    }

    /// Creates an error for a reference to an object or field that does not exist.
    pub fn not_found(field: impl Into<String>, value: &str) -> Self {
        Self::new(FieldErrorType::NotFound, field, format!("Not found: {}", Json::from(value)))
    }

    /// Creates an error for a field that must not be set.
    pub fn forbidden(field: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Forbidden, field, format!("Forbidden: {why}"))
    }

    /// Creates an error for a value that the server cannot validate.
    pub fn internal(field: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Internal, field, format!("Internal error: {why}"))
    }

    /// Creates an error for a value of more than `most` bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        let bytes = if most == 1 { "byte" } else { "bytes" };
        Self::new(FieldErrorType::TooLong, field, format!("Too long: may not be more than {most} {bytes}"))
    }

    /// Creates an error for a list of more than `most` items.
    pub fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        let items = if most == 1 { "item" } else { "items" };
        Self::new(FieldErrorType::TooMany, field, format!("Too many: {count}: must have at most {most} {items}"))
    }
}

/// The validation errors of an object, in order and up to a maximum total size. Without a maximum size, the errors
/// about an object of a few megabytes could take gigabytes of memory, because the error about a single field can be as
/// long as the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    all: Vec<FieldError>,
    /// The total size of all errors and warnings, in bytes.
    size: usize,
    /// Messages about violations that do not reject the object. The client receives these messages as warnings.
    warnings: Vec<String>,
}

/// The maximum total size of all errors and warnings, in bytes. A response with more errors would not help a client.
const MAX_ERROR_BYTES: usize = 8 << 20;

impl FieldErrors {
    /// Adds an error, unless the size limit is reached. `error` is called only if the error is added.
    ///
    /// The first error is added in any case, because an object without errors would be accepted.
    pub fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if !self.is_full() {
            let error = error();
            self.size += size_of::<FieldError>() + error.field.len() + error.message.len();
            self.all.push(error);
        }
    }

    /// Adds the validation errors in `more`.
    pub fn and(mut self, more: impl IntoIterator<Item = FieldError>) -> Self {
        self.extend(more);
        self
    }

    /// Adds an error unless the size limit is reached.
    pub fn push(&mut self, error: FieldError) {
        self.add(|| error);
    }

    /// Adds an error about an invalid string if `holds` is true, unless the size limit is reached. Like all methods
    /// with a condition, `invalid_text_if` formats the path `field` only if it adds the error.
    pub fn invalid_text_if(&mut self, holds: bool, field: impl Into<String>, value: &str, why: impl fmt::Display) {
        if holds {
            self.add(|| FieldError::invalid_text(field, value, why));
        }
    }

    /// Adds an error about a missing field if `holds` is true.
    pub fn required_if(&mut self, holds: bool, field: impl Into<String>, why: &str) {
        if holds {
            self.add(|| FieldError::required(field, why));
        }
    }

    /// Adds an error about a field that must not be set if `holds` is true.
    pub fn forbidden_if(&mut self, holds: bool, field: impl Into<String>, why: impl fmt::Display) {
        if holds {
            self.add(|| FieldError::forbidden(field, why));
        }
    }

    /// Adds an error about a duplicate value if `holds` is true.
    pub fn duplicate_if(&mut self, holds: bool, field: impl Into<String>, value: &Json) {
        if holds {
            self.add(|| FieldError::duplicate(field, value));
        }
    }

    /// Adds a warning, unless the size limit is reached. `text` is called only if the warning is added.
    pub fn warn(&mut self, text: impl FnOnce() -> String) {
        if self.size < MAX_ERROR_BYTES {
            let text = text();
            self.size += text.len();
            self.warnings.push(text);
        }
    }

    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns `true` if there are no errors. The collection can still contain warnings.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the paths of the fields that have errors.
    pub fn fields(&self) -> Vec<String> {
        self.all.iter().map(|error| error.field.clone()).collect()
    }

    /// Returns `true` if an error has one of these types.
    pub fn has_type(&self, types: &[FieldErrorType]) -> bool {
        self.all.iter().any(|error| types.contains(&error.reason))
    }

    /// Returns the total size of all errors and warnings, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns `true` if there is an error and the size limit is reached, so that callers can stop validating.
    pub fn is_full(&self) -> bool {
        self.size >= MAX_ERROR_BYTES && !self.all.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.all.iter()
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        for error in errors {
            if self.is_full() {
                return;
            }
            self.push(error);
        }
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut collected = Self::default();
        collected.extend(errors);
        collected
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl From<FieldError> for StatusCause {
    fn from(error: FieldError) -> Self {
        Self { reason: error.reason.as_str().into(), message: error.message, field: error.field }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn errors_are_bounded_when_pushed_and_collected() {
        let error = || FieldError::required("f".repeat(1 << 20), "");
        let mut pushed = FieldErrors::default();
        (0..100).for_each(|_| pushed.push(error()));
        let mut pulled = 0;
        let collected: FieldErrors = (0..100).inspect(|_| pulled += 1).map(|_| error()).collect();
        for errors in [pushed, collected] {
            assert!(errors.is_full());
            assert_eq!(errors.into_iter().len(), 8);
        }
        assert_eq!(pulled, 9, "collecting stops at the limit");
    }

    #[test]
    fn field_is_not_formatted_after_the_limit() {
        struct Field<'a>(&'a Cell<usize>);

        impl From<Field<'_>> for String {
            fn from(field: Field<'_>) -> Self {
                field.0.set(field.0.get() + 1);
                "f".repeat(1 << 20)
            }
        }

        let formatted = Cell::new(0);
        let mut errors = FieldErrors::default();
        for holds in [false, true] {
            for _ in 0..10 {
                errors.required_if(holds, Field(&formatted), "");
                errors.forbidden_if(holds, Field(&formatted), "");
                errors.duplicate_if(holds, Field(&formatted), &Json::Null);
                errors.invalid_text_if(holds, Field(&formatted), "", "");
            }
        }
        assert_eq!((formatted.get(), errors.into_iter().len()), (8, 8));
    }

    #[test]
    fn warning_is_not_formatted_after_the_limit() {
        let mut formatted = 0;
        let mut errors = FieldErrors::default();
        for _ in 0..10 {
            errors.warn(|| {
                formatted += 1;
                "w".repeat(1 << 20)
            });
        }
        assert_eq!((formatted, errors.take_warnings().len()), (8, 8));
    }

    #[test]
    fn first_error_is_kept_after_many_warnings() {
        let mut errors = FieldErrors::default();
        errors.warn(|| "w".repeat(8 << 20));
        assert!(!errors.is_full());
        (0..2).for_each(|_| errors.push(FieldError::required("f", "")));
        assert!(errors.is_full());
        assert_eq!(errors.fields(), ["f"]);
    }
}
