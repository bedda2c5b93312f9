//! YAML as Kubernetes reads it, turned into JSON.
//!
//! A few bytes of it can ask for very much: brackets that nest without end, aliases of aliases. So it is read event by event, and
//! what would be too deep or too large is refused before it is built.

mod emitter;

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::Number;

use super::go_json::plain_number;
use super::{DEEPEST, JsonNode, StrictFinding, Yaml};

pub(super) use emitter::{write, write_line};

/// What the nodes with an anchor and their aliases may weigh, in bytes. Go, too, takes some 400,000 nodes for harmless.
const MOST_ALIASED: usize = 16 << 20;

/// Reads the first document of a body. A key that stands twice is a finding; the later one counts.
pub(super) fn read(body: &[u8]) -> Yaml {
    // What YAML has and JSON has not is told by the writer of JSON.
    let by = |why: &str| if why.starts_with("json: ") { "" } else { "yaml: " };
    first(body).map_err(|why| format!("error converting YAML to JSON: {}{why}", by(&why)))
}

fn first(body: &[u8]) -> Yaml {
    let text = std::str::from_utf8(body).map_err(|_| "invalid leading UTF-8 octet")?;
    // To libyaml a tab at the beginning of a line outside of all else is no blank.
    if text.trim_start_matches([' ', '\n', '\r', '\u{feff}']).starts_with('\t') {
        return Err("found character that cannot start any token".into());
    }
    YamlDocuments::new(text).next().unwrap_or(Ok((JsonNode::Null, Vec::new())))
}

/// The documents of a text, up to the first that cannot be read.
pub(super) struct YamlDocuments<'a> {
    events: Parser<'a, StrInput<'a>>,
    broken: bool,
}

impl<'a> YamlDocuments<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // Where libyaml and the letter of the specification differ, Go sides with libyaml.
        let options = granit_parser::options! {
            emit_comments: false,
            strict_indentation: false,
            block_scalar_eof_without_line_feed: true,
            bom_inside_document_as_content: true,
            flow_nesting_limit: DEEPEST,
            block_nesting_limit: DEEPEST,
        };
        Self { events: Parser::new_from_str_with_options(text, options), broken: false }
    }
}

impl Iterator for YamlDocuments<'_> {
    type Item = Yaml;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.broken {
            let read = match self.events.next_event()? {
                Ok((Event::DocumentStart(..), _)) => YamlReader::new(&mut self.events).document(),
                Ok(_) => continue,
                Err(error) => Err(complaint(&error)),
            };
            self.broken = read.is_err();
            return Some(read);
        }
        None
    }
}

/// Reads one document.
struct YamlReader<'p, 'a> {
    events: &'p mut Parser<'a, StrInput<'a>>,
    /// None stands for a node that is too heavy to be copied.
    anchors: HashMap<usize, Option<Anchored>>,
    /// What may still be copied.
    copies: usize,
    findings: Vec<StrictFinding>,
    /// Where the members of the map stand that was read or copied last.
    places: Vec<KeyMark>,
    /// A value that no JSON can hold, as Go shows it.
    unsupported: Option<&'static str>,
}

/// What is told of a member that stands twice.
#[derive(Clone)]
struct KeyMark {
    /// The key, as Go shows it.
    shown: String,
    /// The line of the value.
    line: usize,
}

/// The members of a map, as far as they have been read.
#[derive(Default)]
struct YamlMembers {
    members: Vec<(String, JsonNode)>,
    places: Vec<KeyMark>,
    by_key: HashMap<String, usize>,
}

impl YamlMembers {
    /// The last value of a key counts; that there was one before is told.
    fn set(&mut self, key: String, node: JsonNode, place: KeyMark) -> Option<StrictFinding> {
        let Some(&at) = self.by_key.get(&key) else {
            self.by_key.insert(key.clone(), self.members.len());
            self.members.push((key, node));
            self.places.push(place);
            return None;
        };
        let told = format!("line {}: key {} already set in map", place.line, place.shown);
        (self.members[at].1, self.places[at]) = (node, place);
        Some(StrictFinding::Other(told))
    }
}

/// The members of a map that another takes in, and where they stand.
type MergeSource = (Vec<(String, JsonNode)>, Vec<KeyMark>);

struct Anchored {
    node: JsonNode,
    places: Vec<KeyMark>,
    weight: usize,
    height: usize,
}

impl<'p, 'a> YamlReader<'p, 'a> {
    fn new(events: &'p mut Parser<'a, StrInput<'a>>) -> Self {
        let (anchors, findings, places) = (HashMap::new(), Vec::new(), Vec::new());
        Self { events, anchors, copies: MOST_ALIASED, findings, places, unsupported: None }
    }

    fn document(mut self) -> Yaml {
        let (event, _) = self.event()?;
        let node = self.node(event, DEEPEST)?;
        match self.unsupported {
            None => Ok((node, self.findings)),
            Some(value) => Err(format!("json: unsupported value: {value}")),
        }
    }

    /// The next event, and its line.
    fn event(&mut self) -> Result<(Event<'a>, usize), String> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(complaint(&error)),
            None => Err("unexpected end of the text".into()),
        }
    }

    /// The node that an event begins. In it, `room` lists and maps may stand one in another.
    fn node(&mut self, event: Event<'a>, room: usize) -> Result<JsonNode, String> {
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.copy(anchor, room),
            Event::Scalar(text, style, anchor, tag) => {
                self.unsupported = self.unsupported.or(endless(&text, style, tag.as_deref()).map(|(_, shown)| shown));
                (scalar(text, style, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(inside(room)?)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(inside(room)?)?, anchor),
            _ => return Err("a document without content".into()),
        };
        self.remember(anchor, &node);
        Ok(node)
    }

    fn list(&mut self, room: usize) -> Result<JsonNode, String> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(JsonNode::List(items)),
                (event, _) => items.push(self.node(event, room)?),
            }
        }
    }

    /// Drops repeated keys and tells of them; takes in what `<<` names, where it stands.
    fn map(&mut self, room: usize) -> Result<JsonNode, String> {
        let mut map = YamlMembers::default();
        loop {
            let (event, _) = self.event()?;
            if event == Event::MappingEnd {
                break;
            }
            if merges(&event) {
                // Of several, the first has the last word.
                for (members, places) in self.bases(room)?.into_iter().rev() {
                    for ((key, node), place) in members.into_iter().zip(places) {
                        self.findings.extend(map.set(key, node, place));
                    }
                }
                continue;
            }
            let (key, shown) = self.key(event)?;
            let (event, line) = self.event()?;
            let node = self.node(event, room)?;
            self.findings.extend(map.set(key, node, KeyMark { shown, line }));
        }
        // Go has the members in the order of their keys by the time it looks at them.
        let mut members: Vec<_> = map.members.into_iter().zip(map.places).collect();
        members.sort_by(|((one, _), _), ((other, _), _)| one.cmp(other));
        let (members, places) = members.into_iter().unzip();
        self.places = places;
        Ok(JsonNode::Map(members))
    }

    /// The maps that the value of a `<<` names.
    fn bases(&mut self, room: usize) -> Result<Vec<MergeSource>, String> {
        let (event, _) = self.event()?;
        // Go takes no list by its alias.
        let Event::SequenceStart(_, anchor, _) = event else { return Ok(vec![self.base(event, room)?]) };
        let room = inside(room)?;
        let mut bases = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => break,
                (event, _) => bases.push(self.base(event, room)?),
            }
        }
        self.remember(
            anchor,
            &JsonNode::List(bases.iter().map(|(members, _)| JsonNode::Map(members.clone())).collect()),
        );
        Ok(bases)
    }

    fn base(&mut self, event: Event<'a>, room: usize) -> Result<MergeSource, String> {
        match self.node(event, room)? {
            JsonNode::Map(members) => Ok((members, std::mem::take(&mut self.places))),
            _ => Err("map merge requires map or sequence of maps as the value".into()),
        }
    }

    /// A key, and how Go shows it: those that are texts in quotes.
    fn key(&mut self, event: Event<'a>) -> Result<(String, String), String> {
        const NO_KEY: &str = "null, a list or a map cannot be a key";
        if !matches!(event, Event::Scalar(..) | Event::Alias(_)) {
            return Err(NO_KEY.into());
        }
        let mut is_float = false;
        if let Event::Scalar(text, style, _, tag) = &event {
            if let Some((key, shown)) = endless(text, *style, tag.as_deref()) {
                return Ok((key.into(), shown.into()));
            }
            is_float = integer(&text.replace('_', "")).is_none();
        }
        let key = match self.node(event, DEEPEST)? {
            JsonNode::String(text) => {
                let shown = format!("{text:?}");
                return Ok((text, shown));
            }
            JsonNode::Bool(value) => value.to_string(),
            JsonNode::Number(number) if is_float || number.is_f64() => float_key(number.as_f64().unwrap_or_default()),
            JsonNode::Number(number) => number.to_string(),
            JsonNode::Null | JsonNode::List(_) | JsonNode::Map(_) => return Err(NO_KEY.into()),
        };
        Ok((key.clone(), key))
    }

    fn remember(&mut self, anchor: usize, node: &JsonNode) {
        // 0 is none.
        if anchor == 0 {
            return;
        }
        let mut left = self.copies;
        let anchored = weigh(node, &mut left).map(|height| {
            let weight = self.copies - left;
            self.copies = left;
            let places = if matches!(node, JsonNode::Map(_)) { self.places.clone() } else { Vec::new() };
            Anchored { node: node.clone(), places, weight, height }
        });
        self.anchors.insert(anchor, anchored);
    }

    fn copy(&mut self, anchor: usize, room: usize) -> Result<JsonNode, String> {
        const EXCESSIVE: &str = "document contains excessive aliasing";
        let anchored = self.anchors.get(&anchor).ok_or("an anchor's value contains itself")?;
        let Anchored { node, places, weight, height } = anchored.as_ref().ok_or(EXCESSIVE)?;
        if *height > room {
            return Err(too_deep());
        }
        self.copies = self.copies.checked_sub(*weight).ok_or(EXCESSIVE)?;
        self.places.clone_from(places);
        Ok(node.clone())
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<JsonNode, String> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { plain(&text) } else { JsonNode::String(text.into()) });
    };
    let wanted = tag.core_suffix().unwrap_or_default();
    let node = match wanted {
        "float" if endless(&text, style, Some(tag)).is_some() => return Ok(JsonNode::Null),
        "bool" | "float" | "int" | "null" => plain(&text),
        _ => return Ok(JsonNode::String(text.into())),
    };
    let fits = match &node {
        JsonNode::Null => wanted == "null",
        JsonNode::Bool(_) => wanted == "bool",
        JsonNode::Number(number) => wanted == "float" || (wanted == "int" && !number.is_f64()),
        _ => false,
    };
    if fits { Ok(node) } else { Err(format!("cannot decode `{text}` as a !!{wanted}")) }
}

/// Infinity and "no number", which JSON has not: as a key, and as Go shows it.
fn endless(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<(&'static str, &'static str)> {
    let may_be = match tag {
        None => style == ScalarStyle::Plain,
        Some(tag) => tag.core_suffix() == Some("float"),
    };
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" if may_be => Some((".inf", "+Inf")),
        "-.inf" | "-.Inf" | "-.INF" if may_be => Some(("-.inf", "-Inf")),
        ".nan" | ".NaN" | ".NAN" if may_be => Some((".nan", "NaN")),
        _ => None,
    }
}

/// What a text without quotes stands for.
fn plain(text: &str) -> JsonNode {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => JsonNode::Null,
        "true" | "True" | "TRUE" => JsonNode::Bool(true),
        "false" | "False" | "FALSE" => JsonNode::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => JsonNode::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => JsonNode::Bool(false),
        // YAML takes 2.0 for a whole number.
        _ => {
            number(text).map_or_else(|| JsonNode::String(text.into()), |number| JsonNode::Number(plain_number(number)))
        }
    }
}

/// The number that a text is. As in Go, its first character tells whether it may be one.
fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let text = text.replace('_', "");
    integer(&text).or_else(|| float(&text))
}

/// A number in the base that its prefix tells; a mere 0 tells of octal digits. None: it is not whole, or longer than 64 bits.
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
        return None;
    }
    match &text[..text.len() - unsigned.len()] {
        "" => u64::from_str_radix(digits, base).ok().map(Number::from),
        sign => i64::from_str_radix(&format!("{sign}{digits}"), base).ok().map(Number::from),
    }
}

/// A number with a point or an exponent as a key: as Go prints one of 32 bits.
fn float_key(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "so does Go")]
    let number = number as f32;
    general(&format!("{number:e}")).unwrap_or_else(|| number.to_string())
}

/// A number with a fraction or an exponent as YAML.
fn float_text(number: f64) -> String {
    general(&format!("{number:e}")).unwrap_or_else(|| number.to_string())
}

/// The form with an exponent, if Go prefers it to the full one. `printed` is Rust's form with an exponent.
fn general(printed: &str) -> Option<String> {
    let (digits, exponent) = printed.split_once('e')?;
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| !(-4..6).contains(exponent))?;
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{digits}e{sign}{:02}", exponent.abs()))
}

/// A decimal number that is neither endless nor too large.
fn float(text: &str) -> Option<Number> {
    text.parse().ok().and_then(Number::from_f64)
}

/// Whether a key is the `<<` that merges: in quotes, it is a key like others.
fn merges(key: &Event<'_>) -> bool {
    let Event::Scalar(text, style, _, tag) = key else { return false };
    let merge = match tag {
        Some(tag) => tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("merge"),
        None => *style == ScalarStyle::Plain,
    };
    merge && text == "<<"
}

fn inside(room: usize) -> Result<usize, String> {
    room.checked_sub(1).ok_or_else(too_deep)
}

fn too_deep() -> String {
    format!("exceeded max depth of {DEEPEST}")
}

fn complaint(error: &ScanError) -> String {
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep();
    }
    format!("line {}: {}", error.marker().line(), error.info())
}

/// Takes the weight of a node off what is left, and answers how deep it nests. None: it is heavier than that.
fn weigh(node: &JsonNode, left: &mut usize) -> Option<usize> {
    let mut take = |text: &str| {
        *left = left.checked_sub(size_of::<JsonNode>() + text.len())?;
        Some(())
    };
    match node {
        JsonNode::String(text) => take(text).map(|()| 0),
        JsonNode::List(items) => {
            take("")?;
            items.iter().try_fold(1, |height, item| Some(height.max(1 + weigh(item, left)?)))
        }
        JsonNode::Map(members) => {
            take("")?;
            members.iter().try_fold(1, |height, (key, node)| {
                *left = left.checked_sub(size_of::<String>() + key.len())?;
                Some(height.max(1 + weigh(node, left)?))
            })
        }
        JsonNode::Null | JsonNode::Bool(_) | JsonNode::Number(_) => take("").map(|()| 0),
    }
}

#[cfg(test)]
mod tests;
