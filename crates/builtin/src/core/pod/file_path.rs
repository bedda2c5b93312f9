//! Validates file paths and modes in volumes.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_kinds::check::Check;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

pub(crate) fn descending(path: &str, field: &str) -> FieldErrors {
    let upwards = path.split('/').any(|part| part == "..");
    upwards.then(|| FieldError::invalid_text(field, path, "must not contain '..'")).into_iter().collect()
}

pub(crate) fn relative(path: &str, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    errors.invalid_text_if(path.starts_with('/'), field, path, "must be a relative path");
    errors.extend(descending(path, field));
    errors
}

/// Like [`relative`], but also reports names that start with `..`, because the kubelet reserves these names.
pub(super) fn unreserved(path: &str, field: &str) -> FieldErrors {
    let mut errors = relative(path, field);
    errors.invalid_text_if(path.starts_with("..") && !path.starts_with("../"), field, path, "must not start with '..'");
    errors
}

pub(super) fn mode<'a>(check: Check<'a>, field: &str) -> Check<'a> {
    check.within(field, 0, 0o777, MODE)
}
