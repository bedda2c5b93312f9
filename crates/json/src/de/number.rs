//! Numbers that come as maps.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess};
use serde_json::Number;

/// What a visitor finds in what it was given as a map.
///
/// With its feature `arbitrary_precision`, which anybody may turn on for a whole build, `serde_json` gives numbers as maps: under one
/// key of its own stands the number as text. An object that has this key itself is one only where the feature is off. Where it is on,
/// it is that number, or an error: `serde_json` does not tell them apart either.
#[derive(Debug)]
pub enum MapOrNumber<'de, A> {
    /// The members.
    Map(Ahead<'de, A>),
    /// A number.
    Number(Number),
}

/// What `serde_json` calls the key, and the struct as which it writes numbers then.
pub(crate) const KEY: &str = "$serde_json::private::Number";

/// Whether the feature is on: then a number keeps its text, and these two differ.
static COME_AS_MAPS: LazyLock<bool> = LazyLock::new(|| "1.0".parse::<Number>().ok() != "1.00".parse::<Number>().ok());

impl<'de, A: MapAccess<'de>> MapOrNumber<'de, A> {
    /// Looks at the first key, if numbers come as maps in this build.
    ///
    /// # Errors
    ///
    /// Those of the source; and where the key is that of a number, but no number is there.
    pub fn of(from: A) -> Result<Self, A::Error> {
        Self::looked_at(from, *COME_AS_MAPS)
    }

    /// The same, if numbers come as maps from there.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn looked_at(mut from: A, come_as_maps: bool) -> Result<Self, A::Error> {
        let first = if come_as_maps { from.next_key()? } else { None };
        match first {
            Some(NumberKey(key)) if key == KEY => {
                let NumberKey(text) = from.next_value()?;
                text.parse().map(Self::Number).map_err(A::Error::custom)
            }
            first => Ok(Self::Map(Ahead { first, rest: from })),
        }
    }
}

/// The members of a map, of which the first key may have been looked at.
#[derive(Debug)]
pub struct Ahead<'de, A> {
    first: Option<NumberKey<'de>>,
    rest: A,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct NumberKey<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Ahead<'de, A> {
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

    fn looked_at(members: &[(&'static str, &str)], come_as_maps: bool) -> Result<Json, Error> {
        let members = MapDeserializer::new(members.iter().map(|(key, text)| (*key, (*text).to_owned())));
        MapOrNumber::looked_at(members, come_as_maps).and_then(super::super::made)
    }

    #[test]
    fn a_number_that_comes_as_a_map_is_a_number() {
        for text in ["1", "-7", "1.5", "18446744073709551615"] {
            assert_eq!(looked_at(&[(KEY, text)], true), Ok(Json::Number(text.parse().unwrap())));
        }
        assert!(looked_at(&[(KEY, "x")], true).is_err());
        assert_eq!(looked_at(&[("a", "1"), (KEY, "2")], true), Ok(json!({"a": "1", (KEY): "2"})));
        assert_eq!(looked_at(&[], true), Ok(json!({})));
    }

    #[test]
    fn an_object_with_the_key_of_numbers_is_one_where_numbers_come_as_such() {
        assert_eq!(looked_at(&[(KEY, "1")], false), Ok(json!({(KEY): "1"})));
        let read: Json = serde_json::from_str(r#"{"$serde_json::private::Number": "1"}"#).unwrap();
        assert_eq!(read, if *COME_AS_MAPS { json!(1) } else { json!({(KEY): "1"}) });
    }
}
