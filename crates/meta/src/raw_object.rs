//! Undecoded objects.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::error::ApiError;
use crate::key::ObjectKey;
use crate::redacted::DecodeError;

/// An object as JSON bytes, or a description of an object that exceeds the size limit. `Debug` prints only the number
/// of JSON bytes, because the object may be a Secret.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use pintle_meta::{ApiError, PartialObject, RawObject};
///
/// let pod = RawObject::from(Bytes::from(r#"{"metadata": {"name": "web"}}"#));
/// assert_eq!(pod.decode::<PartialObject>()?.metadata.name, "web");
/// # Ok::<(), ApiError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum RawObject {
    /// The bytes of the object. [`decode`](Self::decode) returns an error if the bytes are invalid UTF-8, invalid JSON,
    /// or a JSON value other than an object.
    Json(Bytes),
    /// An object that exceeds the size limit of the source. The source skips the oversized object and delivers all
    /// other objects.
    Oversized(Box<Oversized>),
}

/// Describes an object that exceeds the size limit of its source.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ObjectKey, Oversized};
///
/// let pod = Oversized { key: Some(ObjectKey::new("team-a", "web")), size: 70, limit: 50, ..Oversized::default() };
/// assert_eq!(pod.to_string(), "its size of 70 bytes exceeds the limit of 50");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Error)]
#[error("its size of {size} bytes exceeds the limit of {limit}")]
pub struct Oversized {
    /// The key of the object, or `None` if its name could not be determined.
    pub key: Option<ObjectKey>,
    /// The uid, or an empty string if the object has none.
    pub uid: String,
    /// The resourceVersion, or an empty string if the object has none.
    pub resource_version: String,
    /// The object's size in bytes. In a watch, this is the size of the entire event.
    pub size: u64,
    /// The source's size limit in bytes.
    pub limit: usize,
}

impl RawObject {
    /// Decodes the object.
    ///
    /// # Errors
    ///
    /// Returns an [`ErrorKind::Decode`](crate::ErrorKind::Decode) error if the object exceeds the size limit, or if the
    /// JSON cannot be decoded as `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        match self {
            Self::Json(json) => {
                serde_json::from_slice(json).map_err(|error| ApiError::decode(DecodeError::from(error)))
            }
            Self::Oversized(oversized) => Err(ApiError::decode(oversized.clone())),
        }
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(json) => write!(f, "Json([{} bytes])", json.len()),
            Self::Oversized(oversized) => oversized.fmt(f),
        }
    }
}

impl From<Bytes> for RawObject {
    fn from(json: Bytes) -> Self {
        Self::Json(json)
    }
}

impl From<Oversized> for RawObject {
    fn from(oversized: Oversized) -> Self {
        Self::Oversized(oversized.into())
    }
}
