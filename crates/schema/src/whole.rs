//! Reads whole objects. A built-in kind's type determines how an object is read. For a custom resource, only the metadata has a type.

use pintle_json::{Json, Map};
use serde::de::{Error, MapAccess, SeqAccess};

use super::fields::{StructFields, zero};
use super::finding::{FieldPath, PathStep};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed, Single, Sink, shape, take};
use super::{Schema, object_meta};
use crate::types::Type;

/// A [`Sink`] for a whole object. A value that is not an object is returned unchanged.
pub(super) struct Whole<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) schema: &'r Schema,
    /// If set, receives `apiVersion` and `kind`. The returned object then lacks both members.
    pub(super) type_meta: Option<&'r mut TypeMeta>,
}

impl Sink for Whole<'_> {
    type Out = Json;

    fn single(self, found: Single<'_>) -> Json {
        self.reader.untyped_sink(None).single(found)
    }

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<Json, A::Error> {
        self.reader.untyped_sink(None).list(items)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Object::of(self.schema, self.reader);
        while let Some(Name(name)) = members.next_key()? {
            match self.type_meta.as_mut().and_then(|meta| meta.named(&name)) {
                Some(field) if field.name == name => field.next(object.reader(), &mut members)?,
                Some(field) => object.next_case_variant(&name, field, &mut members)?,
                None => object.next(&name, &mut members)?,
            }
        }
        object.finish().map(Json::Object)
    }
}

enum Object<'r> {
    BuiltIn(StructFields<'r>),
    Custom { reader: &'r mut Reader, out: Map },
}

impl<'r> Object<'r> {
    fn of(schema: &'r Schema, reader: &'r mut Reader) -> Self {
        match schema.root() {
            Type::Struct { of, .. } if !schema.is_custom() => Self::BuiltIn(StructFields::new(reader, of, None)),
            _ => Self::Custom { reader, out: Map::new() },
        }
    }

    fn reader(&mut self) -> &mut Reader {
        match self {
            Self::BuiltIn(fields) => fields.reader(),
            Self::Custom { reader, .. } => reader,
        }
    }

    fn next<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        let (reader, out) = match self {
            Self::BuiltIn(fields) => return fields.next(name, members),
            Self::Custom { reader, out } => (&mut **reader, out),
        };
        let at = FieldPath { parent: None, step: PathStep::Member(name) };
        if out.contains_key(name) {
            reader.repeated(at);
        }
        let value = members.next_value_seed(Seed(reader.untyped_sink(Some(&at))))?;
        out.insert(name, value);
        Ok(())
    }

    /// Reads a member whose name differs from `apiVersion` or `kind` only in case. The member is reported as an
    /// unknown field, but Go still uses its value for a built-in kind. A value of the wrong type is always an error.
    fn next_case_variant<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        field: &mut TypeMetaField,
        members: &mut A,
    ) -> Result<(), A::Error> {
        match self {
            Self::BuiltIn(fields) => {
                fields.reader().unknown(FieldPath { parent: None, step: PathStep::Member(name) });
                field.take(members.next_value_seed(Seed(fields.reader().untyped_sink(None)))?);
            }
            Self::Custom { .. } => {
                self.next(name, members)?;
                let Self::Custom { out, .. } = self else { return Ok(()) };
                field.note_shape(&out[name]);
            }
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Map, E> {
        let (reader, mut out) = match self {
            Self::BuiltIn(fields) => return Ok(fields.finish()),
            Self::Custom { reader, out } => (reader, out),
        };
        // Go decodes a custom resource into a map, which contains the last value of a duplicate member. Go then reads
        // the metadata from the map. All other members are pruned later, according to the schema in the definition.
        if let Some(metadata) = out.get_mut("metadata") {
            let (of, at) = (object_meta(), FieldPath { parent: None, step: PathStep::Member("metadata") });
            let typed = Typed { reader, of: &of, at: Some(&at), earlier: None };
            *metadata = take(&*metadata, typed).map_err(E::custom)?.unwrap_or_else(|| zero(&of));
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

/// The values found so far for `apiVersion` or `kind`.
pub(super) struct TypeMetaField {
    name: &'static str,
    /// The last string value.
    text: String,
    /// The number of members with exactly this name.
    count: usize,
    /// The JSON type of the first value that is not a string.
    wrong_shape: Option<&'static str>,
}

impl TypeMetaField {
    fn new(name: &'static str) -> Self {
        Self { name, text: String::new(), count: 0, wrong_shape: None }
    }

    fn next<'de, A: MapAccess<'de>>(&mut self, reader: &mut Reader, members: &mut A) -> Result<(), A::Error> {
        self.take(members.next_value_seed(Seed(reader.untyped_sink(None)))?);
        self.count += 1;
        // Count a duplicate member here, and report it at the end of the object.
        if self.count > 2 {
            reader.repeated(self.at());
        }
        Ok(())
    }

    fn take(&mut self, value: Json) {
        self.note_shape(&value);
        if let Json::String(text) = value {
            self.text = text.to_string();
        }
    }

    fn note_shape(&mut self, value: &Json) {
        if !matches!(value, Json::Null | Json::String(_)) {
            self.wrong_shape.get_or_insert(shape(value));
        }
    }

    /// Returns the field's text, or an empty string if the field is absent. Call this method after the whole object was read.
    ///
    /// # Errors
    ///
    /// Fails if one of the field's values is not a string.
    pub(super) fn text(self, reader: &mut Reader) -> Result<String, String> {
        if let Some(shape) = self.wrong_shape {
            return Err(format!("json: cannot unmarshal {shape} into Go struct field .{} of type string", self.name));
        }
        if self.count > 1 {
            reader.repeated(self.at());
        }
        Ok(self.text)
    }

    fn at(&self) -> FieldPath<'static> {
        FieldPath { parent: None, step: PathStep::Member(self.name) }
    }
}
