//! The results of decoding a request body.

use pintle_json::Json;
use thiserror::Error;

use crate::finding::StrictFinding;

/// The result of decoding a request body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The decoded object, which contains only fields that its type declares.
    pub object: Json,
    /// The unknown and duplicate fields.
    pub findings: Vec<StrictFinding>,
}

/// The error when a request body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is not JSON or YAML, is not an object, or has no kind.
    #[error("{0}")]
    Unrecognized(String),
    /// The kind or the version of the object does not match the request.
    #[error("{0}")]
    OtherKind(String),
    /// A field in the body has a value of the wrong type or format.
    #[error("{0}")]
    Value(String),
}
