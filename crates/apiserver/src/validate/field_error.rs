//! One fault of an object: which field, what kind of fault, and why.

use std::fmt;

use pintle_json::Json;
use pintle_meta::StatusCause;

/// One fault of an object: where, what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// What kind of fault.
    pub(crate) reason: FieldErrorType,
    /// The path, such as `spec.containers[0].name`.
    pub(crate) field: String,
    /// The whole sentence, without the path: `Invalid value: "x": why`.
    pub(crate) message: String,
}

/// What kind of fault a [`FieldError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldErrorType {
    /// The value is not allowed there.
    Invalid,
    /// The value is missing.
    Required,
    /// The value may stand once only.
    Duplicate,
    /// The value is none of those known.
    NotSupported,
    /// The value, any value, may not be there.
    Forbidden,
    /// A text or a map is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// The value is of the wrong JSON type.
    TypeInvalid,
    /// What the value names does not exist.
    NotFound,
    /// The value could not be checked.
    Internal,
}

impl FieldErrorType {
    /// As causes in a Status spell it.
    pub(crate) fn as_str(self) -> &'static str {
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

impl FieldError {
    /// A fault with its whole message.
    pub(crate) fn new(reason: FieldErrorType, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    /// A value that is not allowed there.
    pub(crate) fn invalid(field: impl Into<String>, value: &Json, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Invalid, field, format!("Invalid value: {value}: {why}"))
    }

    /// A text that is not allowed there.
    pub(crate) fn invalid_text(field: impl Into<String>, value: &str, why: impl fmt::Display) -> Self {
        Self::invalid(field, &Json::from(value), why)
    }

    /// A missing value.
    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self::new(FieldErrorType::Required, field, message)
    }

    /// A value that stands twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Json) -> Self {
        Self::new(FieldErrorType::Duplicate, field, format!("Duplicate value: {value}"))
    }

    /// A value that is none of `known`.
    pub(crate) fn unsupported(field: impl Into<String>, value: &Json, known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|item| format!("\"{item}\"")).collect();
        let message = match known.is_empty() {
            true => format!("Unsupported value: {value}"),
            false => format!("Unsupported value: {value}: supported values: {}", known.join(", ")),
        };
        Self::new(FieldErrorType::NotSupported, field, message)
    }

    /// A value that names what is not there.
    pub(crate) fn not_found(field: impl Into<String>, value: &str) -> Self {
        Self::new(FieldErrorType::NotFound, field, format!("Not found: {}", Json::from(value)))
    }

    /// A value that may not be there.
    pub(crate) fn forbidden(field: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(FieldErrorType::Forbidden, field, format!("Forbidden: {why}"))
    }

    /// Too many bytes.
    pub(crate) fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self::new(FieldErrorType::TooLong, field, format!("Too long: may not be more than {most} bytes"))
    }

    /// Too many items.
    pub(crate) fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        let items = if most == 1 { "item" } else { "items" };
        Self::new(FieldErrorType::TooMany, field, format!("Too many: {count}: must have at most {most} {items}"))
    }
}

/// The faults of an object, in the order in which they were found, as far as they are told. There may be some in each of its parts, and
/// their paths and values may be as long as the object: without a bound a few megabytes would take gigabytes to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldErrors {
    all: Vec<FieldError>,
    /// The bytes of what is told.
    told: usize,
}

/// So many bytes of faults are told; of those beyond nobody could make use.
const MOST_FAULTS_TOLD: usize = 8 << 20;

impl FieldErrors {
    /// Notes a fault, unless enough is told.
    pub(crate) fn tell(&mut self, error: impl FnOnce() -> FieldError) {
        if self.told < MOST_FAULTS_TOLD {
            let error = error();
            self.told += size_of::<FieldError>() + error.field.len() + error.message.len();
            self.all.push(error);
        }
    }

    /// The same with a fault that is there.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.tell(|| error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The bytes of what is told.
    pub(crate) fn told(&self) -> usize {
        self.told
    }

    /// Whether enough is told, so that nobody has to look for more.
    pub(crate) fn is_full(&self) -> bool {
        self.told >= MOST_FAULTS_TOLD
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, FieldError> {
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
        let mut told = Self::default();
        told.extend(errors);
        told
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
    use super::*;

    #[test]
    fn errors_are_told_up_to_a_bound_whichever_way_they_come() {
        let error = || FieldError::required("f".repeat(1 << 20), "");
        let mut pushed = FieldErrors::default();
        (0..100).for_each(|_| pushed.push(error()));
        let mut asked = 0;
        let collected: FieldErrors = (0..100).inspect(|_| asked += 1).map(|_| error()).collect();
        for errors in [pushed, collected] {
            assert!(errors.is_full());
            assert_eq!(errors.into_iter().len(), 8);
        }
        assert_eq!(asked, 9, "nobody looks for more");
    }
}
