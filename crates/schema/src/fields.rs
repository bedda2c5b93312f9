//! Reads the fields of structs, and determines which fields Go's JSON encoder would write.

use pintle_json::{Json, Map};
use serde::de::MapAccess;

use super::finding::{FieldPath, PathSegment};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed};
use super::types::{Field, Scalar, Struct, Type};

const OBJECT_META: &str = "meta.ObjectMeta";

pub(super) struct StructFields<'r> {
    reader: &'r mut Reader,
    struct_type: &'r Struct,
    path: Option<&'r FieldPath<'r>>,
    seen: u128,
    /// Whether the same struct occurred earlier in the document. If `true`, `out` starts with the members of the
    /// earlier occurrence.
    is_repeated: bool,
    out: Map,
}

impl<'r> StructFields<'r> {
    pub(super) fn new(reader: &'r mut Reader, struct_type: &'r Struct, path: Option<&'r FieldPath<'r>>) -> Self {
        Self { reader, struct_type, path, seen: 0, is_repeated: false, out: Map::new() }
    }

    /// Uses the members of an earlier occurrence of the same struct, because Go decodes a repeated struct into the same
    /// memory.
    pub(super) fn starting_with(self, earlier: Option<Map>) -> Self {
        Self { is_repeated: earlier.is_some(), out: earlier.unwrap_or_default(), ..self }
    }

    pub(super) fn read_all<'de, A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        while let Some(Name(name)) = members.next_key()? {
            self.read_member(&name, &mut members)?;
        }
        Ok(Json::Object(self.into_members()))
    }

    pub(super) fn reader(&mut self) -> &mut Reader {
        self.reader
    }

    /// Reads the value of an object member, after the caller has read the name.
    pub(super) fn read_member<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let Some(index) = self.struct_type.field_index(name) else { return self.skip_unknown(name, members) };
        let field = &self.struct_type.fields[index];
        let path = FieldPath { parent: self.path, segment: PathSegment::Field(self.struct_type, field) };
        let bit = bit(index);
        if self.seen & bit != 0 {
            self.reader.report_duplicate(path);
        }
        let is_repeated = self.is_repeated || self.seen & bit != 0;
        self.seen |= bit;
        let earlier = if is_repeated { self.out.get_mut(&field.name) } else { None };
        let survives_null =
            !field.pointer && earlier.as_deref().is_some_and(|earlier| survives_null(&field.ty, earlier));
        let value = Typed { reader: self.reader, ty: &field.ty, path: Some(&path), earlier };
        match members.next_value_seed(Seed(value))? {
            None if survives_null => (),
            None if field.pointer => self.set(field, Json::Null, is_repeated),
            None => self.set(field, zero(&field.ty), is_repeated),
            Some(value) => self.set(field, value, is_repeated),
        }
        Ok(())
    }

    /// Returns the members that Go's JSON encoder writes for the fields read so far.
    pub(super) fn into_members(mut self) -> Map {
        for &index in self.struct_type.always.iter().filter(|&&index| self.seen & bit(index) == 0) {
            let field = &self.struct_type.fields[index];
            self.out.entry(&field.name).or_insert_with(|| unset_value(field));
        }
        self.out
    }

    fn skip_unknown<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let path = FieldPath { parent: self.path, segment: PathSegment::Member(name) };
        self.reader.report_unknown(path);
        members.next_value_seed(Seed(self.reader.untyped_sink(Some(&path)))).map(drop)
    }

    fn set(&mut self, field: &Field, value: Json, is_repeated: bool) {
        let earlier = if is_repeated { self.out.get_mut(&field.name) } else { None };
        let value = match (&field.ty, earlier, value) {
            // If a map field occurs twice, Go merges the second map into the first.
            (Type::Map(_), Some(Json::Object(earlier)), Json::Object(later)) => return earlier.extend(later),
            (_, _, value) => value,
        };
        let value = if value.is_null() && field.always { unset_value(field) } else { value };
        // Only an object's own empty `managedFields` is a request to clear the field.
        let is_in_template =
            self.struct_type.name == OBJECT_META && self.path.is_some_and(|path| path.parent.is_some());
        if !is_omitted(field, &value, !is_in_template) {
            self.out.insert(field.name.as_str(), value);
        } else if is_repeated {
            self.out.remove(&field.name);
        }
    }
}

/// Returns the bit of a field in [`StructFields::seen`]. A test of the type table checks that no struct has more than
/// 128 fields, so all bits fit into a `u128`.
fn bit(index: usize) -> u128 {
    u32::try_from(index).ok().and_then(|index| 1_u128.checked_shl(index)).unwrap_or_default()
}

/// Returns `true` if Go keeps a field's earlier value when the field occurs again as null. In Go, null clears lists,
/// maps, and values of most types that implement `Unmarshaler`.
pub(super) fn survives_null(ty: &Type, earlier: &Json) -> bool {
    match ty {
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
pub(super) fn zero(ty: &Type) -> Json {
    match ty {
        Type::Scalar(scalar) => scalar.zero(),
        Type::Struct { struct_type, .. } => {
            let always = struct_type.always.iter().map(|&index| &struct_type.fields[index]);
            Json::Object(always.map(|field| (field.name.as_str(), unset_value(field))).collect())
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => Json::Null,
    }
}

/// Returns the value that Go's JSON encoder writes for an unset field without `omitempty`.
fn unset_value(field: &Field) -> Json {
    if field.pointer { Json::Null } else { zero(&field.ty) }
}

/// Returns `true` if Go omits a field with this value. Go omits most empty values.
fn is_omitted(field: &Field, value: &Json, may_keep: bool) -> bool {
    // Go always writes an empty struct.
    let is_kept = || field.pointer || matches!(field.ty, Type::Struct { .. }) || (field.keeps_empty && may_keep);
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
