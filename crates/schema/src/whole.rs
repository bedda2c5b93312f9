//! Reads whole objects: those of built-in kinds by their types, custom resources as they are but for their metadata.

use pintle_json::{Json, Map};
use serde::de::{Error, MapAccess, SeqAccess};

use super::fields::{StructFields, zero};
use super::finding::{FieldPath, PathStep};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed, Single, Sink, shape, take};
use super::{Schema, Type, object_meta};

/// Reads an object. What is none comes as it is.
pub(super) struct Whole<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) schema: &'r Schema,
    /// Where it is to be known what the object says of its own type, which is then taken out of it.
    pub(super) says: Option<&'r mut TypeMeta>,
}

impl Sink for Whole<'_> {
    type Out = Json;

    fn single(self, found: Single<'_>) -> Json {
        self.reader.past(None).single(found)
    }

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<Json, A::Error> {
        self.reader.past(None).list(items)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Object::of(self.schema, self.reader);
        while let Some(Name(name)) = members.next_key()? {
            match self.says.as_mut().and_then(|says| says.named(&name)) {
                Some(said) if said.name == name => said.next(object.reader(), &mut members)?,
                Some(said) => object.next_alike(&name, said, &mut members)?,
                None => object.next(&name, &mut members)?,
            }
        }
        object.finish().map(Json::Object)
    }
}

/// The members of an object, as far as they have come.
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
        let at = FieldPath { above: None, step: PathStep::Member(name) };
        if out.contains_key(name) {
            reader.repeated(at);
        }
        let value = members.next_value_seed(Seed(reader.past(Some(&at))))?;
        out.insert(name, value);
        Ok(())
    }

    /// Reads a member that is called as one of the two in which an object says its type, but for the letter case. It is no field; yet
    /// it counts as that one where Go finds out what is built in, and may be wrong everywhere.
    fn next_alike<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        said: &mut Said,
        members: &mut A,
    ) -> Result<(), A::Error> {
        match self {
            Self::BuiltIn(fields) => {
                fields.reader().unknown(FieldPath { above: None, step: PathStep::Member(name) });
                said.take(members.next_value_seed(Seed(fields.reader().past(None)))?);
            }
            Self::Custom { .. } => {
                self.next(name, members)?;
                let Self::Custom { out, .. } = self else { return Ok(()) };
                said.note_shape(&out[name]);
            }
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Map, E> {
        let (reader, mut out) = match self {
            Self::BuiltIn(fields) => return Ok(fields.finish()),
            Self::Custom { reader, out } => (reader, out),
        };
        // Go makes a map of all of it, in which the last of everything counts, and reads the metadata out of that. The rest the definition's
        // schema prunes.
        if let Some(metadata) = out.get_mut("metadata") {
            let (of, at) = (object_meta(), FieldPath { above: None, step: PathStep::Member("metadata") });
            let typed = Typed { reader, of: &of, at: Some(&at), earlier: None };
            *metadata = take(&*metadata, typed).map_err(E::custom)?.unwrap_or_else(|| zero(&of));
        }
        Ok(out)
    }
}

/// What an object says of its own type.
pub(super) struct TypeMeta {
    pub(super) api_version: Said,
    pub(super) kind: Said,
}

impl TypeMeta {
    pub(super) fn new() -> Self {
        Self { api_version: Said::nothing("apiVersion"), kind: Said::nothing("kind") }
    }

    fn named(&mut self, name: &str) -> Option<&mut Said> {
        [&mut self.api_version, &mut self.kind].into_iter().find(|said| said.name.eq_ignore_ascii_case(name))
    }
}

/// What it says in one of the two fields.
pub(super) struct Said {
    name: &'static str,
    /// The last text.
    text: String,
    /// How often the field stood there, under this very name.
    times: usize,
    /// What there was that is no text.
    wrong: Option<&'static str>,
}

impl Said {
    fn nothing(name: &'static str) -> Self {
        Self { name, text: String::new(), times: 0, wrong: None }
    }

    fn next<'de, A: MapAccess<'de>>(&mut self, reader: &mut Reader, members: &mut A) -> Result<(), A::Error> {
        self.take(members.next_value_seed(Seed(reader.past(None)))?);
        self.times += 1;
        // Of two, it is told at the end of the object.
        if self.times > 2 {
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
            self.wrong.get_or_insert(shape(value));
        }
    }

    /// The text, empty where there is none. At the end of the object.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub(super) fn text(self, reader: &mut Reader) -> Result<String, String> {
        if let Some(shape) = self.wrong {
            return Err(format!("json: cannot unmarshal {shape} into Go struct field .{} of type string", self.name));
        }
        if self.times > 1 {
            reader.repeated(self.at());
        }
        Ok(self.text)
    }

    fn at(&self) -> FieldPath<'static> {
        FieldPath { above: None, step: PathStep::Member(self.name) }
    }
}
