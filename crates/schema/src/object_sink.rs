//! Reads whole objects. In a custom resource, only the `metadata` has a type.

use pintle_json::{Json, Map};
use serde::de::{Error, MapAccess, SeqAccess};

use super::finding::{FieldPath, PathSegment};
use super::go_zero::zero;
use super::reader::Reader;
use super::sink::{Name, Primitive, Seed, Sink, feed};
use super::typed::{StructFields, Typed};
use super::{Schema, object_meta};
use crate::types::Type;

/// A [`Sink`] for a whole object. A value that is not an object is returned unchanged.
pub(super) struct ObjectSink<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) schema: &'r Schema,
    /// If set, `apiVersion` and `kind` are stored here and removed from the returned object.
    pub(super) type_meta: Option<&'r mut TypeMeta>,
}

impl Sink for ObjectSink<'_> {
    type Out = Json;

    fn primitive(self, found: Primitive<'_>) -> Json {
        self.reader.untyped_sink(None).primitive(found)
    }

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<Json, A::Error> {
        self.reader.untyped_sink(None).list(items)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        let mut object = ObjectMembers::new(self.schema, self.reader);
        while let Some(Name(name)) = members.next_key()? {
            match self.type_meta.as_mut().and_then(|meta| meta.named(&name)) {
                Some(field) if field.name == name => field.read_value(object.reader(), &mut members)?,
                Some(field) => object.read_case_variant(&name, field, &mut members)?,
                None => object.read_member(&name, &mut members)?,
            }
        }
        object.into_members().map(Json::Object)
    }
}

enum ObjectMembers<'r> {
    BuiltIn(StructFields<'r>),
    Custom { reader: &'r mut Reader, out: Map },
}

impl<'r> ObjectMembers<'r> {
    fn new(schema: &'r Schema, reader: &'r mut Reader) -> Self {
        match schema.root() {
            Type::Struct { struct_type, .. } if !schema.is_custom() => {
                Self::BuiltIn(StructFields::new(reader, struct_type, None))
            }
            _ => Self::Custom { reader, out: Map::new() },
        }
    }

    fn reader(&mut self) -> &mut Reader {
        match self {
            Self::BuiltIn(fields) => fields.reader(),
            Self::Custom { reader, .. } => reader,
        }
    }

    fn read_member<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let (reader, out) = match self {
            Self::BuiltIn(fields) => return fields.read_member(name, members),
            Self::Custom { reader, out } => (&mut **reader, out),
        };
        let path = FieldPath { parent: None, segment: PathSegment::Member(name) };
        if out.contains_key(name) {
            reader.report_duplicate(path);
        }
        let value = members.next_value_seed(Seed(reader.untyped_sink(Some(&path))))?;
        out.insert(name, value);
        Ok(())
    }

    /// Reads a member whose name differs from `apiVersion` or `kind` only in case. Such a member is reported as an
    /// unknown field, but Go uses its value for built-in kinds. Decoding fails if the member's value has the wrong
    /// type.
    fn read_case_variant<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        field: &mut TypeMetaField,
        members: &mut A,
    ) -> Result<(), A::Error> {
        match self {
            Self::BuiltIn(fields) => {
                fields.reader().report_unknown(FieldPath { parent: None, segment: PathSegment::Member(name) });
                field.set(members.next_value_seed(Seed(fields.reader().untyped_sink(None)))?);
            }
            Self::Custom { .. } => {
                self.read_member(name, members)?;
                let Self::Custom { out, .. } = self else { return Ok(()) };
                field.check_is_string(&out[name]);
            }
        }
        Ok(())
    }

    fn into_members<E: Error>(self) -> Result<Map, E> {
        let (reader, mut out) = match self {
            Self::BuiltIn(fields) => return Ok(fields.into_members()),
            Self::Custom { reader, out } => (reader, out),
        };
        // Go first decodes a custom resource into a map, which keeps only the last value of a duplicate member. Go then
        // decodes `metadata` from this map, and later prunes all other members with the structural schema.
        if let Some(metadata) = out.get_mut("metadata") {
            let (ty, path) = (object_meta(), FieldPath { parent: None, segment: PathSegment::Member("metadata") });
            let typed = Typed { reader, ty: &ty, path: Some(&path), earlier: None };
            *metadata = feed(&*metadata, typed).map_err(E::custom)?.unwrap_or_else(|| zero(&ty));
        }
        Ok(out)
    }
}

pub(super) struct TypeMeta {
    pub(super) api_version: TypeMetaField,
    pub(super) kind: TypeMetaField,
}

impl TypeMeta {
    pub(super) fn new() -> Self {
        Self { api_version: TypeMetaField::new("apiVersion"), kind: TypeMetaField::new("kind") }
    }

    fn named(&mut self, name: &str) -> Option<&mut TypeMetaField> {
        [&mut self.api_version, &mut self.kind].into_iter().find(|field| field.name.eq_ignore_ascii_case(name))
    }
}

/// The values of the member `apiVersion` or `kind` that have been read so far.
pub(super) struct TypeMetaField {
    name: &'static str,
    /// The last value that is a string.
    text: String,
    /// The number of members whose name matches the field name exactly, including case.
    count: usize,
    /// The JSON type of the first value that is not a string or null.
    wrong_type: Option<&'static str>,
}

impl TypeMetaField {
    fn new(name: &'static str) -> Self {
        Self { name, text: String::new(), count: 0, wrong_type: None }
    }

    fn read_value<'de, A: MapAccess<'de>>(&mut self, reader: &mut Reader, members: &mut A) -> Result<(), A::Error> {
        self.set(members.next_value_seed(Seed(reader.untyped_sink(None)))?);
        self.count += 1;
        // Do not report the first duplicate here, because it is reported at the end of the object.
        if self.count > 2 {
            reader.report_duplicate(self.path());
        }
        Ok(())
    }

    fn set(&mut self, value: Json) {
        self.check_is_string(&value);
        if let Json::String(text) = value {
            self.text = text.to_string();
        }
    }

    fn check_is_string(&mut self, value: &Json) {
        if !matches!(value, Json::Null | Json::String(_)) {
            self.wrong_type.get_or_insert(value.type_name());
        }
    }

    /// Returns the value of the field, or an empty string if the field is absent. Call this method after the whole
    /// object has been read.
    ///
    /// # Errors
    ///
    /// Returns an error if any value of the field is not a string.
    pub(super) fn text(self, reader: &mut Reader) -> Result<String, String> {
        if let Some(found) = self.wrong_type {
            return Err(format!("json: cannot unmarshal {found} into Go struct field .{} of type string", self.name));
        }
        if self.count > 1 {
            reader.report_duplicate(self.path());
        }
        Ok(self.text)
    }

    fn path(&self) -> FieldPath<'static> {
        FieldPath { parent: None, segment: PathSegment::Member(self.name) }
    }
}
