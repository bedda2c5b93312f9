//! Decodes protobuf bodies to JSON objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::{Json, Map};
use pintle_meta::__private::go_duration;
use pintle_meta::{MicroTime, Time};

use super::envelope::MAGIC;
use super::wire::{WireFields, WireValue};
use crate::types::{Field, Scalar, Struct, Type, Union};
use crate::{DEEPEST, Schema};

/// Returns kube-apiserver's error message for a body without a message, or `None` if the body may contain a message.
pub fn missing_message(body: &[u8]) -> Option<&'static str> {
    match body.strip_prefix(MAGIC) {
        Some([]) => Some("empty body"),
        Some(_) => None,
        None if body.is_empty() => Some("empty data"),
        None => Some("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
    }
}

/// Decodes a protobuf body and returns the object with its `apiVersion` and `kind`. If the body lacks a version or a
/// kind, the given version or kind is used. If the body is invalid, returns the message for the error response.
pub fn decode(body: &[u8], (version, kind_of): (&str, &str)) -> Result<Json, String> {
    if let Some(why) = missing_message(body) {
        return Err(why.into());
    }
    let envelope = body.get(MAGIC.len()..).unwrap_or_default();
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in WireFields::of(envelope) {
        match field? {
            (1, WireValue::Bytes(types)) => {
                for field in WireFields::of(types) {
                    match field? {
                        (1, WireValue::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, WireValue::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    for (named, expected) in [(&mut api_version, version), (&mut kind, kind_of)] {
        if named.is_empty() {
            expected.clone_into(named);
        }
    }
    // The `apiVersion` of DeleteOptions can be the version of the deleted object.
    let version = if kind == "DeleteOptions" { "v1" } else { &api_version };
    let schema = Schema::builtin(version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for protobuf in version {api_version:?}"))?;
    let Type::Struct { struct_type, .. } = schema.root() else { return Err(format!("{kind} is not a message")) };
    let mut object = Map::new();
    MessageReader::new(struct_type).read(raw, &mut object, inside(DEEPEST)?)?;
    object.insert("apiVersion", api_version.into());
    object.insert("kind", kind.into());
    Ok(Json::Object(object))
}

/// Reads one protobuf message. A nested message can represent an embedded Go struct. In JSON, the fields of an embedded
/// struct belong to the enclosing object.
#[derive(Clone, Copy)]
struct MessageReader<'a> {
    struct_type: &'a Struct,
    /// The indices of the struct fields in this message, sorted by field number.
    fields: &'a [usize],
    /// The number of enclosing messages whose fields belong to the same JSON object.
    around: usize,
}

impl<'a> MessageReader<'a> {
    fn new(struct_type: &'a Struct) -> Self {
        Self { struct_type, fields: &struct_type.numbered, around: 0 }
    }

    /// Reads the fields into `object`. `levels_left` is the remaining number of nesting levels.
    fn read(self, bytes: &[u8], object: &mut Map, levels_left: usize) -> Result<(), String> {
        for field in WireFields::of(bytes) {
            let (number, content) = field?;
            let found = self.numbered(number);
            match found.fields {
                [] => (),
                [at] if self.number(*at).len() == found.around => {
                    let field = &self.struct_type.fields[*at];
                    put(field, content, object, levels_left).map_err(|why| format!("{}: {why}", field.name))?;
                }
                _ => found.read(as_bytes(content)?, object, levels_left)?,
            }
        }
        Ok(())
    }

    /// Returns a reader for the field `number`. If the field is an embedded message, the returned reader reads the
    /// fields of this message.
    fn numbered(self, number: u32) -> Self {
        let (from, around) = (|at: &usize| self.number(*at)[self.around], self.around + 1);
        let begin = self.fields.partition_point(|at| from(at) < number);
        let length = self.fields[begin..].partition_point(|at| from(at) == number);
        Self { fields: &self.fields[begin..begin + length], around, ..self }
    }

    fn number(self, at: usize) -> &'a [u32] {
        &self.struct_type.fields[at].number
    }
}

fn put(field: &Field, content: WireValue<'_>, object: &mut Map, levels_left: usize) -> Result<(), String> {
    match &field.ty {
        Type::List(list) => {
            let item = value(content, &list.item, inside(levels_left)?)?;
            match object.get_mut(&field.name) {
                Some(Json::Array(items)) => items.push(item),
                _ => drop(object.insert(field.name.clone(), vec![item].into())),
            }
        }
        Type::Map(map) => {
            let (key, item) = entry(as_bytes(content)?, &map.value, inside(levels_left)?)?;
            match object.get_mut(&field.name) {
                Some(Json::Object(entries)) => drop(entries.insert(key, item)),
                _ => drop(object.insert(field.name.clone(), Map::from_iter([(key, item)]).into())),
            }
        }
        ty => {
            if let (Type::Struct { struct_type, .. }, Some(Json::Object(earlier))) = (ty, object.get_mut(&field.name)) {
                // If a message occurs again, merge it into the earlier message.
                return MessageReader::new(struct_type).read(as_bytes(content)?, earlier, inside(levels_left)?);
            }
            let value = value(content, ty, levels_left)?;
            // In protobuf, Go writes all fields that are not pointers. In JSON, Go omits some of these fields if they
            // are empty.
            let is_left_out = value.is_null() || (is_zero(&value) && !field.pointer && !field.always);
            match ty {
                _ if !is_left_out => drop(object.insert(field.name.clone(), value)),
                // These types are encoded as a message with a single field. If the field is absent, keep the earlier
                // value.
                Type::Any | Type::Scalar(Scalar::Raw | Scalar::Quantity | Scalar::ResourceQuantity) => (),
                _ => drop(object.remove(&field.name)),
            }
        }
    }
    Ok(())
}

/// Decodes a map entry with the key in field 1 and the value in field 2.
fn entry(bytes: &[u8], ty: &Type, levels_left: usize) -> Result<(String, Json), String> {
    let (mut key, mut found) = (String::new(), None);
    for field in WireFields::of(bytes) {
        match field? {
            (1, content) => key = text(as_bytes(content)?)?,
            (2, content) => found = Some(content),
            _ => {}
        }
    }
    let value = match (found, ty) {
        // Unwrap each list, because the value of a map entry cannot be a repeated field.
        (Some(content), Type::List(list)) => {
            let levels_left = inside(levels_left)?;
            let items = WireFields::of(as_bytes(content)?).map(|field| value(field?.1, &list.item, levels_left));
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        (Some(content), ty) => value(content, ty, levels_left)?,
        (None, Type::Scalar(Scalar::String | Scalar::Bytes)) => "".into(),
        (None, _) => Json::Null,
    };
    Ok((key, value))
}

fn value(content: WireValue<'_>, ty: &Type, levels_left: usize) -> Result<Json, String> {
    match ty {
        Type::Scalar(scalar) => scalar_value(content, *scalar, levels_left),
        Type::Struct { struct_type, .. } => {
            let mut object = Map::new();
            MessageReader::new(struct_type).read(as_bytes(content)?, &mut object, inside(levels_left)?)?;
            Ok(Json::Object(object))
        }
        Type::Any => embedded(content, levels_left),
        Type::Union(union) => union_value(content, *union, levels_left),
        Type::List(_) | Type::Map(_) => Err("a list within a list".into()),
    }
}

/// Decodes a message with a single field that contains JSON text.
fn embedded(content: WireValue<'_>, levels_left: usize) -> Result<Json, String> {
    let raw = part(content, 1)?.map(as_bytes).transpose()?.unwrap_or_default();
    if raw.is_empty() {
        return Ok(Json::Null);
    }
    let value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
    if fits(&value, levels_left) { Ok(value) } else { Err(too_deep()) }
}

fn fits(value: &Json, levels_left: usize) -> bool {
    match value {
        Json::Array(items) => levels_left > 0 && items.iter().all(|item| fits(item, levels_left - 1)),
        Json::Object(members) => levels_left > 0 && members.values().all(|value| fits(value, levels_left - 1)),
        _ => true,
    }
}

fn inside(levels_left: usize) -> Result<usize, String> {
    levels_left.checked_sub(1).ok_or_else(too_deep)
}

fn too_deep() -> String {
    "the body is nested too deeply".into()
}

fn scalar_value(content: WireValue<'_>, scalar: Scalar, levels_left: usize) -> Result<Json, String> {
    Ok(match scalar {
        Scalar::String => text(as_bytes(content)?)?.into(),
        Scalar::Bytes => STANDARD.encode(as_bytes(content)?).into(),
        Scalar::Bool => (as_integer(content)? != 0).into(),
        Scalar::Int32 | Scalar::Int64 => as_integer(content)?.into(),
        Scalar::Number => match content {
            WireValue::Fixed64(bits) => f64::from_bits(bits).into(),
            WireValue::Fixed32(bits) => f32::from_bits(bits).into(),
            other => as_integer(other)?.into(),
        },
        Scalar::Quantity | Scalar::ResourceQuantity => text_part(content, 1)?.into(),
        Scalar::IntOrString => match part(content, 1)?.map(as_integer).transpose()? {
            Some(1) => text_part(content, 3)?.into(),
            _ => integer_part(content, 2)?.into(),
        },
        Scalar::Time => timestamp(content)?.map_or(Json::Null, |time| Time(time).to_string().into()),
        Scalar::MicroTime => timestamp(content)?.map_or(Json::Null, |time| MicroTime(time).to_string().into()),
        Scalar::Raw => embedded(content, levels_left)?,
        Scalar::Duration => go_duration(integer_part(content, 1)?).into(),
    })
}

fn union_value(content: WireValue<'_>, union: Union, levels_left: usize) -> Result<Json, String> {
    let schema = crate::named("apiextensions.JSONSchemaProps");
    let (schema_at, other_at) = if union == Union::Bool { (2, 1) } else { (1, 2) };
    if let Some(content) = part(content, schema_at)? {
        return value(content, &schema, levels_left);
    }
    let others = WireFields::of(as_bytes(content)?)
        .filter(|field| field.as_ref().map_or(true, |(number, _)| *number == other_at));
    let mut values = others.map(|field| match union {
        Union::Bool => scalar_value(field?.1, Scalar::Bool, levels_left),
        Union::List => value(field?.1, &schema, inside(levels_left)?),
        Union::Strings => scalar_value(field?.1, Scalar::String, levels_left),
    });
    match union {
        Union::Bool => values.next().unwrap_or(Ok(Json::Bool(false))),
        Union::List | Union::Strings => Ok(Json::Array(values.collect::<Result<_, _>>()?)),
    }
}

/// Decodes a time. Returns `None` for an empty message.
fn timestamp(content: WireValue<'_>) -> Result<Option<Timestamp>, String> {
    if as_bytes(content)?.is_empty() {
        return Ok(None);
    }
    let (seconds, nanos) = (integer_part(content, 1)?, integer_part(content, 2)?);
    let nanos = i32::try_from(nanos).map_err(|error| error.to_string())?;
    Timestamp::new(seconds, nanos).map(Some).map_err(|error| error.to_string())
}

/// Returns the last occurrence of the field `number` in a message.
fn part(content: WireValue<'_>, number: u32) -> Result<Option<WireValue<'_>>, String> {
    let mut found = None;
    for field in WireFields::of(as_bytes(content)?) {
        let (at, content) = field?;
        if at == number {
            found = Some(content);
        }
    }
    Ok(found)
}

fn text_part(content: WireValue<'_>, number: u32) -> Result<String, String> {
    part(content, number)?.map_or(Ok(String::new()), |content| text(as_bytes(content)?))
}

fn integer_part(content: WireValue<'_>, number: u32) -> Result<i64, String> {
    part(content, number)?.map_or(Ok(0), as_integer)
}

fn as_bytes(content: WireValue<'_>) -> Result<&[u8], String> {
    match content {
        WireValue::Bytes(bytes) => Ok(bytes),
        other => Err(format!("found {}, expected bytes", other.wire_type())),
    }
}

/// Decodes an integer. Negative 32-bit numbers are encoded as 64-bit numbers.
fn as_integer(content: WireValue<'_>) -> Result<i64, String> {
    match content {
        WireValue::Varint(bits) => Ok(bits.cast_signed()),
        other => Err(format!("found {}, expected a number", other.wire_type())),
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".into())
}

fn is_zero(value: &Json) -> bool {
    match value {
        Json::Bool(value) => !value,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        _ => false,
    }
}
