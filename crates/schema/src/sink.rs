//! Passes the values in JSON text, a [`Json`] value or YAML to a [`Sink`] while parsing.

use std::borrow::Cow;
use std::fmt;

use pintle_json::{Json, MapOrNumber, Text, go_error};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Number};

use super::go_json::{plain_number, replace_lone_surrogates};

/// Receives JSON values from a parser, and builds a result from them.
pub(super) trait Sink: Sized {
    type Out;

    fn primitive(self, found: Primitive<'_>) -> Self::Out;

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<Self::Out, A::Error>;

    fn map<'de, A: MapAccess<'de>>(self, members: A) -> Result<Self::Out, A::Error>;
}

/// A JSON value without nested values: null, a boolean, a number or a string.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Primitive<'a> {
    Null,
    Bool(bool),
    /// A number. A number with a decimal point or an exponent is a float.
    Number(Number),
    Text(Cow<'a, str>),
}

impl Primitive<'_> {
    /// Converts the scalar to a JSON value without changing numbers.
    pub(super) fn into_verbatim(self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => value.into(),
            Self::Number(number) => Json::Number(number),
            Self::Text(text) => text.into(),
        }
    }

    /// Returns the name of the value's JSON type in Go's error messages.
    pub(super) fn json_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
        }
    }

    /// Converts the scalar to a JSON value, with the same conversion of numbers as in Go.
    pub(super) fn into_value(self) -> Json {
        match self {
            Self::Number(number) => Json::Number(plain_number(number)),
            other => other.into_verbatim(),
        }
    }
}

/// Parses a JSON text and passes its value to a sink. Invalid UTF-8 bytes and unpaired surrogates become U+FFFD.
///
/// # Errors
///
/// Returns an error if the text is not JSON. The error message is similar to the message of Go.
pub(super) fn feed_json<S: Sink>(body: &[u8], sink: S) -> Result<S::Out, String> {
    // Parse valid UTF-8 directly, because the lossy conversion is much slower and rarely necessary.
    let text = std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed);
    let replaced = if text.contains("\\ud") || text.contains("\\uD") {
        Cow::Owned(replace_lone_surrogates(&text))
    } else {
        Cow::Borrowed(&*text)
    };
    let mut json = serde_json::Deserializer::from_str(&replaced);
    let result = feed(&mut json, sink).and_then(|out| json.end().map(|()| out));
    result.map_err(|error| go_error(&error, &text))
}

/// Passes the value from a deserializer to a sink.
///
/// # Errors
///
/// Fails only if the deserializer fails, because a sink does not return errors of its own.
pub(super) fn feed<'de, S: Sink>(from: impl Deserializer<'de, Error = Error>, sink: S) -> Result<S::Out, Error> {
    Seed(sink).deserialize(from)
}

pub(super) struct Seed<S>(pub(super) S);

/// The name of an object member. Stores a short name without a heap allocation.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Name(pub(super) Text);

impl<'de, S: Sink> DeserializeSeed<'de> for Seed<S> {
    type Value = S::Out;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Out, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for Seed<S> {
    type Value = S::Out;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Number(value.into())))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<S::Out, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<S::Out, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<S::Out, E> {
        Ok(self.0.primitive(Number::from_f64(value).map_or(Primitive::Null, Primitive::Number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Text(text.into())))
    }

    fn visit_string<E>(self, text: String) -> Result<S::Out, E> {
        Ok(self.0.primitive(Primitive::Text(text.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<S::Out, A::Error> {
        self.0.list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<S::Out, A::Error> {
        self.visit(MapOrNumber::of(members)?)
    }
}

impl<S: Sink> Seed<S> {
    fn visit<'de, A: MapAccess<'de>>(self, found: MapOrNumber<'de, A>) -> Result<S::Out, A::Error> {
        match found {
            MapOrNumber::Map(members) => self.0.map(members),
            // Reject a number that is out of range. Without its feature `arbitrary_precision`, `serde_json` itself
            // rejects such a number.
            MapOrNumber::Number(number) if number.as_f64().is_none() => Err(A::Error::custom("number out of range")),
            MapOrNumber::Number(number) => Ok(self.0.primitive(Primitive::Number(number))),
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;
    use proptest::prelude::*;
    use serde::de::value::{Error, MapDeserializer};

    use super::*;
    use crate::read_json;
    use crate::reader::Reader;

    #[test]
    fn number_passed_as_a_map_is_read() {
        let read = |text: &str| {
            let members = [("$serde_json::private::Number", text.to_owned())].into_iter();
            let mut reader = Reader::verbatim();
            let found = MapOrNumber::peek(MapDeserializer::<_, Error>::new(members), true)?;
            Seed(reader.untyped_sink(None)).visit(found)
        };
        for text in ["1", "-7", "1.5", "18446744073709551615"] {
            assert_eq!(read(text), Ok(Json::Number(text.parse().unwrap())));
        }
        assert!(read("1e999").is_err());
    }

    #[test]
    fn object_with_the_number_key_is_read() {
        let read = read_json(br#"{"$serde_json::private::Number": "1"}"#).unwrap();
        // If the feature `arbitrary_precision` of `serde_json` is enabled, a number is represented as a map.
        assert!(read == json!({"$serde_json::private::Number": "1"}) || read == 1, "{read:?}");
    }

    #[test]
    fn last_value_of_a_repeated_member_is_kept() {
        let read = read_json(br#"{"b": 1, "a": {"x": 1.0}, "b": [null]}"#);
        assert_eq!(read, Ok(json!({"a": {"x": 1.0}, "b": [null]})));
    }

    #[test]
    fn lone_surrogates_and_bad_bytes_become_the_replacement_character() {
        for (body, text) in [
            (&br#""\ud800x""#[..], "\u{fffd}x"),
            (br#""\udc00\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\\ud800""#, "\\ud800"),
            (b"\"a\xffb\"", "a\u{fffd}b"),
        ] {
            assert_eq!(read_json(body), Ok(text.into()));
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        for body in ["", "{", "{} x", "\u{feff}{}", "{'a': 1}", "{} \0", "nonsense"] {
            assert!(read_json(body.as_bytes()).is_err(), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_json(&body);
        }

        #[test]
        fn text_is_parsed_like_serde_json(text in "\\PC{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(read_json(json.as_bytes()), Ok(text.into()));
        }
    }
}
