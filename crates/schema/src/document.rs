//! JSON as it was written, with the order and the duplicates of its members.

use std::collections::HashSet;
use std::fmt;

use pintle_json::Json;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{StrictFinding, note};

/// JSON as it was written: members in order, each as often as it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// null.
    Null,
    /// true or false.
    Bool(bool),
    /// A number; one written with a point or an exponent is a float.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// An object.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Reads one JSON text.
    ///
    /// Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD.
    ///
    /// # Errors
    ///
    /// What is wrong with it, much in Go's words.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(body);
        let parsed = match text.contains("\\ud") || text.contains("\\uD") {
            true => serde_json::from_str(&whole_surrogates(&text)),
            false => serde_json::from_str(&text),
        };
        parsed.map_err(|error: serde_json::Error| complaint(&error, &text))
    }

    /// The value, where the last of repeated members counts. Numbers are as Go keeps them: a float that is whole is written
    /// without a point.
    pub fn into_value(self) -> Json {
        self.into_value_with(plain_number)
    }

    /// The same, with numbers as they were written.
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

    /// What Go calls a value of this shape.
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }

    /// The members that stand more than once in one object, anywhere.
    pub fn duplicates(&self) -> Vec<StrictFinding> {
        let mut found = Vec::new();
        self.find_duplicates(&mut String::new(), &mut found);
        found
    }

    fn find_duplicates(&self, path: &mut String, found: &mut Vec<StrictFinding>) {
        let length = path.len();
        match self {
            Self::Map(members) => {
                let mut seen = HashSet::new();
                for (name, node) in members {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    if !seen.insert(name) {
                        note(found, || StrictFinding::Duplicate(path.clone()));
                    }
                    node.find_duplicates(path, found);
                    path.truncate(length);
                }
            }
            Self::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    item.find_duplicates(path, found);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// The last member of this name.
    pub fn member(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Map(members) => members.iter().rfind(|(key, _)| key == name).map(|(_, node)| node),
            _ => None,
        }
    }
}

impl From<Json> for Node {
    fn from(value: Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(value) => Self::Number(value),
            Json::String(value) => Self::String(value.into()),
            Json::Array(items) => Self::List(items.into_iter().map(Into::into).collect()),
            Json::Object(members) => {
                Self::Map(members.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Node::Map(map))
    }
}

/// Go keeps whole numbers of 64 bits as they are, and all others as floats, which it writes without a point where they are whole.
pub(super) fn plain_number(number: Number) -> Number {
    if number.as_i64().is_some() {
        return number;
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 9.2e18 => (float as i64).into(),
        // Go writes the shortest digits that mean this float, filled up with zeros.
        Some(float) if float.fract() == 0.0 && float > 0.0 && float < 1.8e19 => {
            let shortest = format!("{float:e}");
            let (digits, power) = shortest.split_once('e').unwrap_or((&shortest, "0"));
            let digits = digits.replace('.', "");
            let width = power.parse().unwrap_or(0_usize) + 1;
            format!("{digits:0<width$}").parse::<u64>().map_or(number, Number::from)
        }
        Some(float) => Number::from_f64(float).unwrap_or(number),
        None => number,
    }
}

/// Puts `\ufffd` in place of each half of a surrogate pair that stands alone.
fn whole_surrogates(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let width = match (unit(at), rest.chars().next()) {
            (Some(0xd800..=0xdbff), _) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // An escaped backslash hides what follows it.
            (None, Some('\\')) => rest.chars().take(2).map(char::len_utf8).sum(),
            (None, first) => first.map_or(1, char::len_utf8),
        };
        out.push_str(&rest[..width]);
        at += width;
    }
    out
}

fn complaint(error: &serde_json::Error, text: &str) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let line = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = line + error.column().saturating_sub(1);
    let found = text.get(at..).and_then(|rest| rest.chars().next());
    let trailing = error.to_string().starts_with("trailing characters");
    match found {
        Some(found) if trailing => format!("invalid character '{}' after top-level value", found.escape_default()),
        Some(found) => format!("invalid character '{}' looking for beginning of value", found.escape_default()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_keep_their_order_and_their_repetitions() {
        let node = Node::from_json(br#"{"b": 1, "a": {"x": 1.0}, "b": [null]}"#).unwrap();
        let Node::Map(members) = &node else { panic!("{node:?}") };
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
            assert_eq!(Node::from_json(body), Ok(Node::String(text.into())));
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for body in ["", "{", "{} x", "\u{feff}{}", "{'a': 1}", "{} \0", "nonsense"] {
            assert!(Node::from_json(body.as_bytes()).is_err(), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Node::from_json(&body);
        }

        #[test]
        fn text_is_read_as_serde_json_reads_it(text in "\\PC{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(Node::from_json(json.as_bytes()), Ok(Node::String(text)));
        }
    }
}
