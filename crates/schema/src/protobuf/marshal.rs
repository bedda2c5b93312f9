//! Encodes JSON objects as protobuf.
//!
//! The encoded object is byte-for-byte identical to Go's encoding. Fields are sorted by number, and map entries are
//! sorted by key. Fields that are not pointers in Go are always encoded, even if they are empty.

use std::fmt;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::MapOrNumber;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;

use super::wire::{bytes, fixed64, nested, varint};
use crate::sink::Name;
use crate::types::{Field, MapType, Scalar, Struct, Type, Union};

/// Encodes an object whose type is a built-in struct.
///
/// # Errors
///
/// Returns an error if a value does not match the type of its field.
pub fn message(ty: &Type, json: &[u8]) -> Result<Vec<u8>, Error> {
    let Type::Struct { struct_type, .. } = ty else { return Err(Error::custom("only structs are messages")) };
    let mut to = Vec::new();
    serde_json::Deserializer::from_slice(json).deserialize_map(MessageWriter { struct_type, to: &mut to })?;
    Ok(to)
}

/// Encodes the fields of a struct without the tag and length of a nested message.
struct MessageWriter<'a> {
    struct_type: &'a Struct,
    to: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for MessageWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.struct_type.name)
    }

    /// Encodes the fields in input order, and then sorts the encoded fields.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Vec::new();
        let mut places = vec![0..0; self.struct_type.fields.len()];
        while let Some(Name(name)) = map.next_key()? {
            let Some(at) = self.struct_type.field_index(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let field = &self.struct_type.fields[at];
            let start = fields.len();
            match field.number.last() {
                Some(&number) => map.next_value_seed(Put { number, ty: &field.ty, to: &mut fields })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            places[at] = start..fields.len();
        }
        let encoded = Encoded { struct_type: self.struct_type, fields, places };
        encoded.write(&self.struct_type.numbered, 0, self.to);
        Ok(())
    }
}

/// The encoded fields of a struct, with the byte range of each field.
struct Encoded<'a> {
    struct_type: &'a Struct,
    fields: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Encoded<'_> {
    fn empty(struct_type: &Struct) -> Encoded<'_> {
        Encoded { struct_type, fields: Vec::new(), places: Vec::new() }
    }

    /// Appends the encoded fields with the indices `these`, whose protobuf paths share the first `depth` numbers. In
    /// protobuf, the fields of an embedded Go struct form a separate message.
    fn write(&self, these: &[usize], depth: usize, to: &mut Vec<u8>) {
        let number = |at: usize| self.struct_type.fields[at].number[depth];
        for group in these.chunk_by(|&a, &b| number(a) == number(b)) {
            let (at, field) = (group[0], &self.struct_type.fields[group[0]]);
            if field.number.len() > depth + 1 {
                nested(number(at), to, |to| self.write(group, depth + 1, to));
                continue;
            }
            match self.places.get(at).map_or(&[][..], |place| &self.fields[place.clone()]) {
                [] => absent(field, to),
                present => to.extend_from_slice(present),
            }
        }
    }
}

/// Appends Go's encoding of an unset field.
fn absent(field: &Field, to: &mut Vec<u8>) {
    if let Some(&number) = field.number.last().filter(|_| !field.pointer) {
        zero(number, &field.ty, to);
    }
}

fn zero(number: u32, ty: &Type, to: &mut Vec<u8>) {
    match ty {
        Type::List(_) | Type::Map(_) | Type::Scalar(Scalar::Bytes) => (),
        Type::Struct { struct_type, .. } => {
            nested(number, to, |to| Encoded::empty(struct_type).write(&struct_type.numbered, 0, to))
        }
        Type::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64) => varint(number, 0, to),
        Type::Scalar(Scalar::Number) => fixed64(number, 0, to),
        Type::Scalar(Scalar::Quantity | Scalar::ResourceQuantity) => nested(number, to, |to| bytes(1, b"0", to)),
        Type::Scalar(Scalar::IntOrString) => int_or_string(number, 0, 0, "", to),
        Type::Union(Union::Bool) | Type::Scalar(Scalar::Duration) => nested(number, to, |to| varint(1, 0, to)),
        Type::Scalar(Scalar::String | Scalar::Time | Scalar::MicroTime | Scalar::Raw)
        | Type::Any
        | Type::Union(Union::List | Union::Strings) => bytes(number, b"", to),
    }
}

fn int_or_string(number: u32, case: i64, integer: i64, text: &str, to: &mut Vec<u8>) {
    nested(number, to, |to| {
        varint(1, case, to);
        varint(2, integer, to);
        bytes(3, text.as_bytes(), to);
    });
}

fn timestamp(number: u32, nanoseconds: i128, to: &mut Vec<u8>) {
    const SECOND: i128 = 1_000_000_000;
    nested(number, to, |to| {
        varint(1, nanoseconds.div_euclid(SECOND) as i64, to);
        varint(2, nanoseconds.rem_euclid(SECOND) as i64, to);
    });
}

/// Encodes a value as the field `number`. Encodes each list item as a separate field with this number. Omits null.
struct Put<'a> {
    number: u32,
    ty: &'a Type,
    to: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Put<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if !matches!(self.ty, Type::Any | Type::Scalar(Scalar::Raw)) {
            return from.deserialize_any(self);
        }
        let raw = Box::<RawValue>::deserialize(from)?;
        if raw.get() != "null" {
            nested(self.number, self.to, |to| bytes(1, raw.get().as_bytes(), to));
        }
        Ok(())
    }
}

impl Put<'_> {
    fn wrong_type<E: serde::de::Error>(&self, found: Unexpected<'_>) -> E {
        E::invalid_type(found, self)
    }

    /// Encodes map entries as messages with the key in field 1 and the value in field 2.
    fn entries<'de, A: MapAccess<'de>>(self, map_type: &MapType, mut map: A) -> Result<(), A::Error> {
        let (mut entries, mut places) = (Vec::new(), Vec::new());
        while let Some(Name(key)) = map.next_key()? {
            let start = entries.len();
            nested(self.number, &mut entries, |to| {
                bytes(1, key.as_bytes(), to);
                // Wrap each list in a message, because the value of a map entry cannot be a repeated field.
                if let list @ Type::List(_) = &map_type.value {
                    return nested(2, to, |to| map.next_value_seed(Put { number: 1, ty: list, to }));
                }
                let start = to.len();
                map.next_value_seed(Put { number: 2, ty: &map_type.value, to })?;
                if to.len() == start {
                    zero(2, &map_type.value, to);
                }
                Ok(())
            })?;
            places.push((key, start..entries.len()));
        }
        places.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (_, place) in places {
            self.to.extend_from_slice(&entries[place]);
        }
        Ok(())
    }
}

fn items<'de, A: SeqAccess<'de>>(number: u32, ty: &Type, to: &mut Vec<u8>, mut seq: A) -> Result<(), A::Error> {
    loop {
        let start = to.len();
        if seq.next_element_seed(Put { number, ty, to })?.is_none() {
            return Ok(());
        }
        // Encode a null item as the zero value of the item type, because protobuf has no null.
        if to.len() == start {
            zero(number, ty, to);
        }
    }
}

impl<'de> Visitor<'de> for Put<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.ty)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match self.ty {
            Type::Scalar(Scalar::Bool) => varint(self.number, value.into(), self.to),
            Type::Union(Union::Bool) => nested(self.number, self.to, |to| varint(1, value.into(), to)),
            _ => return Err(self.wrong_type(Unexpected::Bool(value))),
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        match self.ty {
            Type::Scalar(Scalar::Int32 | Scalar::Int64) => varint(self.number, value, self.to),
            Type::Scalar(Scalar::Number) => fixed64(self.number, (value as f64).to_bits(), self.to),
            Type::Scalar(Scalar::IntOrString) => int_or_string(self.number, 0, value, "", self.to),
            _ => return Err(self.wrong_type(Unexpected::Signed(value))),
        }
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        match self.ty {
            Type::Scalar(Scalar::Number) => fixed64(self.number, value.to_bits(), self.to),
            _ => return Err(self.wrong_type(Unexpected::Float(value))),
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let Type::Scalar(scalar) = self.ty else { return Err(self.wrong_type(Unexpected::Str(text))) };
        let time = || text.parse::<Timestamp>().map(Timestamp::as_nanosecond).map_err(E::custom);
        match scalar {
            Scalar::String => bytes(self.number, text.as_bytes(), self.to),
            Scalar::Bytes => bytes(self.number, &STANDARD.decode(text).map_err(E::custom)?, self.to),
            Scalar::Quantity | Scalar::ResourceQuantity => {
                nested(self.number, self.to, |to| bytes(1, text.as_bytes(), to))
            }
            Scalar::IntOrString => int_or_string(self.number, 1, 0, text, self.to),
            Scalar::Time => timestamp(self.number, time()?.div_euclid(1_000_000_000) * 1_000_000_000, self.to),
            Scalar::MicroTime => timestamp(self.number, time()?.div_euclid(1_000) * 1_000, self.to),
            _ => return Err(self.wrong_type(Unexpected::Str(text))),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        match self.ty {
            Type::List(list) => items(self.number, &list.item, self.to, seq),
            Type::Union(Union::List) => {
                let schema = crate::named("apiextensions.JSONSchemaProps");
                nested(self.number, self.to, |to| items(2, &schema, to, seq))
            }
            Type::Union(Union::Strings) => {
                nested(self.number, self.to, |to| items(2, &Type::Scalar(Scalar::String), to, seq))
            }
            _ => Err(self.wrong_type(Unexpected::Seq)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.take(MapOrNumber::of(map)?)
    }
}

impl Put<'_> {
    fn take<'de, A: MapAccess<'de>>(self, found: MapOrNumber<'de, A>) -> Result<(), A::Error> {
        match found {
            MapOrNumber::Map(members) => self.members(members),
            MapOrNumber::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => self.visit_i64(integer),
                (None, Some(float)) => self.visit_f64(float),
                (None, None) => Err(A::Error::custom("number out of range")),
            },
        }
    }

    fn members<'de, A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match self.ty {
            Type::Struct { struct_type, .. } => {
                nested(self.number, self.to, |to| MessageWriter { struct_type, to }.visit_map(map))
            }
            Type::Map(map_type) => {
                let map_type = map_type.clone();
                self.entries(&map_type, map)
            }
            // A union is encoded as a message with one field per alternative.
            Type::Union(union) => nested(self.number, self.to, |to| {
                let schema = crate::named("apiextensions.JSONSchemaProps");
                if *union == Union::Bool {
                    varint(1, 1, to);
                }
                let number = if *union == Union::Bool { 2 } else { 1 };
                Put { number, ty: &schema, to }.members(map)
            }),
            _ => Err(self.wrong_type(Unexpected::Map)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::MapDeserializer;

    use super::*;

    #[test]
    fn number_passed_as_a_map_is_encoded() {
        let written = |scalar: Scalar, text: &str| {
            let members = [("$serde_json::private::Number", text.to_owned())].into_iter();
            let members = MapDeserializer::<_, serde::de::value::Error>::new(members);
            let mut to = Vec::new();
            let put = Put { number: 1, ty: &Type::Scalar(scalar), to: &mut to };
            put.take(MapOrNumber::peek(members, true)?).map(|()| to)
        };
        assert_eq!(written(Scalar::Int32, "7"), Ok(vec![0x08, 7]));
        assert_eq!(written(Scalar::Number, "1.50"), Ok([&[0x09][..], &1.5_f64.to_le_bytes()].concat()));
        assert!(written(Scalar::Int32, "1.5").is_err());
        assert!(written(Scalar::Number, "1e999").is_err());
    }
}
