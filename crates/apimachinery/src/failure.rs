//! Failed requests, and the responses to them.

use std::borrow::Cow;
use std::collections::HashSet;

use pintle_json::Json;
pub use pintle_meta::__private::quoted;
use pintle_meta::{GroupResource, ListMeta, Reason, Status, StatusCause, StatusDetails, TypeMeta};

use crate::validate::FieldErrors;

/// A failed request, with the data for its response.
#[derive(Clone, Debug)]
pub struct Failure {
    pub status: Box<Status>,
    /// The body of a plain text response, which the server sends instead of a Status. In kube-apiserver, only the
    /// outermost request handlers send plain text responses.
    pub text: Option<Cow<'static, str>>,
    /// Whether the failure comes from a handler that runs before kube-apiserver's API handlers. Such a handler does not
    /// negotiate the response format.
    pub early: bool,
    /// Whether the server must call a webhook before it can process the request. The server does not send this failure
    /// to clients.
    pub waits: bool,
    /// Whether an admission webhook has denied the request. The webhook chooses the reason of its denial, so the reason
    /// does not describe the stored object.
    pub is_denial: bool,
}

/// The result of processing a request, or of one step of the processing.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Creates a failure without a reason or details.
    pub fn plain(code: u16, message: impl Into<String>) -> Self {
        let status = Status {
            types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
            metadata: ListMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: None,
            details: None,
            code,
        };
        Self { status: Box::new(status), text: None, early: false, waits: false, is_denial: false }
    }

    /// Creates a failure with a reason but without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        let mut failure = Self::plain(code, message);
        failure.status.reason = Some(reason);
        failure
    }

    /// Creates a 404 failure with a plain text body, like the handlers that run before the API handlers in
    /// kube-apiserver.
    pub fn page_not_found() -> Self {
        Self { text: Some("404 page not found\n".into()), ..Self::plain(404, "404 page not found") }
    }

    /// Creates a failure for a request that needs a webhook call first.
    pub fn waiting() -> Self {
        Self { waits: true, ..Self::internal("no webhook has been called for this request") }
    }

    /// Returns `true` if the request needs a webhook call first.
    pub fn is_waiting(&self) -> bool {
        self.waits
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let cause = StatusCause { message: message.clone(), ..StatusCause::default() };
        Self::new(500, Reason::InternalError, format!("Internal error occurred: {message}"))
            .with(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// Creates a failure for a resource that is not served.
    pub fn no_such_resource() -> Self {
        Self::new(404, Reason::NotFound, "the server could not find the requested resource")
            .with(StatusDetails::default())
    }

    /// Creates a failure for a method that the resource does not allow.
    pub fn method_not_allowed() -> Self {
        Self::new(405, Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
            .with(StatusDetails::default())
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{resource} {} not found", quoted(name))).about(resource, name)
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, Reason::AlreadyExists, format!("{resource} {} already exists", quoted(name)))
            .about(resource, name)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Self::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// Creates a conflict for an object that has changed since the client read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// Creates a 403 failure for an object, or for a collection if `name` is empty.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let what = if name.is_empty() { resource.to_string() } else { format!("{resource} {}", quoted(name)) };
        Self::new(403, Reason::Forbidden, format!("{what} is forbidden: {why}")).about(resource, name)
    }

    /// Creates a failure for a request that an admission policy denies.
    pub fn denied_by_policy(resource: &GroupResource, name: &str, why: &str, reason: Option<&str>) -> Self {
        let mut failure = Self::forbidden(resource, name, why);
        let reason = reason.unwrap_or("Invalid");
        failure.status.code = match reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        failure.status.reason = Some(reason.into());
        let cause = StatusCause { message: why.into(), ..StatusCause::default() };
        failure.status.details.get_or_insert_default().causes.push(cause);
        failure
    }

    /// Creates a 403 failure for a request whose mutating admission policies could not be evaluated. The message of the
    /// failure is the first of `messages`.
    pub fn denied_by_mutation(
        resource: &GroupResource,
        name: &str,
        messages: Vec<String>,
        reason: Option<&str>,
    ) -> Self {
        let mut failure = Self::forbidden(resource, name, "");
        failure.status.message = messages.first().cloned().unwrap_or_default();
        if let Some(reason) = reason {
            failure.status.reason = Some(reason.into());
        }
        let causes = messages.into_iter().map(|message| StatusCause { message, ..StatusCause::default() });
        failure.status.details.get_or_insert_default().causes.extend(causes);
        failure
    }

    /// Creates a 422 failure with field errors.
    pub fn invalid_named(group: &str, kind: &str, name: &str, errors: FieldErrors) -> Self {
        let causes: Vec<_> = errors.into_iter().map(StatusCause::from).collect();
        // A duplicate error occurs only once in the message, but again in the list of causes.
        let mut seen = HashSet::new();
        let distinct = causes.iter().filter(|cause| seen.insert((&cause.field, &cause.message)));
        let message: Vec<_> = distinct.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let message = match &message[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        Self::new(422, Reason::Invalid, format!("{qualified} {} is invalid: {message}", quoted(name)))
            .with(StatusDetails { causes, ..details(group, kind, name) })
    }

    /// Creates a 422 failure for invalid request options.
    pub fn invalid_options(kind: &str, errors: FieldErrors) -> Self {
        Self::invalid_named("meta.k8s.io", kind, "", errors)
    }

    /// Creates a 410 failure for a compacted revision.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// Creates a 504 failure for a request that timed out.
    pub fn too_late() -> Self {
        let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        Self::new(504, Reason::Timeout, message).with(StatusDetails::default())
    }

    /// Creates a 504 failure for a revision that the server has not reached yet.
    pub fn too_large_version(requested: u64, current: u64, retry_after_seconds: u32) -> Self {
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            ..StatusCause::default()
        };
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        Self::new(504, Reason::Timeout, message).with(StatusDetails {
            causes: vec![cause],
            retry_after_seconds,
            ..StatusDetails::default()
        })
    }

    /// Adds `details` to the Status of the failure.
    pub fn with(mut self, details: StatusDetails) -> Self {
        self.status.details = Some(details);
        self
    }

    /// Adds details about the object `name` of a resource to the Status of the failure.
    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with(details(&resource.group, &resource.resource, name))
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        self.status.code
    }

    /// Returns `true` if the request conflicts with the stored object. A denial of a webhook is not a conflict.
    pub fn is_conflict(&self) -> bool {
        self.status.reason == Some(Reason::Conflict) && !self.is_denial
    }

    /// Returns `true` if the object does not exist. A denial of a webhook does not mean that the object is missing.
    pub fn is_not_found(&self) -> bool {
        self.status.reason == Some(Reason::NotFound) && !self.is_denial
    }

    /// Returns the retry delay for the client in seconds, if the failure has one.
    pub fn retry_after(&self) -> Option<u32> {
        let seconds = self.status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then_some(seconds)
    }

    /// Returns the failure's Status as JSON.
    pub fn value(&self) -> Json {
        pintle_json::to_json(&*self.status).unwrap_or_default()
    }
}

/// Creates failure details for an object.
pub fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails { name: name.into(), group: group.into(), kind: kind.into(), ..StatusDetails::default() }
}
