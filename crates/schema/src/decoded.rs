//! The results of decoding a body.

use std::fmt;

use pintle_json::Json;

use super::StrictFinding;

/// The result of decoding a request body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The decoded object. It has no fields that are unknown to its type.
    pub object: Json,
    /// Unknown and duplicate fields.
    pub findings: Vec<StrictFinding>,
}

/// An error of a body that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is not JSON or YAML, is not an object, or does not name its kind.
    Unrecognized(String),
    /// The object has an unexpected kind or version.
    OtherKind(String),
    /// A value has the wrong type or format.
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
