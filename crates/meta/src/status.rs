//! `Status` responses.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::list::ListMeta;
use crate::null::{Few, is_default, or_empty};
use crate::object_meta::TypeMeta;

/// A response without an object, usually an error, like Kubernetes' `metav1.Status`.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, Reason, Status};
///
/// let status: Status = serde_json::from_str(
///     r#"{"status": "Failure", "reason": "NotFound", "code": 404, "message": "pods \"web\" not found"}"#,
/// )?;
/// assert_eq!(status.reason, Some(Reason::NotFound));
/// assert_eq!(status.to_string(), r#"pods "web" not found (NotFound, 404)"#);
/// assert!(ApiError::from(status).is_not_found());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Status {
    /// The `apiVersion` and `kind`, which are `v1` and `Status`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// List metadata, which is usually empty. If the continue token of a list request has expired, the metadata
    /// contains a new continue token.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// A human-readable message.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The machine-readable reason, if any.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Details of the failure, such as the name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code, or 0 if the server did not send a code.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "is_default")]
    pub code: u16,
}

impl Status {
    /// Creates an error status.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
            status: "Failure".into(),
            message: message.into(),
            reason: Some(reason),
            code,
            ..Self::default()
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.message[..], &self.reason) {
            ("", Some(reason)) => write!(f, "{reason} ({})", self.code),
            ("", None) => write!(f, "the server returned {} without a message", self.code),
            (message, Some(reason)) => write!(f, "{message} ({reason}, {})", self.code),
            (message, None) => write!(f, "{message} ({})", self.code),
        }
    }
}

/// Implemented so that a `Status` can be the [`source`](std::error::Error::source) of an
/// [`ApiError`](crate::ApiError).
impl std::error::Error for Status {}

/// Details of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// The object's name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's group.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind or the plural resource name of the object, depending on the server.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The individual problems, such as one for each invalid field.
    #[serde(default, deserialize_with = "few_or_none", skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// How many seconds the client should wait before it retries. The number is 0 if the server did not send a
    /// delay.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "is_default")]
    pub retry_after_seconds: u32,
}

/// A cause in [`StatusDetails`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StatusCause {
    /// The machine-readable reason, such as `FieldValueRequired`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A human-readable message.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the invalid field, for example `spec.ports[0].port`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub field: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A machine-readable reason for a failure, like Kubernetes' `metav1.StatusReason`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// A reason for which this enum has no variant.
            Other(Box<str>),
        }

        impl Reason {
            /// Returns the reason in the form that servers send, such as `NotFound`.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for Reason {
            fn from(text: &str) -> Self {
                match text {
                    $(stringify!($name) => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

reasons! {
    /// Status 409: an object with this name already exists.
    AlreadyExists,
    /// Status 400: the request is malformed.
    BadRequest,
    /// Status 409: the object has changed. The client should read the object again and retry.
    Conflict,
    /// Status 410: the requested revision or the continue token is too old.
    Expired,
    /// Status 403: the user lacks permission.
    Forbidden,
    /// Status 410: the resource no longer exists.
    Gone,
    /// Status 500: an internal error occurred in the server.
    InternalError,
    /// Status 422: a field has an invalid value.
    Invalid,
    /// Status 405: the resource does not support the method.
    MethodNotAllowed,
    /// Status 406: the server supports none of the media types that the client accepts.
    NotAcceptable,
    /// Status 404: the object or the resource does not exist.
    NotFound,
    /// Status 413: the request body is too large.
    RequestEntityTooLarge,
    /// Status 500: the client should retry after `retryAfterSeconds`.
    ServerTimeout,
    /// Status 503: the service is unavailable. Retry later.
    ServiceUnavailable,
    /// Status 504: the server timed out.
    Timeout,
    /// Status 429: the server or a proxy received too many requests.
    TooManyRequests,
    /// Status 401: the request is not authenticated.
    Unauthorized,
    /// Status 415: the server does not support the media type of the request body.
    UnsupportedMediaType,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| text.as_str().into())
    }
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reason>, D::Error> {
    Ok(Option::deserialize(deserializer)?.filter(|reason: &Reason| !reason.as_str().is_empty()))
}

fn few_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StatusCause>, D::Error> {
    or_empty(deserializer).map(|Few(causes)| causes)
}
