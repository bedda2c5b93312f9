//! The responses of handlers, which allow or deny requests.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use pintle_meta::{Reason, Status, StatusCause, StatusDetails};

/// A response that allows a request, optionally with warnings and audit annotations. Without warnings and annotations,
/// a validating handler can return `()`, and a mutating handler can return the object.
///
/// The `Debug` output omits the object, because it may be a Secret.
///
/// # Examples
///
/// ```
/// use pintle_webhook::{Allowed, Denial};
///
/// fn check(domain: &str) -> Result<Allowed, Denial> {
///     match domain.ends_with(".test") {
///         true => Ok(Allowed::from(()).warn("the domain is not public")),
///         false => Ok(().into()),
///     }
/// }
/// # assert!(check("a.test").is_ok());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Allowed<T = ()> {
    pub(crate) object: T,
    pub(crate) notes: Notes,
}

// `Debug` omits the object, because it may be a Secret.
pintle_meta::debug_struct!(Allowed<T> { notes, .. });

impl<T> Allowed<T> {
    /// Adds a warning for the client. Line breaks become spaces, because the API server drops warnings with line
    /// breaks.
    #[must_use]
    pub fn warn(mut self, warning: impl AsRef<str>) -> Self {
        self.notes.warn(warning.as_ref());
        self
    }

    /// Adds an annotation to the audit event of the request. The API server prefixes the key with the name of the
    /// webhook.
    #[must_use]
    pub fn audit(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.notes.audit.insert(key.into(), value.into());
        self
    }
}

impl<T> From<T> for Allowed<T> {
    fn from(object: T) -> Self {
        Self { object, notes: Notes::default() }
    }
}

/// A response that rejects a request, which the client receives as an error.
///
/// The `?` operator converts any error to a denial with code 500, which shows the text of the error to the client.
///
/// # Examples
///
/// ```
/// use pintle_meta::Reason;
/// use pintle_webhook::Denial;
///
/// let denial = Denial::invalid("spec.domain", "must not be empty").and_invalid("spec.port", "must be below 1024");
/// assert_eq!((denial.status().code, denial.status().reason), (422, Some(Reason::Invalid)));
///
/// let quota = Denial::new("team-a has 20 websites already").code(429).reason(Reason::TooManyRequests);
/// assert_eq!(quota.to_string(), "team-a has 20 websites already");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(Box<Refusal>);

/// The contents of a denial, which are boxed to keep the results of handlers small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    message: String,
    reason: Reason,
    code: u16,
    causes: Vec<StatusCause>,
    notes: Notes,
}

impl Denial {
    /// Creates a denial with code 403 and reason `Forbidden`. The API server prefixes the message with the name of the
    /// webhook.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with(403, Reason::Forbidden, message.into())
    }

    /// Creates a denial with code 422 and reason `Invalid` for an invalid field, such as `spec.ports[0].name`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::with(422, Reason::Invalid, String::new()).and_invalid(field, message)
    }

    pub(crate) fn bad_request(message: String) -> Self {
        Self::with(400, Reason::BadRequest, message)
    }

    pub(crate) fn internal(message: String) -> Self {
        Self::with(500, Reason::InternalError, message)
    }

    pub(crate) fn timeout(message: String) -> Self {
        Self::with(504, Reason::Timeout, message)
    }

    fn with(code: u16, reason: Reason, message: String) -> Self {
        Self(Box::new(Refusal { message, reason, code, causes: Vec::new(), notes: Notes::default() }))
    }

    /// Adds another invalid field to the denial.
    #[must_use]
    pub fn and_invalid(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        if !self.0.message.is_empty() {
            self.0.message.push_str("; ");
        }
        self.0.message.push_str(&format!("{field}: {message}"));
        self.0.causes.push(StatusCause { reason: "FieldValueInvalid".into(), message, field });
        self
    }

    /// Sets the HTTP status code that the client receives. The API server replaces a code below 400 with 400.
    #[must_use]
    pub fn code(mut self, code: u16) -> Self {
        self.0.code = code;
        self
    }

    /// Sets the denial's reason, which programs can use to distinguish errors.
    #[must_use]
    pub fn reason(mut self, reason: Reason) -> Self {
        self.0.reason = reason;
        self
    }

    /// Adds a warning for the client. See [`Allowed::warn`].
    #[must_use]
    pub fn warn(mut self, warning: impl AsRef<str>) -> Self {
        self.0.notes.warn(warning.as_ref());
        self
    }

    /// Adds an annotation to the audit event of the request. See [`Allowed::audit`].
    #[must_use]
    pub fn audit(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.notes.audit.insert(key.into(), value.into());
        self
    }

    pub(crate) fn into_notes(self) -> Notes {
        self.0.notes
    }

    /// Returns the error status that the client receives. The webhook service adds the name and the kind of the object
    /// to the details.
    pub fn status(&self) -> Status {
        let details = StatusDetails { causes: self.0.causes.clone(), ..StatusDetails::default() };
        let details = (!self.0.causes.is_empty()).then_some(details);
        Status { details, ..Status::failure(self.0.code, self.0.reason.clone(), &self.0.message) }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// Allows `?` to convert any error to a denial. `Denial` does not implement `Error`, because the implementation would
/// conflict with this conversion.
impl<E: Error> From<E> for Denial {
    fn from(error: E) -> Self {
        Self::internal(error.to_string())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) audit: BTreeMap<String, String>,
}

impl Notes {
    fn warn(&mut self, warning: &str) {
        self.warnings.push(warning.replace(['\r', '\n'], " "));
    }
}
