//! Serializes [`Json`] values, and converts serializable values to [`Json`].

mod keys;

use serde::ser::{self, Serialize, Serializer};
use serde_json::Error;

use crate::de::KEY;
use crate::json::Json;
use crate::map::Map;
use crate::text::Text;
use keys::KeySerializer;

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Number(number) => number.serialize(to),
            Self::String(text) => to.serialize_str(text),
            Self::Array(items) => to.collect_seq(items),
            Self::Object(members) => members.serialize(to),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

/// Converts a serializable value to [`Json`].
///
/// # Errors
/// Returns an error if the value's `Serialize` implementation fails, or if a map has a key other than a string, an
/// integer, a boolean, a char or a unit variant.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Json, Error> {
    value.serialize(JsonSerializer)
}

macro_rules! plain {
    ($($name:ident $of:ty),*) => {$(
        fn $name(self, value: $of) -> Result<Json, Error> {
            Ok(value.into())
        }
    )*};
}

struct JsonSerializer;

impl Serializer for JsonSerializer {
    type Ok = Json;
    type Error = Error;
    type SerializeSeq = ItemsSerializer;
    type SerializeTuple = ItemsSerializer;
    type SerializeTupleStruct = ItemsSerializer;
    type SerializeTupleVariant = ItemsSerializer;
    type SerializeMap = MembersSerializer;
    type SerializeStruct = MembersSerializer;
    type SerializeStructVariant = MembersSerializer;

    plain! {
        serialize_bool bool, serialize_str &str, serialize_f32 f32, serialize_f64 f64,
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64
    }

    fn serialize_char(self, value: char) -> Result<Json, Error> {
        Ok(value.encode_utf8(&mut [0; 4]).to_owned().into())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Json, Error> {
        Ok(value.iter().copied().collect())
    }

    fn serialize_none(self) -> Result<Json, Error> {
        Ok(Json::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Json, Error> {
        to_json(value)
    }

    fn serialize_unit(self) -> Result<Json, Error> {
        Ok(Json::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Json, Error> {
        Ok(Json::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Json, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Json, Error> {
        to_json(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Json, Error> {
        Ok(variant_of(Some(variant), to_json(value)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ItemsSerializer, Error> {
        // Limit the capacity, because a `Serialize` implementation may announce a wrong length.
        Ok(ItemsSerializer { items: Vec::with_capacity(len.unwrap_or(0).min(4096)), variant: None })
    }

    fn serialize_tuple(self, len: usize) -> Result<ItemsSerializer, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<ItemsSerializer, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<ItemsSerializer, Error> {
        Ok(ItemsSerializer { variant: Some(variant), ..self.serialize_seq(Some(len))? })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MembersSerializer, Error> {
        Ok(MembersSerializer::default())
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<MembersSerializer, Error> {
        Ok(MembersSerializer { is_number: name == KEY, ..MembersSerializer::default() })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<MembersSerializer, Error> {
        Ok(MembersSerializer { variant: Some(variant), ..MembersSerializer::default() })
    }
}

/// Returns the JSON of an enum variant with content: an object whose only key is the variant's name.
fn variant_of(variant: Option<&'static str>, value: Json) -> Json {
    match variant {
        Some(variant) => Json::Object([(variant, value)].into_iter().collect()),
        None => value,
    }
}

struct ItemsSerializer {
    items: Vec<Json>,
    variant: Option<&'static str>,
}

impl ItemsSerializer {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.items.push(to_json(value)?);
        Ok(())
    }

    fn finish(self) -> Json {
        variant_of(self.variant, Json::Array(self.items))
    }
}

/// Implements the serde traits for sequences, whose only difference is the names of their methods.
macro_rules! items {
    ($($kind:ident $add:ident),*) => {$(
        impl ser::$kind for ItemsSerializer {
            type Ok = Json;
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.push(value)
            }

            fn end(self) -> Result<Json, Error> {
                Ok(self.finish())
            }
        }
    )*};
}

items!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

#[derive(Default)]
struct MembersSerializer {
    members: Map,
    key: Text,
    variant: Option<&'static str>,
    /// Whether the struct is a number that `serde_json` stores as text.
    is_number: bool,
}

impl MembersSerializer {
    fn finish(self) -> Json {
        if let Some(number) =
            self.members.get(KEY).filter(|_| self.is_number).and_then(|text| text.as_str()?.parse().ok())
        {
            return Json::Number(number);
        }
        variant_of(self.variant, Json::Object(self.members))
    }
}

impl ser::SerializeMap for MembersSerializer {
    type Ok = Json;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = key.serialize(KeySerializer)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.members.insert(std::mem::take(&mut self.key), to_json(value)?);
        Ok(())
    }

    fn end(self) -> Result<Json, Error> {
        Ok(self.finish())
    }
}

/// Implements the serde traits for structs, whose only difference is the names of their methods.
macro_rules! members {
    ($($kind:ident),*) => {$(
        impl ser::$kind for MembersSerializer {
            type Ok = Json;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.members.insert(key, to_json(value)?);
                Ok(())
            }

            fn end(self) -> Result<Json, Error> {
                Ok(self.finish())
            }
        }
    )*};
}

members!(SerializeStruct, SerializeStructVariant);
