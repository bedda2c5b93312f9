//! Decodes a protobuf body into the JSON value of its object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::{Json, Map};
use pintle_meta::{MicroTime, Time};

use super::envelope::MAGIC;
use super::wire::{Content, Fields};
use crate::{Field, Scalar, Schema, StructRef, Type, Union};

/// No message of Kubernetes is deeper, but for JSON schemas, of which a server takes no deeper ones either.
const DEEPEST: usize = 100;

/// Reads a body into the object that it stands for, `apiVersion` and `kind` included. Where it does not name them, they are those
/// that are expected. The error says what is wrong with it.
pub fn decode(body: &[u8], (version, kind_of): (&str, &str)) -> Result<Json, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("it does not begin with the magic bytes of protobuf")?;
    if envelope.is_empty() {
        return Err("there is nothing in it".into());
    }
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::of(envelope) {
        match field? {
            (1, Content::Bytes(types)) => {
                for field in Fields::of(types) {
                    match field? {
                        (1, Content::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Content::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Content::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    for (named, expected) in [(&mut api_version, version), (&mut kind, kind_of)] {
        if named.is_empty() {
            expected.clone_into(named);
        }
    }
    // Delete options go by the group of what is deleted.
    let version = if kind == "DeleteOptions" { "v1" } else { &api_version };
    let schema = Schema::builtin(version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} of {api_version:?} is known in protobuf"))?;
    let Type::Struct { of, .. } = schema.root() else { return Err(format!("{kind} is no message")) };
    let mut object = Map::new();
    message(raw, of, &[], &mut object, DEEPEST)?;
    object.insert("apiVersion", api_version.into());
    object.insert("kind", kind.into());
    Ok(Json::Object(object))
}

/// Reads the fields of a message into `object`. `around` are the numbers of the messages whose fields Go embeds: their fields
/// belong to the object around them.
fn message(bytes: &[u8], of: &StructRef, around: &[u32], object: &mut Map, depth: usize) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("it is nested too deeply")?;
    for field in Fields::of(bytes) {
        let (number, content) = field?;
        let path = [around, &[number]].concat();
        if let Some(field) = of.fields.iter().find(|field| field.number == path) {
            put(field, content, object, depth).map_err(|why| format!("{}: {why}", field.name))?;
        } else if of.fields.iter().any(|field| field.number.len() > path.len() && field.number.starts_with(&path)) {
            message(as_bytes(content)?, of, &path, object, depth)?;
        }
    }
    Ok(())
}

fn put(field: &Field, content: Content<'_>, object: &mut Map, depth: usize) -> Result<(), String> {
    match &field.of {
        Type::List(list) => {
            let item = value(content, &list.item, depth)?;
            if let Json::Array(items) = object.entry(&field.name).or_insert_with(|| Json::Array(Vec::new())) {
                items.push(item);
            }
        }
        Type::Map(map) => {
            let (key, item) = entry(as_bytes(content)?, &map.value, depth)?;
            if let Json::Object(entries) = object.entry(&field.name).or_insert_with(|| Json::Object(Map::new())) {
                entries.insert(key, item);
            }
        }
        of => {
            let value = value(content, of, depth)?;
            // Go puts every plain field on the wire, also where JSON would leave it out.
            let is_left_out = value.is_null() || (is_zero(&value) && !field.pointer && !field.always);
            if !is_left_out {
                object.insert(field.name.clone(), value);
            }
        }
    }
    Ok(())
}

/// An entry of a map: the key is field 1, the value field 2.
fn entry(bytes: &[u8], of: &Type, depth: usize) -> Result<(String, Json), String> {
    let (mut key, mut found) = (String::new(), None);
    for field in Fields::of(bytes) {
        match field? {
            (1, content) => key = text(as_bytes(content)?)?,
            (2, content) => found = Some(content),
            _ => {}
        }
    }
    let value = match (found, of) {
        // A list cannot be the value of a map, so it stands in a message of its own.
        (Some(content), Type::List(list)) => {
            let items = Fields::of(as_bytes(content)?).map(|field| value(field?.1, &list.item, depth));
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        (Some(content), of) => value(content, of, depth)?,
        (None, Type::Scalar(Scalar::String | Scalar::Bytes)) => "".into(),
        (None, _) => Json::Null,
    };
    Ok((key, value))
}

fn value(content: Content<'_>, of: &Type, depth: usize) -> Result<Json, String> {
    match of {
        Type::Scalar(scalar) => scalar_value(content, *scalar),
        Type::Struct { of, .. } => {
            let mut object = Map::new();
            message(as_bytes(content)?, of, &[], &mut object, depth)?;
            Ok(Json::Object(object))
        }
        Type::Any => embedded(content),
        Type::Union(union) => union_value(content, *union, depth),
        Type::List(_) | Type::Map(_) => Err("a list within a list".into()),
    }
}

/// JSON in a message of its own.
fn embedded(content: Content<'_>) -> Result<Json, String> {
    let raw = part(content, 1)?.map(as_bytes).transpose()?.unwrap_or_default();
    if raw.is_empty() {
        return Ok(Json::Null);
    }
    serde_json::from_slice(raw).map_err(|error| error.to_string())
}

fn scalar_value(content: Content<'_>, scalar: Scalar) -> Result<Json, String> {
    Ok(match scalar {
        Scalar::String => text(as_bytes(content)?)?.into(),
        Scalar::Bytes => STANDARD.encode(as_bytes(content)?).into(),
        Scalar::Bool => (as_integer(content)? != 0).into(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Untyped => as_integer(content)?.into(),
        Scalar::Number => match content {
            Content::Fixed64(bits) => f64::from_bits(bits).into(),
            Content::Fixed32(bits) => f32::from_bits(bits).into(),
            other => as_integer(other)?.into(),
        },
        Scalar::Quantity => text_part(content, 1)?.into(),
        Scalar::IntOrString => match part(content, 1)?.map(as_integer).transpose()? {
            Some(1) => text_part(content, 3)?.into(),
            _ => integer_part(content, 2)?.into(),
        },
        Scalar::Time => timestamp(content)?.map_or(Json::Null, |time| Time(time).to_string().into()),
        Scalar::MicroTime => timestamp(content)?.map_or(Json::Null, |time| MicroTime(time).to_string().into()),
        Scalar::Raw => embedded(content)?,
        Scalar::Duration => go_duration(integer_part(content, 1)?).into(),
    })
}

/// A union is a message with a field for each of its cases.
fn union_value(content: Content<'_>, union: Union, depth: usize) -> Result<Json, String> {
    let schema = crate::named("apiextensions.JSONSchemaProps");
    let (schema_at, other_at) = if union == Union::Bool { (2, 1) } else { (1, 2) };
    if let Some(content) = part(content, schema_at)? {
        return value(content, &schema, depth);
    }
    let others =
        Fields::of(as_bytes(content)?).filter(|field| field.as_ref().map_or(true, |(number, _)| *number == other_at));
    let mut values = others.map(|field| match union {
        Union::Bool => scalar_value(field?.1, Scalar::Bool),
        Union::List => value(field?.1, &schema, depth),
        Union::Strings => scalar_value(field?.1, Scalar::String),
    });
    match union {
        Union::Bool => values.next().unwrap_or(Ok(Json::Bool(false))),
        Union::List | Union::Strings => Ok(Json::Array(values.collect::<Result<_, _>>()?)),
    }
}

/// An empty message stands for no time at all.
fn timestamp(content: Content<'_>) -> Result<Option<Timestamp>, String> {
    if as_bytes(content)?.is_empty() {
        return Ok(None);
    }
    let (seconds, nanos) = (integer_part(content, 1)?, integer_part(content, 2)?);
    let nanos = i32::try_from(nanos).map_err(|error| error.to_string())?;
    Timestamp::new(seconds, nanos).map(Some).map_err(|error| error.to_string())
}

/// As Go writes lengths of time: `1h0m0s`, `1.5s`, `500ms`.
pub(super) fn go_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let (seconds, rest) = (all / 1_000_000_000, all % 1_000_000_000);
    let decimal = |whole: u64, part: u64, digits: usize| {
        let part = format!("{part:0digits$}");
        format!("{whole}.{part}").trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let text = match (all, seconds) {
        (0, _) => "0s".into(),
        (..1_000, _) => format!("{all}ns"),
        (..1_000_000, _) => format!("{}µs", decimal(all / 1_000, all % 1_000, 3)),
        (_, 0) => format!("{}ms", decimal(all / 1_000_000, all % 1_000_000, 6)),
        (_, ..60) => format!("{}s", decimal(seconds, rest, 9)),
        (_, ..3600) => format!("{}m{}s", seconds / 60, decimal(seconds % 60, rest, 9)),
        _ => format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, decimal(seconds % 60, rest, 9)),
    };
    format!("{sign}{text}")
}

/// The last field of that number in a message.
fn part(content: Content<'_>, number: u32) -> Result<Option<Content<'_>>, String> {
    let mut found = None;
    for field in Fields::of(as_bytes(content)?) {
        let (at, content) = field?;
        if at == number {
            found = Some(content);
        }
    }
    Ok(found)
}

fn text_part(content: Content<'_>, number: u32) -> Result<String, String> {
    part(content, number)?.map_or(Ok(String::new()), |content| text(as_bytes(content)?))
}

fn integer_part(content: Content<'_>, number: u32) -> Result<i64, String> {
    part(content, number)?.map_or(Ok(0), as_integer)
}

fn as_bytes(content: Content<'_>) -> Result<&[u8], String> {
    match content {
        Content::Bytes(bytes) => Ok(bytes),
        other => Err(format!("{other:?} stands where bytes should")),
    }
}

/// Negative numbers of 32 bits are as long on the wire as those of 64.
fn as_integer(content: Content<'_>) -> Result<i64, String> {
    match content {
        Content::Varint(bits) => Ok(bits.cast_signed()),
        other => Err(format!("{other:?} stands where a number should")),
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".into())
}

fn is_zero(value: &Json) -> bool {
    match value {
        Json::Bool(value) => !value,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        _ => false,
    }
}
