//! Serializes [`Json`] values, and converts serializable values to [`Json`].

use serde::ser::{Serialize, Serializer};
use serde_json::Error;

use crate::json::{Json, Map};

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
/// Returns an error if the value's `Serialize` implementation fails, or if a map has a key that is not a string and
/// that `serde_json` cannot write as a string.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Json, Error> {
    serde_json::to_value(value).map(Json::from)
}
