//! Serializes object keys: strings, and values that can be written as text, such as integers.

use serde::ser::{Error as _, Impossible, Serialize, Serializer};
use serde_json::Error;

use crate::text::Text;

pub(super) struct KeySerializer;

fn no_key<T>() -> Result<T, Error> {
    Err(Error::custom("the key of an object must be a string"))
}

macro_rules! plain {
    ($($name:ident $of:ty),*) => {$(
        fn $name(self, value: $of) -> Result<Text, Error> {
            Ok(value.to_string().into())
        }
    )*};
}

/// Implements serializer methods for values that cannot be map keys.
macro_rules! rejected {
    ($($name:ident ($($argument:ty),*) -> $of:ty),*) => {$(
        fn $name(self $(, _: $argument)*) -> Result<$of, Error> {
            no_key()
        }
    )*};
}

type Never = Impossible<Text, Error>;

impl Serializer for KeySerializer {
    type Ok = Text;
    type Error = Error;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_str(self, value: &str) -> Result<Text, Error> {
        Ok(value.into())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Text, Error> {
        Ok(variant.into())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Text, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Text, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Text, Error> {
        no_key()
    }

    plain! {
        serialize_bool bool, serialize_char char,
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64
    }

    rejected! {
        serialize_f32(f32) -> Text, serialize_f64(f64) -> Text, serialize_bytes(&[u8]) -> Text,
        serialize_none() -> Text, serialize_unit() -> Text, serialize_unit_struct(&'static str) -> Text,
        serialize_seq(Option<usize>) -> Never, serialize_tuple(usize) -> Never, serialize_tuple_struct(&'static str, usize) -> Never,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never, serialize_map(Option<usize>) -> Never,
        serialize_struct(&'static str, usize) -> Never,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never
    }
}
