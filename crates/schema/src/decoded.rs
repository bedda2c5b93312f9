//! What comes of reading a body.

use std::fmt;

use pintle_json::Json;

use super::StrictFinding;

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, without the fields that its type does not know.
    pub object: Json,
    /// What was wrong with it, without being an error.
    pub findings: Vec<StrictFinding>,
}

/// Why a body cannot be read as an object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// It is no JSON or YAML, or no object; or it does not say what it is.
    Unrecognized(String),
    /// It is an object of another kind, or of another version.
    OtherKind(String),
    /// A value has the wrong type or form.
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
