//! Validates the paths of files in volumes, and the modes of files.

use crate::kinds::check::Check;
use crate::validate::{FieldFault, FieldFaults};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// No part of the path leads upwards.
pub(in crate::kinds) fn descending(path: &str, field: &str) -> FieldFaults {
    let upwards = path.split('/').any(|part| part == "..");
    upwards.then(|| FieldFault::invalid_text(field, path, "must not contain '..'")).into_iter().collect()
}

/// The same of a path that is relative.
pub(in crate::kinds) fn relative(path: &str, field: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    if path.starts_with('/') {
        faults.push(FieldFault::invalid_text(field, path, "must be a relative path"));
    }
    faults.extend(descending(path, field));
    faults
}

/// The same of a path that does not begin as those which a kubelet keeps for itself.
pub(super) fn unreserved(path: &str, field: &str) -> FieldFaults {
    let mut faults = relative(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        faults.push(FieldFault::invalid_text(field, path, "must not start with '..'"));
    }
    faults
}

/// The bits of permission that files get.
pub(super) fn mode<'a>(check: Check<'a>, field: &str) -> Check<'a> {
    check.within(field, 0, 0o777, MODE)
}
