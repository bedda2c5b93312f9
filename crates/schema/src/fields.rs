//! Reads the fields of structs, and knows what Go writes of them.

use pintle_json::{Json, Map};
use serde::de::MapAccess;

use super::finding::{FieldPath, PathStep};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed};
use super::types::{Field, Scalar, Struct, Type};

/// The fields of a struct, as far as they have come.
pub(super) struct StructFields<'r> {
    reader: &'r mut Reader,
    of: &'r Struct,
    at: Option<&'r FieldPath<'r>>,
    /// Which fields have come, a bit each.
    come: u128,
    /// Whether the struct stood there before, so that `out` begins with what it had then.
    again: bool,
    out: Map,
}

impl<'r> StructFields<'r> {
    pub(super) fn new(reader: &'r mut Reader, of: &'r Struct, at: Option<&'r FieldPath<'r>>) -> Self {
        Self { reader, of, at, come: 0, again: false, out: Map::new() }
    }

    /// Those of a struct that may stand there already. Go reads a repeated one into the same memory.
    pub(super) fn over(self, earlier: Option<Map>) -> Self {
        Self { again: earlier.is_some(), out: earlier.unwrap_or_default(), ..self }
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

    /// Reads the value of the member that has come.
    pub(super) fn next<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let Some(place) = self.of.place(name) else { return self.past(name, members) };
        let field = &self.of.fields[place];
        let at = FieldPath { above: self.at, step: PathStep::Field(self.of, field) };
        let bit = bit(place);
        if self.come & bit != 0 {
            self.reader.repeated(at);
        }
        let again = self.again || self.come & bit != 0;
        self.come |= bit;
        let earlier = if again { self.out.get_mut(&field.name) } else { None };
        let outlasts_null =
            !field.pointer && earlier.as_deref().is_some_and(|earlier| outlasts_null(&field.of, earlier));
        let value = Typed { reader: self.reader, of: &field.of, at: Some(&at), earlier };
        match members.next_value_seed(Seed(value))? {
            None if outlasts_null => (),
            None if field.pointer => self.put(field, Json::Null, again),
            None => self.put(field, zero(&field.of), again),
            Some(value) => self.put(field, value, again),
        }
        Ok(())
    }

    /// What Go writes of a struct in which only these fields were set.
    pub(super) fn finish(mut self) -> Map {
        for &place in self.of.always.iter().filter(|&&place| self.come & bit(place) == 0) {
            let field = &self.of.fields[place];
            self.out.entry(&field.name).or_insert_with(|| unset(field));
        }
        self.out
    }

    /// A member that is no field.
    fn past<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let at = FieldPath { above: self.at, step: PathStep::Member(name) };
        self.reader.unknown(at);
        members.next_value_seed(Seed(self.reader.past(Some(&at)))).map(drop)
    }

    fn put(&mut self, field: &Field, value: Json, again: bool) {
        let earlier = if again { self.out.get_mut(&field.name) } else { None };
        let value = match (&field.of, earlier, value) {
            // Go puts the entries of a repeated map into the one that is there.
            (Type::Map(_), Some(Json::Object(earlier)), Json::Object(later)) => return earlier.extend(later),
            (_, _, value) => value,
        };
        let value = if value.is_null() && field.always { unset(field) } else { value };
        if !is_left_out(field, &value) {
            self.out.insert(field.name.clone(), value);
        } else if again {
            self.out.remove(&field.name);
        }
    }
}

/// No struct has more fields than there are bits; a test of the table holds that.
fn bit(place: usize) -> u128 {
    u32::try_from(place).ok().and_then(|place| 1_u128.checked_shl(place)).unwrap_or_default()
}

/// Whether Go leaves a value alone where null follows it. It empties lists, maps and most of what reads itself.
pub(super) fn outlasts_null(of: &Type, earlier: &Json) -> bool {
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

/// What Go writes for a value that was never set.
pub(super) fn zero(of: &Type) -> Json {
    match of {
        Type::Scalar(scalar) => scalar.zero(),
        Type::Struct { of, .. } => {
            let always = of.always.iter().map(|&place| &of.fields[place]);
            Json::Object(always.map(|field| (field.name.clone(), unset(field))).collect())
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => Json::Null,
    }
}

/// The same for a field that is always written.
fn unset(field: &Field) -> Json {
    if field.pointer { Json::Null } else { zero(&field.of) }
}

/// Whether Go does not write a field of this value: the empty one, of most.
fn is_left_out(field: &Field, value: &Json) -> bool {
    // An empty struct is not empty to Go; and an empty list of managers is an order to forget them.
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
