//! Reads whole objects: those of built-in kinds by their types, custom resources as they are but for their metadata.

use pintle_json::{Json, Map};
use serde::de::{MapAccess, SeqAccess};

use super::fields::{StructFields, zero};
use super::finding::{FieldPath, PathStep};
use super::reader::{Reader, Typed};
use super::sink::{Name, Seed, Single, Sink, shape};
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
                Some(said) => said.next(object.reader(), &mut members)?,
                None => object.next(&name, &mut members)?,
            }
        }
        Ok(Json::Object(object.finish()))
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
        // The definition's schema prunes the rest.
        let value = if name == "metadata" {
            reader.begin_metadata();
            let of = object_meta();
            let metadata = Typed { reader, of: &of, at: Some(&at), earlier: None };
            let metadata = members.next_value_seed(Seed(metadata))?;
            metadata.unwrap_or_else(|| zero(&of))
        } else {
            members.next_value_seed(Seed(reader.past(Some(&at))))?
        };
        out.insert(name, value);
        Ok(())
    }

    fn finish(self) -> Map {
        match self {
            Self::BuiltIn(fields) => fields.finish(),
            Self::Custom { out, .. } => out,
        }
    }
}

/// What an object says of its own type. Go finds it in any letter case.
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
    /// How many there were.
    texts: usize,
    /// What there was that is no text.
    wrong: Option<&'static str>,
}

impl Said {
    fn nothing(name: &'static str) -> Self {
        Self { name, text: String::new(), texts: 0, wrong: None }
    }

    fn next<'de, A: MapAccess<'de>>(&mut self, reader: &mut Reader, members: &mut A) -> Result<(), A::Error> {
        match members.next_value_seed(Seed(reader.past(None)))? {
            Json::Null => (),
            Json::String(text) => {
                self.text = text.to_string();
                self.texts += 1;
                // Of two, it is told at the end of the object.
                if self.texts > 2 {
                    reader.repeated(self.at());
                }
            }
            other => drop(self.wrong.get_or_insert(shape(&other))),
        }
        Ok(())
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
        if self.texts > 1 {
            reader.repeated(self.at());
        }
        Ok(self.text)
    }

    fn at(&self) -> FieldPath<'static> {
        FieldPath { above: None, step: PathStep::Member(self.name) }
    }
}
