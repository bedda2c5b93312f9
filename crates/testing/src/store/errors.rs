//! Creates kube-apiserver's error `Status` objects.

use pintle_meta::{ApiError, ApiResource, Reason, Status, StatusCause, StatusDetails};

pub(super) fn not_found(resource: &ApiResource, name: &str) -> ApiError {
    about(resource, name, 404, Reason::NotFound, format!("{resource} {name:?} not found"))
}

pub(super) fn already_exists(resource: &ApiResource, name: &str, is_terminating: bool) -> ApiError {
    let before = if is_terminating { "object is being deleted: " } else { "" };
    about(resource, name, 409, Reason::AlreadyExists, format!("{before}{resource} {name:?} already exists"))
}

pub(super) fn conflict(resource: &ApiResource, name: &str, why: &str) -> ApiError {
    let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
    about(resource, name, 409, Reason::Conflict, message)
}

pub(super) fn modified(resource: &ApiResource, name: &str) -> ApiError {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    conflict(resource, name, why)
}

/// Creates the error status for a single invalid field. `reason` is a value of the `field.ErrorType` in Kubernetes.
pub(super) fn invalid(resource: &ApiResource, name: &str, field: &str, reason: &str, why: &str) -> ApiError {
    let kind = match resource.group_version.group.as_str() {
        "" => resource.kind.clone(),
        group => format!("{}.{group}", resource.kind),
    };
    let message = format!("{kind} {name:?} is invalid: {field}: {why}");
    let mut status = Status::failure(422, Reason::Invalid, message);
    let cause = StatusCause { reason: reason.into(), message: why.into(), field: field.into() };
    let group = resource.group_version.group.clone();
    status.details = Some(StatusDetails {
        name: name.into(),
        group,
        kind: resource.kind.clone(),
        causes: vec![cause],
        ..StatusDetails::default()
    });
    status.into()
}

pub(super) fn bad_request(message: impl Into<String>) -> ApiError {
    Status::failure(400, Reason::BadRequest, message).into()
}

pub(super) fn expired(message: impl Into<String>) -> ApiError {
    Status::failure(410, Reason::Expired, message).into()
}

pub(super) fn too_large(asked: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut status = Status::failure(504, Reason::Timeout, message);
    let cause = StatusCause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    };
    status.details = Some(StatusDetails { causes: vec![cause], retry_after_seconds: 1, ..StatusDetails::default() });
    status.into()
}

pub(super) fn unreasoned(message: &str) -> ApiError {
    let mut status = Status::failure(500, Reason::InternalError, message);
    status.reason = None;
    status.into()
}

fn about(resource: &ApiResource, name: &str, code: u16, reason: Reason, message: String) -> ApiError {
    let mut status = Status::failure(code, reason, message);
    let (group, kind) = (resource.group_version.group.clone(), resource.plural.clone());
    status.details = Some(StatusDetails { name: name.into(), group, kind, ..StatusDetails::default() });
    status.into()
}
