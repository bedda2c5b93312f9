//! Undecoded objects.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::error::ApiError;
use crate::key::ObjectKey;
use crate::redacted::DecodeError;

/// An object that is not decoded yet. The value is either the JSON bytes of the object, or the description of an object
/// that exceeds the size limit. `Debug` prints only the number of bytes, because the object may be a Secret.
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
    /// The JSON bytes. The bytes may be invalid UTF-8, and may contain a value that is not an object. Only decoding
    /// detects this.
    Json(Bytes),
    /// An object that exceeds the source's size limit. The source has skipped this object, but can still deliver all
    /// following objects.
    Oversized(Box<Oversized>),
}

/// The description of an object that exceeds the size limit of its source.
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
    /// The key of the object. `None` if no name was found.
    pub key: Option<ObjectKey>,
    /// The uid. Empty if the object contains no uid.
    pub uid: String,
    /// The resourceVersion. Empty if the object contains no resourceVersion.
    pub resource_version: String,
    /// The size in bytes. In a watch, the size is the size of the whole event.
    pub size: u64,
    /// The size limit that the source applies.
    pub limit: usize,
}

impl RawObject {
    /// Decodes the object.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Decode`](crate::ErrorKind::Decode) if the JSON does not match `T` or the object exceeds
    /// the size limit.
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
