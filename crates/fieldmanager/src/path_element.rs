//! The elements of field paths, in the format of `fieldsV1`.

use std::cmp::Ordering;
use std::fmt;

use pintle_json::{Json, Map, Text};
use pintle_schema::{ListKey, ListType, Topology};

/// One element in a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// The name of a struct field or map key.
    Field(Text),
    /// A list item that is identified by these values of its key fields, sorted by field name.
    Key(Vec<(Text, Atom)>),
    /// The item of a set with this value.
    Value(Atom),
    /// The list item at this index.
    Index(i64),
}

/// A JSON value with a total order: null, false, true, numbers, strings, and then all other values.
#[derive(Clone, Debug)]
pub struct Atom(pub Json);

impl PathElement {
    /// Parses a path element of the form `f:name`, `k:{…}`, `v:…` or `i:0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_at_checked(2)?;
        match kind {
            "f:" => Some(Self::Field(rest.into())),
            "k:" => match serde_json::from_str(rest).ok()? {
                Json::Object(fields) => {
                    Some(Self::key(fields.into_iter().map(|(name, value)| (name, Atom(value))).collect()))
                }
                _ => None,
            },
            "v:" => Some(Self::Value(Atom(serde_json::from_str(rest).ok()?))),
            "i:" => Some(Self::Index(rest.parse().ok()?)),
            _ => None,
        }
    }

    /// Returns the path element in the format of `fieldsV1`. As in Go, HTML characters are escaped.
    pub fn spell(&self) -> String {
        let escaped = |value: String| {
            if value.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
                value
                    .replace('<', "\\u003c")
                    .replace('>', "\\u003e")
                    .replace('&', "\\u0026")
                    .replace('\u{2028}', "\\u2028")
                    .replace('\u{2029}', "\\u2029")
            } else {
                value
            }
        };
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Map = fields.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", escaped(Json::Object(fields).to_string()))
            }
            Self::Value(value) => format!("v:{}", escaped(value.0.to_string())),
            Self::Index(at) => format!("i:{at}"),
        }
    }

    pub(super) fn weight(&self) -> usize {
        let text = |value: &Atom| value.0.as_str().map_or(0, str::len);
        let parts = match self {
            Self::Field(name) => name.len(),
            Self::Key(fields) => fields.iter().map(|(name, value)| size_of::<Self>() + name.len() + text(value)).sum(),
            Self::Value(value) => text(value),
            Self::Index(_) => 0,
        };
        size_of::<Self>() + parts
    }

    /// Returns the path element that identifies an item of a list. The list must not be atomic.
    ///
    /// # Errors
    ///
    /// Returns an error if the item cannot be identified.
    pub fn of_item<'a>(list: &'a ListType, item: &Json) -> Result<Self, Indistinct<'a>> {
        let keys = match &list.topology {
            Topology::Keyed(keys) => keys,
            Topology::Set => {
                return match item {
                    Json::Object(_) => {
                        Err(Indistinct::Reason("associative list without keys has an element that's a map type"))
                    }
                    Json::Array(_) => Err(Indistinct::Reason("not supported: associative list with lists as elements")),
                    Json::Null => {
                        Err(Indistinct::Reason("associative list without keys has an element that's an explicit null"))
                    }
                    value => Ok(Self::Value(Atom(value.clone()))),
                };
            }
            Topology::Atomic => return Err(Indistinct::Reason("invalid indexing of non-associative list")),
        };
        let members = match item {
            Json::Object(members) => members,
            Json::Null => return Err(Indistinct::Reason("associative list with keys may not have a null element")),
            _ => return Err(Indistinct::Reason("associative list with keys may not have non-map elements")),
        };
        let fields = keys.iter().filter_map(|key| {
            let value = members.get(&key.name).or(key.default.as_ref())?;
            Some((key.name.as_str().into(), Atom(value.clone())))
        });
        let fields: Vec<_> = fields.collect();
        if fields.is_empty() && !keys.is_empty() {
            return Err(Indistinct::Keyless(keys));
        }
        Ok(Self::key(fields))
    }

    fn key(mut fields: Vec<(Text, Atom)>) -> Self {
        fields.sort();
        Self::Key(fields)
    }
}

/// The reason why a list item cannot be identified, formatted as a message only when necessary.
#[derive(Clone, Copy, Debug)]
pub enum Indistinct<'a> {
    /// A reason other than missing keys, with the error message of Go's structured-merge-diff
    /// library.
    Reason(&'static str),
    /// The list item omits all of these key fields.
    Keyless(&'a [ListKey]),
}

impl fmt::Display for Indistinct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reason(why) => f.write_str(why),
            Self::Keyless(keys) => {
                let names: Vec<_> = keys.iter().map(|key| format!("{:?}", key.name)).collect();
                let names = names.join(" ");
                write!(
                    f,
                    "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default \
                     values for any key fields)"
                )
            }
        }
    }
}

impl fmt::Display for PathElement {
    /// Formats the path element for error messages, as `.name`, `[name="c"]`, `[="v"]` or `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Json| match value {
            Json::Null => 0,
            Json::Bool(_) => 1,
            Json::Number(_) => 2,
            Json::String(_) => 3,
            Json::Array(_) => 4,
            Json::Object(_) => 5,
        };
        match (&self.0, &other.0) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Json::String(a), Json::String(b)) => a.cmp(b),
            (a @ (Json::Array(_) | Json::Object(_)), b @ (Json::Array(_) | Json::Object(_))) => {
                rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string()))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Atom {}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn elements_are_formatted_as_in_go() {
        let value = |value| PathElement::Value(Atom(value));
        for (element, spelt) in [
            (value(json!("a<b>&\u{2028}")), r#"v:"a\u003cb\u003e\u0026\u2028""#),
            (value(json!(1e20)), "v:100000000000000000000"),
            (value(json!(0.5)), "v:0.5"),
            (PathElement::key(vec![("value".into(), Atom(json!("a<0%")))]), r#"k:{"value":"a\u003c0%"}"#),
            (PathElement::Field("a<b".into()), "f:a<b"),
        ] {
            assert_eq!(element.spell(), spelt);
            assert_eq!(PathElement::parse(spelt), Some(element));
        }
    }
}
