//! JSON values that preserve the order of object members, which determines the numbers of placeholders.

use std::{fmt, io};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::ser::Formatter;

/// A JSON value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Json {
    /// The value `null`.
    Null,
    /// The JSON value `true` or `false`.
    Bool(bool),
    /// A JSON number. The numbers 1 and 1.0 are equal.
    Number(Number),
    /// A string.
    Text(String),
    /// A list.
    Array(Vec<Json>),
    /// An object with its members in source order. If a member name occurs several times in the source, the last value
    /// is kept, as in most parsers.
    Object(IndexMap<String, Json>),
}

impl Json {
    /// Returns an object with the given members.
    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Self {
        Self::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Returns the member `name` of an object, or `None` if it is absent.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Json> {
        self.members()?.get(name)
    }

    /// Returns the string, or `None` for other values.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the members of an object, or `None` for other values.
    #[must_use]
    pub fn members(&self) -> Option<&IndexMap<String, Json>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// Returns `true` if the value is a string that consists of digits.
    #[must_use]
    pub fn is_digits(&self) -> bool {
        self.text().is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Returns the value at a JSON pointer with two extensions. A segment `key=value` selects the list item whose field
    /// `key` has the given value. In a segment `key=value`, the key can be a path such as `metadata.name`. A negative
    /// segment counts from the end of the list.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Option<&Json> {
        let pointer = pointer.trim_matches('/');
        let parts = pointer.split('/').filter(|_| !pointer.is_empty());
        parts.map(|part| part.replace("~1", "/").replace("~0", "~")).try_fold(self, |value, part| value.part(&part))
    }

    fn part(&self, part: &str) -> Option<&Json> {
        match self {
            Self::Object(_) => self.member(part),
            Self::Array(items) => match part.split_once('=') {
                Some((key, wanted)) => items.iter().find(|item| {
                    let value = match key.strip_prefix("metadata.") {
                        Some(inner) => item.member("metadata").and_then(|metadata| metadata.member(inner)),
                        None => item.member(key),
                    };
                    value.and_then(Json::text) == Some(wanted)
                }),
                None => {
                    let index: i64 = part.parse().ok()?;
                    let from_end = || items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
                    items.get(if index < 0 { from_end()? } else { usize::try_from(index).ok()? })
                }
            },
            _ => None,
        }
    }

    /// Returns a string without quotes, and any other value as JSON.
    #[must_use]
    pub fn plain(&self) -> String {
        self.text().map_or_else(|| self.to_string(), str::to_owned)
    }
}

impl Json {
    /// Serializes this value in the same way as the recorder: as ASCII with a space after each comma and colon. The
    /// exact bytes of a request matter, because a server may quote a body that it cannot parse.
    #[must_use]
    pub fn as_sent(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Sent);
        if self.serialize(&mut serializer).is_err() {
            bytes.clear();
        }
        bytes
    }
}

struct Sent;

impl Formatter for Sent {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        for char in fragment.chars() {
            if char.is_ascii() {
                write!(writer, "{char}")?;
            } else {
                for unit in char.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).expect("test JSON")
    }

    #[test]
    fn members_keep_their_order_but_equality_ignores_it() {
        let value = json(r#"{"b":1,"a":[1.5,null,true,"x"],"b":2}"#);
        assert_eq!(value.to_string(), r#"{"b":2,"a":[1.5,null,true,"x"]}"#);
        assert_eq!(value, json(r#"{"a":[1.5,null,true,"x"],"b":2.0}"#));
        assert_ne!(value, json(r#"{"a":[1.5,null,true,"x"],"c":2}"#));
    }

    #[test]
    fn bodies_are_serialized_as_the_recorder_did() {
        let value = json(r#"{"a":[1,"é😀"],"b":{}}"#);
        let sent = String::from_utf8(value.as_sent()).expect("ASCII");
        assert_eq!(sent, r#"{"a": [1, "\u00e9\ud83d\ude00"], "b": {}}"#);
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert_eq!(json("3"), json("3.0"));
        assert_ne!(json("9007199254740993"), json("9007199254740992"));
        assert_ne!(json("1"), json("true"));
    }

    #[test]
    fn pointers_pick_members_indexes_and_elements_by_key() {
        let value = json(r#"{"a/b":[{"name":"x"},{"metadata":{"name":"y"},"n":7}]}"#);
        let at = |pointer: &str| value.at(pointer).map(ToString::to_string);
        assert_eq!(at("/a~1b/1/n").as_deref(), Some("7"));
        assert_eq!(at("/a~1b/-1/n").as_deref(), Some("7"));
        assert_eq!(at("/a~1b/metadata.name=y/n").as_deref(), Some("7"));
        assert_eq!(at("/a~1b/name=x/name").as_deref(), Some("\"x\""));
        assert_eq!(at("/a~1b/-3"), None);
        assert_eq!(at("/a~1b/name=z"), None);
        assert_eq!(at("").as_deref(), Some(value.to_string().as_str()));
    }
}
