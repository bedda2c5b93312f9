//! Objects as they cross the network.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{ApiError, DecodeError, ObjectKey};

/// An object as it crosses the network: the bytes of its JSON, which nobody has looked into, or what was found of one that is too
/// large to be held. `Debug` shows how many bytes, not which: it may be a Secret.
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
    /// Its JSON. Whether it is an object at all, and in UTF-8, is for its decoder to say.
    Json(Bytes),
    /// It is larger than the source takes. It was read over, so that those after it are not lost.
    Oversized(Box<Oversized>),
}

/// What was found of an object that is larger than its source takes.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ObjectKey, Oversized};
///
/// let pod = Oversized { key: Some(ObjectKey::new("team-a", "web")), size: 70, limit: 50, ..Oversized::default() };
/// assert_eq!(pod.to_string(), "its size of 70 bytes exceeds the limit of 50");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oversized {
    /// The key; none if no name was found.
    pub key: Option<ObjectKey>,
    /// The uid; empty if none was found.
    pub uid: String,
    /// The resourceVersion; empty if none was found.
    pub resource_version: String,
    /// How large it is, in bytes; in a watch, with its frame.
    pub size: u64,
    /// What the source takes.
    pub limit: usize,
}

impl RawObject {
    /// The object.
    ///
    /// # Errors
    ///
    /// It is no `T`, or it was too large to be held. The error is an [`ErrorKind::Decode`](crate::ErrorKind::Decode).
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

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its size of {} bytes exceeds the limit of {}", self.size, self.limit)
    }
}

impl Error for Oversized {}
