//! Reads struct fields, and determines which fields Go's JSON encoder would write.

use pintle_json::{Json, Map};
use serde::de::MapAccess;

use super::finding::{FieldPath, PathStep};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed};
use super::types::{Field, Scalar, Struct, Type};

pub(super) struct StructFields<'r> {
    reader: &'r mut Reader,
    of: &'r Struct,
    at: Option<&'r FieldPath<'r>>,
    /// The fields that were already read, as a bit set.
    seen: u128,
    /// Whether the same struct occurred earlier in the document, so that `out` starts with the members of the earlier occurrence.
    is_repeated: bool,
    out: Map,
}

impl<'r> StructFields<'r> {
    pub(super) fn new(reader: &'r mut Reader, of: &'r Struct, at: Option<&'r FieldPath<'r>>) -> Self {
        Self { reader, of, at, seen: 0, is_repeated: false, out: Map::new() }
    }

    /// Starts with the members of an earlier occurrence of the same struct. Go
    /// does the same, because it decodes a repeated struct into the same memory.
    pub(super) fn over(self, earlier: Option<Map>) -> Self {
        Self { is_repeated: earlier.is_some(), out: earlier.unwrap_or_default(), ..self }
    }

    pub(super) fn all<'de, A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        while let Some(Name(name)) = members.next_key()? {
            self.next(&name, &mut members)?;
        }
        Ok(Json::Object(self.finish()))
    }

    pub(super) fn reader(&mut self) -> &mut Reader {
        self.reader
    }

    pub(super) fn next<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let Some(place) = self.of.place(name) else { return self.skip_unknown(name, members) };
        let field = &self.of.fields[place];
        let at = FieldPath { parent: self.at, step: PathStep::Field(self.of, field) };
        let bit = bit(place);
        if self.seen & bit != 0 {
            self.reader.repeated(at);
        }
        let is_repeated = self.is_repeated || self.seen & bit != 0;
        self.seen |= bit;
        let earlier = if is_repeated { self.out.get_mut(&field.name) } else { None };
        let survives_null =
            !field.pointer && earlier.as_deref().is_some_and(|earlier| survives_null(&field.of, earlier));
        let value = Typed { reader: self.reader, of: &field.of, at: Some(&at), earlier };
        match members.next_value_seed(Seed(value))? {
            None if survives_null => (),
            None if field.pointer => self.put(field, Json::Null, is_repeated),
            None => self.put(field, zero(&field.of), is_repeated),
            Some(value) => self.put(field, value, is_repeated),
        }
        Ok(())
    }

    /// Returns the members that Go's JSON encoder writes if only the read fields are set.
    pub(super) fn finish(mut self) -> Map {
        for &place in self.of.always.iter().filter(|&&place| self.seen & bit(place) == 0) {
            let field = &self.of.fields[place];
            self.out.entry(&field.name).or_insert_with(|| unset(field));
        }
        self.out
    }

    fn skip_unknown<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let at = FieldPath { parent: self.at, step: PathStep::Member(name) };
        self.reader.unknown(at);
        members.next_value_seed(Seed(self.reader.untyped_sink(Some(&at)))).map(drop)
    }

    fn put(&mut self, field: &Field, value: Json, is_repeated: bool) {
        let earlier = if is_repeated { self.out.get_mut(&field.name) } else { None };
        let value = match (&field.of, earlier, value) {
            // If a map field occurs twice, Go adds the new entries to the first map.
            (Type::Map(_), Some(Json::Object(earlier)), Json::Object(later)) => return earlier.extend(later),
            (_, _, value) => value,
        };
        let value = if value.is_null() && field.always { unset(field) } else { value };
        if !is_left_out(field, &value) {
            self.out.insert(field.name.as_str(), value);
        } else if is_repeated {
            self.out.remove(&field.name);
        }
    }
}

/// Returns a field's bit in [`StructFields::seen`]. A test of the type table checks that each struct has at most 128 fields.
fn bit(place: usize) -> u128 {
    u32::try_from(place).ok().and_then(|place| 1_u128.checked_shl(place)).unwrap_or_default()
}

/// Returns `true` if Go keeps a field's earlier value when the field occurs again with the
/// value null. In Go, null clears lists, maps and most types that implement `Unmarshaler`.
pub(super) fn survives_null(of: &Type, earlier: &Json) -> bool {
    match of {
        Type::Struct { .. } => true,
        Type::Scalar(Scalar::IntOrString) => earlier.is_number(),
        Type::Scalar(scalar) => matches!(
            scalar,
            Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::Raw
        ),
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => false,
    }
}

/// Returns the value that Go's JSON encoder writes for an unset value of this type.
pub(super) fn zero(of: &Type) -> Json {
    match of {
        Type::Scalar(scalar) => scalar.zero(),
        Type::Struct { of, .. } => {
            let always = of.always.iter().map(|&place| &of.fields[place]);
            Json::Object(always.map(|field| (field.name.as_str(), unset(field))).collect())
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => Json::Null,
    }
}

/// Returns the value that Go's JSON encoder writes for an unset field, if Go never omits the field.
fn unset(field: &Field) -> Json {
    if field.pointer { Json::Null } else { zero(&field.of) }
}

/// Returns `true` if Go omits a field with this value, which includes most empty values.
fn is_left_out(field: &Field, value: &Json) -> bool {
    // Go always writes an empty struct. An empty `managedFields` is kept, because an empty list asks the server to clear the field.
    let is_kept = || field.pointer || matches!(field.of, Type::Struct { .. }) || field.name == "managedFields";
    !field.always && (value.is_null() || (is_empty(value) && !is_kept()))
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Number(value) => value.as_f64() == Some(0.0),
        Json::String(value) => value.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
    }
}
