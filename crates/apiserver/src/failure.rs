//! How a request fails.

use std::borrow::Cow;
use std::collections::HashSet;

use pintle_json::Json;
use pintle_meta::{GroupResource, ListMeta, Reason, Status, StatusCause, StatusDetails, TypeMeta};

use crate::validate::FieldErrors;

/// Why a request failed, as the client is told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: Box<Status>,
    /// A bare text in place of the Status, as the outermost layers of a server answer.
    pub(crate) text: Option<Cow<'static, str>>,
    /// It came before any API had a look, from a layer that answers for itself.
    pub(crate) early: bool,
}

/// The outcome of a step of a request.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with neither reason nor details unless they are added.
    pub(crate) fn plain(code: u16, message: impl Into<String>) -> Self {
        let status = Status {
            types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
            metadata: ListMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: None,
            details: None,
            code,
        };
        Self { status: Box::new(status), text: None, early: false }
    }

    /// A failure of that reason, without details.
    pub(crate) fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        let mut failure = Self::plain(code, message);
        failure.status.reason = Some(reason);
        failure
    }

    /// 404 from before any API: a line of text.
    pub(crate) fn page_not_found() -> Self {
        Self { text: Some("404 page not found\n".into()), ..Self::plain(404, "404 page not found") }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let cause = StatusCause { message: message.clone(), ..StatusCause::default() };
        Self::new(500, Reason::InternalError, format!("Internal error occurred: {message}"))
            .with(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// The path names no resource that is served.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, Reason::NotFound, "the server could not find the requested resource")
            .with(StatusDetails::default())
    }

    /// The resource is served, but not by that method.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
            .with(StatusDetails::default())
    }

    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{resource} {} not found", quoted(name))).with(details(
            &resource.group,
            &resource.resource,
            name,
        ))
    }

    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, Reason::AlreadyExists, format!("{resource} {} already exists", quoted(name))).with(details(
            &resource.group,
            &resource.resource,
            name,
        ))
    }

    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Self::new(409, Reason::Conflict, message).with(details(&resource.group, &resource.resource, name))
    }

    /// The object was changed since the client read it.
    pub(crate) fn modified(resource: &GroupResource, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// 403 for a named object or, with an empty name, a collection.
    pub(crate) fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let what = if name.is_empty() { resource.to_string() } else { format!("{resource} {}", quoted(name)) };
        Self::new(403, Reason::Forbidden, format!("{what} is forbidden: {why}")).with(details(
            &resource.group,
            &resource.resource,
            name,
        ))
    }

    /// 422 with everything spelt out.
    pub(crate) fn invalid_named(group: &str, kind: &str, name: &str, errors: FieldErrors) -> Self {
        let causes: Vec<_> = errors.into_iter().map(StatusCause::from).collect();
        // What is found twice counts twice, but is told once.
        let mut seen = HashSet::new();
        let once = causes.iter().filter(|cause| seen.insert((&cause.field, &cause.message)));
        let told: Vec<_> = once.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let told = match &told[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        Self::new(422, Reason::Invalid, format!("{qualified} {} is invalid: {told}", quoted(name)))
            .with(StatusDetails { causes, ..details(group, kind, name) })
    }

    /// 422 for the options of a request.
    pub(crate) fn invalid_options(kind: &str, errors: FieldErrors) -> Self {
        Self::invalid_named("meta.k8s.io", kind, "", errors)
    }

    /// 410: that revision is forgotten.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// 504: the request has taken longer than it may.
    pub(crate) fn too_late() -> Self {
        let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        Self::new(504, Reason::Timeout, message).with(StatusDetails::default())
    }

    /// 504: the server has not come to that revision yet.
    pub(crate) fn too_large_version(asked: u64, current: u64, retry_after_seconds: u32) -> Self {
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            ..StatusCause::default()
        };
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, Reason::Timeout, message).with(StatusDetails {
            causes: vec![cause],
            retry_after_seconds,
            ..StatusDetails::default()
        })
    }

    /// The same failure with details.
    pub(crate) fn with(mut self, details: StatusDetails) -> Self {
        self.status.details = Some(details);
        self
    }

    /// The HTTP status.
    pub(crate) fn code(&self) -> u16 {
        self.status.code
    }

    /// Whether it says that the object is not there.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status.reason == Some(Reason::Conflict)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status.reason == Some(Reason::NotFound)
    }

    /// The seconds after which to try again, if told.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        let seconds = self.status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then_some(seconds)
    }

    /// The Status as a value.
    pub(crate) fn value(&self) -> Json {
        pintle_json::to_json(&*self.status).unwrap_or_default()
    }
}

/// Details that name an object.
pub(crate) fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails { name: name.into(), group: group.into(), kind: kind.into(), ..StatusDetails::default() }
}

/// A text as Go's `%q` writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
