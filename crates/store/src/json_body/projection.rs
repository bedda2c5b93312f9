//! Reads a few values of an object, and skips all other values without decoding them.

use std::fmt;

use pintle_json::{Json, Map};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::BorrowedText;

pub(super) struct Projection<'p> {
    pub(super) paths: Vec<&'p [&'p str]>,
}

impl<'de> DeserializeSeed<'de> for Projection<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        if self.paths.iter().any(|path| path.is_empty()) { Json::deserialize(from) } else { from.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Projection<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut found = Map::new();
        while let Some(BorrowedText(name)) = map.next_key()? {
            let within = |path: &&'_ [&'_ str]| path.first().is_some_and(|first| *first == name);
            let paths: Vec<_> = self.paths.iter().copied().filter(within).map(|path| &path[1..]).collect();
            if paths.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                found.insert(name.into_owned(), map.next_value_seed(Projection { paths })?);
            }
        }
        Ok(Json::Object(found))
    }

    // Return null for an array, because only objects have members.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
}
