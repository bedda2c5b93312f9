//! Reads values of known types, and determines which fields Go's JSON encoder would write.

use pintle_json::{Json, Map};
use serde::de::{MapAccess, SeqAccess};

use super::finding::{FieldPath, PathSegment};
use super::go_zero::{is_omitted, survives_null, unset_value, zero};
use super::quantity::WRONG_FORM;
use super::reader::{Reader, Untyped};
use super::scalar::ScalarError;
use super::sink::{Name, Primitive, Seed, Sink};
use super::types::{Field, Scalar, Struct, Type, Union};

const OBJECT_META: &str = "meta.ObjectMeta";
const NO_SCHEMA_OR_BOOL: &str = "boolean or JSON schema expected";

/// A [`Sink`] for a value of a known type. The result is `None` if the value is null.
pub(super) struct Typed<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) ty: &'r Type,
    pub(super) path: Option<&'r FieldPath<'r>>,
    /// The value from an earlier occurrence of the same struct field or list item. As in Go, a repeated struct is
    /// decoded into the fields of the earlier struct.
    pub(super) earlier: Option<&'r mut Json>,
}

impl Sink for Typed<'_> {
    type Out = Option<Json>;

    fn primitive(mut self, found: Primitive<'_>) -> Option<Json> {
        let rejected = match (found, self.ty) {
            (Primitive::Null, _) => return None,
            (found, Type::Any) => return Some(found.into_value()),
            (Primitive::Bool(value), Type::Union(Union::Bool)) => return Some(value.into()),
            (_, Type::Union(Union::Bool)) => ScalarError::Form(NO_SCHEMA_OR_BOOL.into()),
            // Go ignores the value and keeps an empty union, which it writes as null.
            (_, Type::Union(_)) => return None,
            (found, Type::Scalar(scalar)) => match scalar.read(found) {
                Ok(value) => return Some(value),
                Err(rejected) => rejected,
            },
            (found, _) => ScalarError::Type(found),
        };
        match (rejected, self.ty) {
            (ScalarError::Form(text), ty) => self.reader.fail(ty, || text),
            (
                ScalarError::Type(Primitive::Number(number)),
                Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString),
            ) => self.mismatch(&format!("number {number}")),
            (ScalarError::Type(found), _) => self.mismatch(found.json_type()),
        }
        None
    }

    fn list<'de, A: SeqAccess<'de>>(mut self, items: A) -> Result<Option<Json>, A::Error> {
        match self.ty {
            Type::List(list) => self.items(&list.item, items),
            Type::Union(Union::List) => {
                self.reader.lenient += 1;
                let reader = &mut *self.reader;
                let list = Typed { reader, ty: self.ty, path: self.path, earlier: None }.items(&json_schema(), items);
                self.reader.lenient -= 1;
                list
            }
            Type::Union(Union::Strings) => self.without_earlier().items(&Type::Scalar(Scalar::String), items),
            Type::Any => self.untyped().list(items),
            Type::Scalar(Scalar::Raw) => self.reader.untyped_sink(self.path).list(items),
            _ => {
                if let Type::Union(Union::Bool) = self.ty {
                    self.reader.fail(self.ty, || NO_SCHEMA_OR_BOOL.into());
                } else {
                    self.mismatch("array");
                }
                self.reader.untyped_sink(self.path).list(items)
            }
        }
        .map(Some)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, members: A) -> Result<Option<Json>, A::Error> {
        match self.ty {
            Type::Struct { struct_type, .. } => {
                let earlier = self.earlier.and_then(Json::as_object_mut).map(std::mem::take);
                StructFields::new(self.reader, struct_type, self.path).starting_with(earlier).read_all(members)
            }
            Type::Map(map) => self.entries(&map.value, members),
            Type::Union(_) => {
                self.reader.lenient += 1;
                let reader = &mut *self.reader;
                let schema = Typed { reader, ty: &json_schema(), path: self.path, earlier: None }.map(members);
                self.reader.lenient -= 1;
                return schema;
            }
            Type::Any => self.untyped().map(members),
            Type::Scalar(Scalar::Raw) => self.reader.untyped_sink(self.path).map(members),
            _ => {
                self.mismatch("object");
                self.reader.untyped_sink(self.path).map(members)
            }
        }
        .map(Some)
    }
}

impl<'r> Typed<'r> {
    fn untyped(self) -> Untyped<'r> {
        self.reader.untyped_sink(self.path)
    }

    fn without_earlier(self) -> Self {
        Self { earlier: None, ..self }
    }

    /// Reads the items of a list. As in Go, decodes the items of a repeated list into the earlier items.
    fn items<'de, A: SeqAccess<'de>>(self, ty: &Type, mut items: A) -> Result<Json, A::Error> {
        let mut earlier = self.earlier.and_then(Json::as_array_mut).map(std::mem::take).unwrap_or_default();
        let mut cut_off = self.reader.take_cut_off(self.path, !earlier.is_empty());
        let mut list = Vec::new();
        loop {
            let index = list.len();
            if index == earlier.len() {
                earlier.extend(cut_off.pop());
            }
            let path = FieldPath { parent: self.path, segment: PathSegment::Item(index) };
            let survives_null = earlier.get(index).is_some_and(|item| survives_null(ty, item));
            let item = Seed(Typed { reader: self.reader, ty, path: Some(&path), earlier: earlier.get_mut(index) });
            match items.next_element_seed(item)? {
                Some(None) if survives_null => list.extend(earlier.get_mut(index).map(std::mem::take)),
                Some(item) => list.push(item.unwrap_or_else(|| zero(ty))),
                None => break,
            }
        }
        // For an empty list, Go creates a new slice and discards the earlier items.
        if !list.is_empty() {
            cut_off.extend(earlier.drain(list.len().min(earlier.len())..).rev());
            self.reader.keep_cut_off(self.path, cut_off);
        }
        Ok(list.into())
    }

    fn entries<'de, A: MapAccess<'de>>(self, ty: &Type, mut members: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let path = FieldPath { parent: self.path, segment: PathSegment::Member(&name) };
            if out.contains_key(&name) {
                self.reader.report_duplicate(path);
            }
            let value = Typed { reader: self.reader, ty, path: Some(&path), earlier: None };
            let value = members.next_value_seed(Seed(value))?;
            let value = match ty {
                Type::Scalar(Scalar::Bytes) => value.unwrap_or_else(|| "".into()),
                ty => value.unwrap_or_else(|| zero(ty)),
            };
            out.insert(name, value);
        }
        Ok(Json::Object(out))
    }

    fn mismatch(&mut self, found: &str) {
        let (ty, path) = (self.ty, self.path);
        if let Type::Scalar(Scalar::Quantity | Scalar::ResourceQuantity) = ty {
            return self.reader.fail(ty, || WRONG_FORM.into());
        }
        self.reader.fail(ty, || {
            let go_path = path.and_then(FieldPath::go_path);
            let target = go_path.map_or_else(|| "value".into(), |path| format!("struct field {path}"));
            format!("json: cannot unmarshal {found} into Go {target} of type {}", go_type(ty))
        });
    }
}

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
        let is_lost = value.is_null() || self.reader.nulls_empty_lists && value.as_array().is_some_and(Vec::is_empty);
        let value = if is_lost && field.always { unset_value(field) } else { value };
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

fn json_schema() -> Type {
    super::named("apiextensions.JSONSchemaProps")
}

fn go_type(ty: &Type) -> String {
    match ty {
        Type::Any => "interface {}".into(),
        Type::Scalar(scalar) => scalar.go_name().into(),
        Type::Struct { struct_type, .. } => struct_type.go_name(),
        Type::Map(map) => format!("map[string]{}", go_type(&map.value)),
        Type::List(list) => format!("[]{}", go_type(&list.item)),
        Type::Union(_) => "v1.JSONSchemaProps".into(),
    }
}
