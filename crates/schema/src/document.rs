//! A JSON tree that preserves the order of object members and keeps duplicates.

use pintle_json::Json;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number};

use super::go_json::plain_number;
use super::sink::{Primitive, Seed, Sink, feed_json};

/// A parsed JSON text. Objects preserve the order of their members and keep duplicates.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonNode {
    /// The value `null`.
    Null,
    /// The value `true` or `false`.
    Bool(bool),
    /// A number, which is a float if it has a decimal point or an exponent.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    List(Vec<JsonNode>),
    /// An object.
    Map(Vec<(String, JsonNode)>),
}

impl JsonNode {
    /// Parses one JSON text.
    ///
    /// Invalid UTF-8 bytes and unpaired surrogates become U+FFFD.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON. The error message is similar to the message of Go.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        feed_json(body, AsWritten)
    }

    /// Converts the node to a value. If a member occurs several times, the last value is kept. Numbers are converted as
    /// in Go's JSON decoder, so a float such as `1.0` becomes an integer.
    pub fn into_value(self) -> Json {
        self.into_value_with(plain_number)
    }

    /// Works like [`into_value`](Self::into_value), but does not convert numbers.
    pub fn into_verbatim(self) -> Json {
        self.into_value_with(|number| number)
    }

    fn into_value_with(self, write: fn(Number) -> Number) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => value.into(),
            Self::Number(value) => Json::Number(write(value)),
            Self::String(value) => value.into(),
            Self::List(items) => items.into_iter().map(|item| item.into_value_with(write)).collect(),
            Self::Map(members) => {
                let members = members.into_iter().map(|(name, node)| (name, node.into_value_with(write)));
                Json::Object(members.collect())
            }
        }
    }

    /// Returns the name that Go's error messages use for the JSON type of the value.
    pub fn json_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }
}

pub(super) struct AsWritten;

impl Sink for AsWritten {
    type Out = JsonNode;

    fn primitive(self, found: Primitive<'_>) -> JsonNode {
        match found {
            Primitive::Null => JsonNode::Null,
            Primitive::Bool(value) => JsonNode::Bool(value),
            Primitive::Number(number) => JsonNode::Number(number),
            Primitive::Text(text) => JsonNode::String(text.into_owned()),
        }
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(Self))? {
            list.push(item);
        }
        Ok(JsonNode::List(list))
    }

    fn map<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<JsonNode, A::Error> {
        let mut map = Vec::new();
        while let Some(name) = members.next_key()? {
            map.push((name, members.next_value_seed(Seed(Self))?));
        }
        Ok(JsonNode::Map(map))
    }
}

/// A deserializer that reads a [`JsonNode`] in document order.
impl<'de> Deserializer<'de> for &'de JsonNode {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            JsonNode::Null => visitor.visit_unit(),
            JsonNode::Bool(value) => visitor.visit_bool(*value),
            JsonNode::Number(number) => number.deserialize_any(visitor),
            JsonNode::String(text) => visitor.visit_borrowed_str(text),
            JsonNode::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            JsonNode::Map(members) => {
                let members = members.iter().map(|(name, node)| (BorrowedStrDeserializer::new(name), node));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de JsonNode {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_keep_order_and_duplicates() {
        let node = JsonNode::from_json(br#"{"b": 1, "a": {"x": 1.0}, "b": [null]}"#).unwrap();
        let JsonNode::Map(members) = &node else { panic!("{node:?}") };
        assert_eq!(members.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "a", "b"]);
        assert_eq!(node.into_value(), pintle_json::json!({"a": {"x": 1}, "b": [null]}));
    }

    #[test]
    fn lone_surrogates_and_bad_bytes_become_the_replacement_character() {
        for (body, text) in [
            (&br#""\ud800x""#[..], "\u{fffd}x"),
            (br#""\udc00\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\\ud800""#, "\\ud800"),
            (b"\"a\xffb\"", "a\u{fffd}b"),
        ] {
            assert_eq!(JsonNode::from_json(body), Ok(JsonNode::String(text.into())));
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        for body in ["", "{", "{} x", "\u{feff}{}", "{'a': 1}", "{} \0", "nonsense"] {
            assert!(JsonNode::from_json(body.as_bytes()).is_err(), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = JsonNode::from_json(&body);
        }

        #[test]
        fn text_is_parsed_like_serde_json(text in "\\PC{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(JsonNode::from_json(json.as_bytes()), Ok(JsonNode::String(text)));
        }
    }
}
