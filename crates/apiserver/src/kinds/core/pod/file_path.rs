//! Validates the paths of files in volumes, and the modes of files.

use crate::kinds::check::Check;
use crate::validate::{FieldError, FieldErrors};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// No part of the path leads upwards.
pub(in crate::kinds) fn descending(path: &str, field: &str) -> FieldErrors {
    let upwards = path.split('/').any(|part| part == "..");
    upwards.then(|| FieldError::invalid_text(field, path, "must not contain '..'")).into_iter().collect()
}

/// The same of a path that is relative.
pub(in crate::kinds) fn relative(path: &str, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if path.starts_with('/') {
        errors.push(FieldError::invalid_text(field, path, "must be a relative path"));
    }
    errors.extend(descending(path, field));
    errors
}

/// The same of a path that does not begin as those which a kubelet keeps for itself.
pub(super) fn unreserved(path: &str, field: &str) -> FieldErrors {
    let mut errors = relative(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid_text(field, path, "must not start with '..'"));
    }
    errors
}

/// The bits of permission that files get.
pub(super) fn mode<'a>(check: Check<'a>, field: &str) -> Check<'a> {
    check.within(field, 0, 0o777, MODE)
}
