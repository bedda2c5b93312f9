//! What a server answers where it has no object to answer with.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::null::{Few, or_empty};
use crate::{ListMeta, TypeMeta};

/// What a server answers where it has no object to answer with: most of all, why a request failed.
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
    /// `v1` and `Status`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Empty but in answers about lists.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For humans.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs. Absent where the server gave none.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What exactly was at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status; 0 where the server gave none.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "is_zero")]
    pub code: u16,
}

impl Status {
    /// A failure.
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
            ("", None) => write!(f, "the server answered {} without a message", self.code),
            (message, Some(reason)) => write!(f, "{message} ({reason}, {})", self.code),
            (message, None) => write!(f, "{message} ({})", self.code),
        }
    }
}

/// What exactly a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its group.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind, or its resource: servers give either.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry for each fault.
    #[serde(default, deserialize_with = "few_or_none", skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// How long to wait before another try, in seconds; 0 for no advice.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "is_zero_32")]
    pub retry_after_seconds: u32,
}

/// One of the faults behind a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StatusCause {
    /// For programs, such as `FieldValueRequired`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For humans.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field at fault, such as `spec.ports[0].port`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub field: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a request failed, for programs.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// A reason that this version does not name.
            Other(Box<str>),
        }

        impl Reason {
            /// The reason as it stands on the wire.
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
    /// 409: an object of that name is there.
    AlreadyExists,
    /// 400: the request makes no sense as it is.
    BadRequest,
    /// 409: the object changed meanwhile; read it again and retry.
    Conflict,
    /// 410: that revision or page token is too old.
    Expired,
    /// 403: the user may not.
    Forbidden,
    /// 410: it was there and is gone for good.
    Gone,
    /// 500: an accident of the server.
    InternalError,
    /// 422: a field has a value that it may not have.
    Invalid,
    /// 405: the resource does not do that.
    MethodNotAllowed,
    /// 406: no representation that the client accepts.
    NotAcceptable,
    /// 404: no such object, or no such resource.
    NotFound,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 500: the server knows a better time: wait for `retryAfterSeconds`.
    ServerTimeout,
    /// 503: try again later.
    ServiceUnavailable,
    /// 504: it could not be done in time.
    Timeout,
    /// 429: too many requests.
    TooManyRequests,
    /// 401: who is asking?
    Unauthorized,
    /// 415: the body is in no language that the server knows.
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

/// An empty reason is none.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reason>, D::Error> {
    Ok(Option::deserialize(deserializer)?.filter(|reason: &Reason| !reason.as_str().is_empty()))
}

fn few_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StatusCause>, D::Error> {
    or_empty(deserializer).map(|Few(causes)| causes)
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

fn is_zero_32(number: &u32) -> bool {
    *number == 0
}
