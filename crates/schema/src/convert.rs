//! Converts JSON to the JSON that a Go program would write after decoding it. The conversion follows the schema and
//! makes a single pass over the input.

use pintle_json::Json;
use serde::de::Deserializer;
use serde_json::Error;

use super::Schema;
use super::decoded::{BodyError, Decoded};
use super::go_zero::zero;
use super::object_sink::ObjectSink;
use super::reader::{Reader, Untyped};
use super::sink::{feed, feed_json};
use super::typed::Typed;
use crate::finding::StrictFinding;
use crate::types::Type;

pub(super) fn read<'de>(from: impl Deserializer<'de, Error = Error>, ty: &Type) -> Result<Decoded, BodyError> {
    read_by(Reader::default(), from, ty)
}

fn read_by<'de>(
    mut reader: Reader,
    from: impl Deserializer<'de, Error = Error>,
    ty: &Type,
) -> Result<Decoded, BodyError> {
    let value = feed(from, Typed { reader: &mut reader, ty, path: None, earlier: None }).map_err(broken)?;
    let findings = reader.into_findings()?;
    Ok(Decoded { object: value.unwrap_or_else(|| zero(ty)), findings })
}

pub(super) fn read_object<'de>(
    from: impl Deserializer<'de, Error = Error>,
    schema: &Schema,
) -> Result<Decoded, BodyError> {
    if !schema.is_custom() {
        return read(from, schema.root());
    }
    let mut reader = Reader::new(schema);
    let object = feed(from, ObjectSink { reader: &mut reader, schema, type_meta: None }).map_err(broken)?;
    Ok(Decoded { object, findings: reader.into_findings()? })
}

/// Reads an object like kube-apiserver reads it from its storage.
pub(super) fn read_stored(object: &Json, schema: &Schema) -> Result<Decoded, BodyError> {
    if schema.is_custom() {
        return read_object(object, schema);
    }
    read_by(Reader::of_stored(), object, schema.root())
}

/// Reads arbitrary JSON without changing numbers. Reports only duplicate members as findings.
pub(super) fn read_verbatim(body: &[u8]) -> Result<(Json, Vec<StrictFinding>), String> {
    let mut reader = Reader::verbatim();
    let value = feed_json(body, Untyped { reader: &mut reader, path: None, ignores_duplicates: false })?;
    Ok((value, reader.into_duplicates()))
}

/// Converts a deserializer's error. Used only for parsers, because deserializing from a [`Json`] value never fails.
fn broken(error: Error) -> BodyError {
    BodyError::Value(error.to_string())
}
