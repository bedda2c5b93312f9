//! Reads numbers that `serde_json` represents as maps.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess};
use serde_json::Number;

/// A serde map that represents an object or a number. To read such a map, call [`MapOrNumber::of`] in `visit_map`.
///
/// With its feature `arbitrary_precision`, `serde_json` passes a number to a visitor as a map. This map contains a
/// special key with the text of the number. Any crate in the build can enable `arbitrary_precision`. `serde_json` then
/// treats every object with this special key as a number, and rejects the object if the text is not a number. Without
/// `arbitrary_precision`, an object with this key is an ordinary object.
#[derive(Debug)]
pub enum MapOrNumber<'de, A> {
    /// The members of an object.
    Map(PeekedMap<'de, A>),
    /// A number.
    Number(Number),
}

/// The key with which `serde_json` represents a number as a map.
const KEY: &str = "$serde_json::private::Number";

/// Whether the feature `arbitrary_precision` of `serde_json` is enabled. With this feature, `serde_json` stores
/// numbers as text, so `1.0` and `1.00` differ.
static NUMBERS_ARE_MAPS: LazyLock<bool> =
    LazyLock::new(|| "1.0".parse::<Number>().ok() != "1.00".parse::<Number>().ok());

impl<'de, A: MapAccess<'de>> MapOrNumber<'de, A> {
    /// Reads a map. With `serde_json`'s feature `arbitrary_precision`, the first key determines whether the map
    /// represents a number.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be read, or if the value of the special key is not a number.
    pub fn of(from: A) -> Result<Self, A::Error> {
        Self::peek(from, *NUMBERS_ARE_MAPS)
    }

    /// Like [`of`](Self::of), but checks the first key only if `numbers_are_maps` is true.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`of`](Self::of).
    pub fn peek(mut from: A, numbers_are_maps: bool) -> Result<Self, A::Error> {
        let first = if numbers_are_maps { from.next_key()? } else { None };
        match first {
            Some(NumberKey(key)) if key == KEY => {
                let NumberKey(text) = from.next_value()?;
                text.parse().map(Self::Number).map_err(A::Error::custom)
            }
            first => Ok(Self::Map(PeekedMap { first, rest: from })),
        }
    }
}

/// The members of a map whose first key may already have been read.
#[derive(Debug)]
pub struct PeekedMap<'de, A> {
    first: Option<NumberKey<'de>>,
    rest: A,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct NumberKey<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PeekedMap<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(NumberKey(Cow::Borrowed(key))) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            Some(NumberKey(Cow::Owned(key))) => seed.deserialize(key.into_deserializer()).map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error, MapDeserializer};

    use super::*;
    use crate::{Json, json};

    fn peek(members: &[(&'static str, &str)], numbers_are_maps: bool) -> Result<Json, Error> {
        let members = MapDeserializer::new(members.iter().map(|(key, text)| (*key, (*text).to_owned())));
        MapOrNumber::peek(members, numbers_are_maps).and_then(super::super::from_map_or_number)
    }

    #[test]
    fn number_passed_as_a_map_is_a_number() {
        for text in ["1", "-7", "1.5", "18446744073709551615"] {
            assert_eq!(peek(&[(KEY, text)], true), Ok(Json::Number(text.parse().unwrap())));
        }
        assert!(peek(&[(KEY, "x")], true).is_err());
        assert_eq!(peek(&[("a", "1"), (KEY, "2")], true), Ok(json!({"a": "1", (KEY): "2"})));
        assert_eq!(peek(&[], true), Ok(json!({})));
    }

    #[test]
    fn object_with_number_key_is_kept_without_the_feature() {
        assert_eq!(peek(&[(KEY, "1")], false), Ok(json!({(KEY): "1"})));
        let read: Json = serde_json::from_str(r#"{"$serde_json::private::Number": "1"}"#).unwrap();
        assert_eq!(read, if *NUMBERS_ARE_MAPS { json!(1) } else { json!({(KEY): "1"}) });
    }
}
