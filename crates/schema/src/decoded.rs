//! The results of decoding a request body.

use std::fmt;

use pintle_json::Json;

use crate::finding::StrictFinding;

/// The result of decoding a request body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The decoded object. The object contains only fields that its type declares.
    pub object: Json,
    /// Unknown and duplicate fields.
    pub findings: Vec<StrictFinding>,
}

/// The reason why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is not JSON or YAML, is not an object, or has no kind.
    Unrecognized(String),
    /// The object in the body does not have the kind or the version that the request specifies.
    OtherKind(String),
    /// A value in the body has the wrong type or format.
    Value(String),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecognized(text) | Self::OtherKind(text) | Self::Value(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BodyError {}
