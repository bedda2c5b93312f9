//! The JSON value, with the members of an object, which are also values.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Number;

use crate::text::Text;
use crate::write::{to_vec, to_vec_pretty};

/// Any JSON value.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Map),
}

/// The members of a JSON object, sorted by key.
///
/// Maps of up to 32 members are sorted lists, because most objects have few members. Larger maps are trees. Inserting
/// `n` members in any order takes O(`n` log `n`) time.
#[derive(Clone)]
pub struct Map(pub(crate) MapLayout);

#[derive(Clone)]
pub(crate) enum MapLayout {
    /// A list of the members, sorted by key without duplicates.
    List(Vec<(Text, Json)>),
    #[expect(clippy::box_collection, reason = "keeps a map as small as a list")]
    Tree(Box<BTreeMap<Text, Json>>),
}

impl Json {
    /// Returns `true` if the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns `true` if the value is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Returns `true` if the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns `true` if the value is an integer in the range of `i64`.
    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_i64())
    }

    /// Returns `true` if the value is an integer in the range of `u64`.
    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_u64())
    }

    /// Returns `true` if the value is a number with a decimal point or an exponent.
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_f64())
    }

    /// Returns `true` if the value is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Returns `true` if the value is an array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns `true` if the value is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns the boolean, or `None` for other values.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value as an `i64`, or `None` if it is not an integer in this range.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// Returns the value as a `u64`, or `None` if it is not an integer in this range.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Returns the number as an `f64`, rounded if necessary, or `None` for other values.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the string, or `None` for other values.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items of an array, or `None` for other values.
    pub fn as_array(&self) -> Option<&Vec<Json>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns a mutable reference to the items of an array, or `None` for other values.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Json>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the members of an object, or `None` for other values.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns a mutable reference to the members of an object, or `None` for other values.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the value, and leaves `null` in its place.
    pub fn take(&mut self) -> Json {
        std::mem::take(self)
    }
}

/// Writes JSON without spaces, with object members sorted by key. The alternate form `{:#}` writes
/// indented JSON.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { to_vec_pretty(self) } else { to_vec(self) };
        f.write_str(&text.ok().and_then(|text| String::from_utf8(text).ok()).ok_or(fmt::Error)?)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}
