//! Deserializes other types from a [`Json`] value.

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use crate::json::Json;

/// Implements methods that forward the requested type to the deserializer of a number. If the number is stored as
/// text, it needs the requested type to parse the text.
macro_rules! forward_number {
    ($($deserialize:ident)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self {
                Json::Number(number) => number.$deserialize(visitor),
                other => other.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> IntoDeserializer<'de, Error> for &'de Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Json {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Number(number) => number.deserialize_any(visitor),
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => {
                let mut from = SeqDeserializer::new(items.iter());
                let value = visitor.visit_seq(&mut from)?;
                from.end()?;
                Ok(value)
            }
            Json::Object(members) => {
                let mut from = MapDeserializer::new(members.iter().map(|(key, value)| (key.as_str(), value)));
                let value = visitor.visit_map(&mut from)?;
                from.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Json::Object(members) => {
                let members = members.iter().map(|(key, value)| (key.as_str(), value));
                MapAccessDeserializer::new(MapDeserializer::new(members)).deserialize_enum(name, variants, visitor)
            }
            Json::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            other => other.deserialize_any(visitor),
        }
    }

    forward_number! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }

    forward_to_deserialize_any! {
        bool char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
