//! Parses YAML like Kubernetes and converts it to JSON.
//!
//! A few bytes of YAML can expand to a huge value through deep nesting or nested aliases. Therefore, this module
//! processes parser events one by one, and rejects a value that is too deep or too large before building it.

mod cursor;
mod emitter;
mod parser;
mod scanner;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parser::{Parser, Properties, YamlEvent};
use pintle_json::{Json, Map, Text};
use serde_json::Number;

use super::go_json::plain_number;
use super::{DEEPEST, Yaml};
use crate::finding::StrictFinding;

pub(super) use emitter::{write, write_line};

/// The prefix of YAML errors in Kubernetes.
pub const YAML_CONVERSION: &str = "error converting YAML to JSON: ";

const EXCESSIVE: &str = "document contains excessive aliasing";

/// The maximum total size of all anchored nodes and their aliases, in bytes. For comparison, Go allows documents with
/// aliases to expand to about 400,000 nodes.
const MAX_ALIASED: usize = 16 << 20;

/// Parses the first document of a YAML body. Each duplicate key is reported as a finding, and its last value is kept.
pub(super) fn read(body: &[u8]) -> Yaml {
    // Go's JSON encoder reports values that JSON cannot represent, so these errors do not have the prefix `yaml: `.
    let prefix = |why: &str| if why.starts_with("json: ") { "" } else { "yaml: " };
    first(body).map_err(|why| format!("{YAML_CONVERSION}{}{why}", prefix(&why)))
}

fn first(body: &[u8]) -> Yaml {
    let text = text(body)?;
    YamlDocuments::new(&text).next().unwrap_or(Ok((Json::Null, Vec::new())))
}

/// Decodes a UTF-8 file, or a UTF-16 file with a byte order mark. The returned text does not contain the byte order
/// mark.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            let plain = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            return std::str::from_utf8(plain).map(Cow::Borrowed).map_err(|_| "invalid leading UTF-8 octet");
        }
    };
    let (pairs, rest) = bytes[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err("incomplete UTF-16 character");
    }
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
    text.map(Cow::Owned).map_err(|_| "unexpected low surrogate area")
}

/// An iterator over the documents of a YAML text, which ends after the first error.
pub(super) struct YamlDocuments<'a> {
    events: Parser<'a>,
    broken: bool,
}

impl<'a> YamlDocuments<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { events: Parser::new(text), broken: false }
    }
}

impl Iterator for YamlDocuments<'_> {
    type Item = Yaml;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.broken {
            let read = match self.events.next() {
                Ok((YamlEvent::DocumentStart, _)) => YamlReader::new(&mut self.events).document(),
                Ok((YamlEvent::StreamEnd, _)) => return None,
                Ok(_) => continue,
                Err(error) => Err(error.into()),
            };
            self.broken = read.is_err();
            return Some(read);
        }
        None
    }
}

struct YamlReader<'p, 'a> {
    events: &'p mut Parser<'a>,
    /// Maps each anchor to its node. `None` means that the node is too large to be copied.
    anchors: HashMap<String, Option<Anchored>>,
    open: HashSet<String>,
    /// The remaining number of bytes that aliases may copy.
    copies: usize,
    findings: Vec<StrictFinding>,
    /// The keys of the last map that was read or copied, with their lines.
    places: KeyMarks,
    /// A value in the document that JSON cannot represent, as Go's error message shows it.
    unsupported: Option<&'static str>,
}

#[derive(Clone)]
struct KeyMark {
    /// The key, as Go's error message shows it.
    shown: String,
    line: usize,
}

type KeyMarks = BTreeMap<Text, KeyMark>;

#[derive(Default)]
struct YamlMembers {
    members: Map,
    places: KeyMarks,
}

impl YamlMembers {
    /// Sets the value of a key. If the key already exists, replaces its value and returns a finding.
    fn set(&mut self, key: Text, value: Json, place: KeyMark) -> Option<StrictFinding> {
        let finding = self.members.insert(key.clone(), value).map(|_| {
            StrictFinding::DuplicateYamlKey(format!("line {}: key {} already set in map", place.line, place.shown))
        });
        self.places.insert(key, place);
        finding
    }
}

/// A map to merge into another map with a `<<` key: its members, and the key and line of each member.
type MergeSource = (Map, KeyMarks);

struct Anchored {
    value: Json,
    places: KeyMarks,
    weight: usize,
    height: usize,
}

impl<'p, 'a> YamlReader<'p, 'a> {
    fn new(events: &'p mut Parser<'a>) -> Self {
        let (anchors, open, findings, places) = (HashMap::new(), HashSet::new(), Vec::new(), KeyMarks::new());
        Self { events, anchors, open, copies: MAX_ALIASED, findings, places, unsupported: None }
    }

    fn document(mut self) -> Yaml {
        let read = self.event().and_then(|(event, _)| self.node(event, DEEPEST));
        // Go parses the whole document before it decodes values, so a later syntax error takes precedence over an error
        // in a value. Stop parsing early only if the document exceeds a limit.
        let at_limit = read.as_ref().is_err_and(|why| *why == too_deep() || why == EXCESSIVE);
        while !at_limit && !matches!(self.events.next()?, (YamlEvent::DocumentEnd | YamlEvent::StreamEnd, _)) {}
        let node = read?;
        match self.unsupported {
            None => Ok((node, self.findings)),
            Some(value) => Err(format!("json: unsupported value: {value}")),
        }
    }

    fn event(&mut self) -> Result<(YamlEvent, usize), String> {
        let (event, mark) = self.events.next()?;
        Ok((event, mark.line + 1))
    }

    /// Reads the node that starts with `event`. `levels_left` is the remaining number of nesting levels.
    fn node(&mut self, event: YamlEvent, levels_left: usize) -> Result<Json, String> {
        let (node, anchor) = match event {
            YamlEvent::Alias(anchor) => return self.copy(&anchor, levels_left),
            YamlEvent::Scalar { text, plain, properties } => {
                let tag = properties.tag.as_deref();
                self.unsupported = self.unsupported.or(non_finite(&text, plain, tag).map(|(_, shown)| shown));
                (scalar(text, plain, tag)?, properties.anchor)
            }
            YamlEvent::SequenceStart(Properties { anchor, .. }) => {
                self.begin(anchor.as_deref());
                (self.list(inside(levels_left)?)?, anchor)
            }
            YamlEvent::MappingStart(Properties { anchor, .. }) => {
                self.begin(anchor.as_deref());
                (self.map(inside(levels_left)?)?, anchor)
            }
            _ => return Err("the document has no content".into()),
        };
        self.remember(anchor, &node);
        Ok(node)
    }

    fn begin(&mut self, anchor: Option<&str>) {
        self.open.extend(anchor.map(str::to_owned));
    }

    fn list(&mut self, levels_left: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (YamlEvent::SequenceEnd, _) => return Ok(Json::Array(items)),
                (event, _) => items.push(self.node(event, levels_left)?),
            }
        }
    }

    /// Reads a map and reports duplicate keys. If the map contains a `<<` key, merges the maps in its value at the
    /// position of this key.
    fn map(&mut self, levels_left: usize) -> Result<Json, String> {
        let mut map = YamlMembers::default();
        loop {
            let (event, _) = self.event()?;
            if event == YamlEvent::MappingEnd {
                break;
            }
            if merges(&event) {
                // If several merged maps have the same key, the first map takes precedence.
                for (members, places) in self.bases(levels_left)?.into_iter().rev() {
                    for ((key, value), place) in members.into_iter().zip(places.into_values()) {
                        self.findings.extend(map.set(key, value, place));
                    }
                }
                continue;
            }
            let (key, shown) = self.key(event)?;
            let (event, line) = self.event()?;
            let node = self.node(event, levels_left)?;
            self.findings.extend(map.set(key, node, KeyMark { shown, line }));
        }
        self.places = map.places;
        Ok(Json::Object(map.members))
    }

    fn bases(&mut self, levels_left: usize) -> Result<Vec<MergeSource>, String> {
        let (event, _) = self.event()?;
        // In Go, the value of a `<<` key cannot be an alias of a list.
        let YamlEvent::SequenceStart(Properties { anchor, .. }) = event else {
            return Ok(vec![self.base(event, levels_left)?]);
        };
        let levels_left = inside(levels_left)?;
        self.begin(anchor.as_deref());
        let mut bases = Vec::new();
        loop {
            match self.event()? {
                (YamlEvent::SequenceEnd, _) => break,
                (event, _) => bases.push(self.base(event, levels_left)?),
            }
        }
        self.remember(anchor, &bases.iter().map(|(members, _)| members.clone()).collect());
        Ok(bases)
    }

    fn base(&mut self, event: YamlEvent, levels_left: usize) -> Result<MergeSource, String> {
        match self.node(event, levels_left)? {
            Json::Object(members) => Ok((members, std::mem::take(&mut self.places))),
            _ => Err("map merge requires map or sequence of maps as the value".into()),
        }
    }

    /// Reads a key. Returns the text of the key, and its form in Go's error messages, which quote strings.
    fn key(&mut self, event: YamlEvent) -> Result<(Text, String), String> {
        const NO_KEY: &str = "null, a list or a map cannot be a key";
        if !matches!(event, YamlEvent::Scalar { .. } | YamlEvent::Alias(_)) {
            return Err(NO_KEY.into());
        }
        let mut is_float = false;
        if let YamlEvent::Scalar { text, plain, properties } = &event {
            if let Some((key, shown)) = non_finite(text, *plain, properties.tag.as_deref()) {
                return Ok((key.into(), shown.into()));
            }
            is_float = integer(&text.replace('_', "")).is_none();
        }
        let key = match self.node(event, DEEPEST)? {
            Json::String(text) => {
                let shown = format!("{text:?}");
                return Ok((text, shown));
            }
            Json::Bool(value) => value.to_string(),
            Json::Number(number) if is_float || number.is_f64() => float_key(number.as_f64().unwrap_or_default()),
            Json::Number(number) => number.to_string(),
            Json::Null | Json::Array(_) | Json::Object(_) => return Err(NO_KEY.into()),
        };
        Ok((key.as_str().into(), key))
    }

    fn remember(&mut self, anchor: Option<String>, node: &Json) {
        let Some(anchor) = anchor else { return };
        self.open.remove(&anchor);
        let mut left = self.copies;
        let anchored = weigh(node, &mut left).map(|height| {
            let weight = self.copies - left;
            self.copies = left;
            let places = if node.is_object() { self.places.clone() } else { KeyMarks::new() };
            Anchored { value: node.clone(), places, weight, height }
        });
        self.anchors.insert(anchor, anchored);
    }

    fn copy(&mut self, anchor: &str, levels_left: usize) -> Result<Json, String> {
        if self.open.contains(anchor) {
            return Err(format!("anchor '{anchor}' value contains itself"));
        }
        let anchored = self.anchors.get(anchor).ok_or_else(|| format!("unknown anchor '{anchor}' referenced"))?;
        let Anchored { value, places, weight, height } = anchored.as_ref().ok_or(EXCESSIVE)?;
        if *height > levels_left {
            return Err(too_deep());
        }
        self.copies = self.copies.checked_sub(*weight).ok_or(EXCESSIVE)?;
        self.places.clone_from(places);
        Ok(value.clone())
    }
}

/// Returns the name of a standard YAML tag, or `None` for other tags.
fn core_tag(tag: &str) -> Option<&str> {
    tag.strip_prefix("tag:yaml.org,2002:")
}

fn scalar(text: String, is_plain: bool, tag: Option<&str>) -> Result<Json, String> {
    let Some(tag) = tag else {
        return Ok(if is_plain { plain(&text) } else { text.into() });
    };
    let expected = core_tag(tag).unwrap_or_default();
    let node = match expected {
        "binary" => return binary(&text),
        "float" if non_finite(&text, is_plain, Some(tag)).is_some() => return Ok(Json::Null),
        "bool" | "float" | "int" | "null" => plain(&text),
        _ => return Ok(text.into()),
    };
    let fits = match &node {
        Json::Null => expected == "null",
        Json::Bool(_) => expected == "bool",
        Json::Number(number) => expected == "float" || (expected == "int" && !number.is_f64()),
        _ => false,
    };
    let found = match &node {
        _ if fits => return Ok(node),
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        _ => "str",
    };
    Err(format!("cannot decode !!{found} `{text}` as a !!{expected}"))
}

/// Decodes base64 text. Each invalid UTF-8 byte becomes U+FFFD.
fn binary(text: &str) -> Result<Json, String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = STANDARD.decode(text).map_err(|_| "!!binary value contains invalid base64 data")?;
    let (mut out, mut rest) = (String::new(), &bytes[..]);
    while !rest.is_empty() {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                break;
            }
            Err(error) => {
                out.push_str(&String::from_utf8_lossy(&rest[..error.valid_up_to()]));
                out.push('\u{fffd}');
                rest = &rest[error.valid_up_to() + 1..];
            }
        }
    }
    Ok(out.into())
}

/// Recognizes infinity and NaN, which JSON cannot represent. Returns the text that represents the number in a map key,
/// and the text in Go's error messages.
fn non_finite(text: &str, is_plain: bool, tag: Option<&str>) -> Option<(&'static str, &'static str)> {
    let may_be = match tag {
        None => is_plain,
        Some(tag) => core_tag(tag) == Some("float"),
    };
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" if may_be => Some((".inf", "+Inf")),
        "-.inf" | "-.Inf" | "-.INF" if may_be => Some(("-.inf", "-Inf")),
        ".nan" | ".NaN" | ".NAN" if may_be => Some((".nan", "NaN")),
        _ => None,
    }
}

fn plain(text: &str) -> Json {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Json::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Json::Bool(false),
        // A float with an integral value, such as 2.0, becomes an integer.
        _ => number(text).map_or_else(|| text.into(), |number| Json::Number(plain_number(number))),
    }
}

/// Parses a number. As in Go, only a text with certain first characters can be a number.
fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let text = text.replace('_', "");
    integer(&text).or_else(|| float(&text))
}

/// Parses an integer. The prefix determines the base, and a leading 0 means octal. Returns `None` if the text is not an
/// integer, or if the integer does not fit into 64 bits.
fn integer(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (base, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['-', '+']) {
        // Go accepts a sign after the prefix `0b` if there is no sign before the prefix.
        let signed = base == 2 && unsigned.len() == text.len();
        return i64::from_str_radix(digits, base).ok().filter(|_| signed).map(Number::from);
    }
    match &text[..text.len() - unsigned.len()] {
        "" => u64::from_str_radix(digits, base).ok().map(Number::from),
        sign => i64::from_str_radix(&format!("{sign}{digits}"), base).ok().map(Number::from),
    }
}

/// Formats a float as a map key, in Go's format for 32-bit floats.
fn float_key(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "so does Go")]
    let number = number as f32;
    general(&format!("{number:e}")).unwrap_or_else(|| number.to_string())
}

fn float_text(number: f64) -> String {
    general(&format!("{number:e}")).unwrap_or_else(|| number.to_string())
}

/// Converts a number with an exponent from Rust's notation to Go's notation. Returns `None` if Go would write the
/// number without an exponent.
fn general(printed: &str) -> Option<String> {
    let (digits, exponent) = printed.split_once('e')?;
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| !(-4..6).contains(exponent))?;
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{digits}e{sign}{:02}", exponent.abs()))
}

/// Parses a decimal number. Returns `None` if the text is not a finite number.
fn float(text: &str) -> Option<Number> {
    text.parse().ok().and_then(Number::from_f64)
}

/// Returns `true` for the merge key `<<`. A quoted `<<` is an ordinary key.
fn merges(key: &YamlEvent) -> bool {
    let YamlEvent::Scalar { text, plain, properties } = key else { return false };
    let merge = properties.tag.as_deref().map_or(*plain, |tag| core_tag(tag) == Some("merge"));
    merge && text == "<<"
}

fn inside(levels_left: usize) -> Result<usize, String> {
    levels_left.checked_sub(1).ok_or_else(too_deep)
}

fn too_deep() -> String {
    format!("exceeded max depth of {DEEPEST}")
}

/// Subtracts the size of a node from `left` and returns its nesting depth. Returns `None` if the size exceeds `left`.
fn weigh(node: &Json, left: &mut usize) -> Option<usize> {
    let mut take = |text: &str| {
        *left = left.checked_sub(size_of::<Json>() + text.len())?;
        Some(())
    };
    match node {
        Json::String(text) => take(text).map(|()| 0),
        Json::Array(items) => {
            take("")?;
            items.iter().try_fold(1, |height, item| Some(height.max(1 + weigh(item, left)?)))
        }
        Json::Object(members) => {
            take("")?;
            members.iter().try_fold(1, |height, (key, node)| {
                *left = left.checked_sub(size_of::<String>() + key.len())?;
                Some(height.max(1 + weigh(node, left)?))
            })
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => take("").map(|()| 0),
    }
}

#[cfg(test)]
mod tests;
