//! From JSON as it comes to an object as Go would write it, by the object's schema, in one pass.

use std::fmt;

use pintle_json::Json;
use serde::de::Deserializer;
use serde_json::Error;

use super::fields::zero;
use super::reader::{Reader, Typed, Untyped};
use super::sink::{take, take_json};
use super::whole::Whole;
use super::{Schema, StrictFinding, Type};

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

/// Reads a value of a type.
pub(super) fn read<'de>(from: impl Deserializer<'de, Error = Error>, of: &Type) -> Result<Decoded, BodyError> {
    let mut reader = Reader::default();
    let value = take(from, Typed { reader: &mut reader, of, at: None, earlier: None }).map_err(broken)?;
    let findings = reader.findings()?;
    Ok(Decoded { object: value.unwrap_or_else(|| zero(of)), findings })
}

/// Reads an object by its schema.
pub(super) fn read_object<'de>(
    from: impl Deserializer<'de, Error = Error>,
    schema: &Schema,
) -> Result<Decoded, BodyError> {
    if !schema.is_custom() {
        return read(from, schema.root());
    }
    let mut reader = Reader::of(schema);
    let object = take(from, Whole { reader: &mut reader, schema, says: None }).map_err(broken)?;
    Ok(Decoded { object, findings: reader.findings()? })
}

/// Reads JSON of any shape, with numbers as they were written; the findings are the members that stand twice in one object.
pub(super) fn read_verbatim(body: &[u8]) -> Result<(Json, Vec<StrictFinding>), String> {
    let mut reader = Reader::verbatim();
    let value = take_json(body, Untyped { reader: &mut reader, at: None, quiet: false })?;
    Ok((value, reader.repetitions()))
}

/// A tree that breaks off, which none does.
fn broken(error: Error) -> BodyError {
    BodyError::Value(error.to_string())
}
