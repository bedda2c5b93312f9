//! Conversions and comparisons between `Json`, Rust values and `serde_json::Value`.

use std::borrow::Cow;

use serde_json::{Number, Value};

use crate::json::{Json, Map};
use crate::text::Text;

impl From<()> for Json {
    fn from((): ()) -> Self {
        Self::Null
    }
}

macro_rules! variants {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

variants!(bool => Bool, Number => Number, Text => String, Map => Object);

/// Converts a number. Infinity and NaN become `null`.
impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}

/// Converts a number. Infinity and NaN become `null`.
impl From<f32> for Json {
    fn from(value: f32) -> Self {
        f64::from(value).into()
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Json {
            fn from(value: $integer) -> Self {
                Self::Number(value.into())
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! texts {
    ($($text:ty)*) => {$(
        impl From<$text> for Json {
            fn from(text: $text) -> Self {
                Self::String(text.into())
            }
        }
    )*};
}

texts!(&str String &String &Text Cow<'_, str>);

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone + Into<Json>> From<&[T]> for Json {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Json>, const N: usize> From<[T; N]> for Json {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

/// Collects members into an object, keeping the last value of a repeated key.
impl<K: Into<Text>, V: Into<Json>> FromIterator<(K, V)> for Json {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self::Object(members.into_iter().collect())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => text.into(),
            Value::Array(items) => items.into(),
            Value::Object(members) => members.into_iter().collect(),
        }
    }
}

impl From<Json> for Value {
    fn from(value: Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::Number(number),
            Json::String(text) => Self::String(text.into()),
            Json::Array(items) => items.into_iter().collect(),
            Json::Object(members) => members.into_iter().map(|(key, value)| (String::from(key), value)).collect(),
        }
    }
}

impl PartialEq<str> for Json {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Json {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl PartialEq<Json> for &str {
    fn eq(&self, other: &Json) -> bool {
        other == self
    }
}

macro_rules! equal {
    ($($of:ty, |$value:ident, $other:ident| $equal:expr;)*) => {$(
        impl PartialEq<$of> for Json {
            fn eq(&self, $other: &$of) -> bool {
                let $value = self;
                $equal
            }
        }

        impl PartialEq<$of> for &Json {
            fn eq(&self, $other: &$of) -> bool {
                let $value = *self;
                $equal
            }
        }

        impl PartialEq<Json> for $of {
            fn eq(&self, $value: &Json) -> bool {
                let $other = self;
                $equal
            }
        }
    )*};
}

equal! {
    String, |value, other| value.as_str() == Some(other.as_str());
    bool, |value, other| value.as_bool() == Some(*other);
    i32, |value, other| value.as_i64() == Some(i64::from(*other));
    i64, |value, other| value.as_i64() == Some(*other);
    u16, |value, other| value.as_u64() == Some(u64::from(*other));
    u32, |value, other| value.as_u64() == Some(u64::from(*other));
    u64, |value, other| value.as_u64() == Some(*other);
    usize, |value, other| value.as_u64() == u64::try_from(*other).ok();
    f64, |value, other| value.as_f64() == Some(*other);
}
