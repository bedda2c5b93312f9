//! A YAML document as a tree with line numbers. The YAML parser rejects deep nesting and large alias expansions before
//! they use much memory.

use std::collections::HashMap;
use std::rc::Rc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use zeroize::Zeroizing;

use super::scalar::{Meaning, resolve};

/// The maximum size of the text in bytes, and of all values together after aliases are expanded.
pub(crate) const MAX_SIZE: usize = 16 << 20;
/// The assumed size of a value in bytes, without its text.
const NODE: usize = 64;
const MAX_NESTING: usize = 128;
/// The maximum number of YAML directives. Without this limit, parsing would be slow, because the parser compares each
/// `%TAG` directive with all earlier ones.
const MAX_DIRECTIVES: usize = 64;
const MERGE: &str = "<<";

pub(super) struct Document {
    /// The root value, or `None` if the text contains no document.
    pub(super) root: Option<Rc<Node>>,
    /// The repeated keys, with the line of each second occurrence.
    pub(super) repeated: Vec<(String, usize)>,
}

/// A YAML value, whose text is erased from memory on drop.
pub(super) struct Node {
    /// The line where the value starts, counted from 1.
    pub(super) line: usize,
    pub(super) content: Content,
    weight: usize,
    /// The height of the tree below this value.
    height: usize,
}

pub(super) enum Content {
    Scalar {
        text: Zeroizing<String>,
        meaning: Meaning,
    },
    List(Vec<Rc<Node>>),
    /// A map in which each key occurs only once.
    Map(Vec<Member>),
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Rc<Node>,
}

impl Document {
    /// Reads the first document and ignores all further documents, like kubectl.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.len() > MAX_SIZE {
            return Err(format!("it is larger than {MAX_SIZE} bytes"));
        }
        if text.lines().filter(|line| line.starts_with('%')).count() > MAX_DIRECTIVES {
            return Err(format!("it has more than {MAX_DIRECTIVES} directives"));
        }
        let events = Parser::new_from_str_with_options(text, options());
        let mut reader = Reader { text, events, anchors: HashMap::new(), weight: 0, repeated: Vec::new() };
        let root = match reader.next()? {
            Some((event, span)) => Some(reader.node(event, span)?),
            None => None,
        };
        Ok(Self { root, repeated: reader.repeated })
    }
}

fn options() -> Options {
    // These options make the parser behave like libyaml, kubectl's parser, which deviates from the YAML specification.
    granit_parser::options! {
        strict_indentation: false,
        block_scalar_eof_without_line_feed: true,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    }
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Rc<Node>>,
    /// The total size of all values that were read so far.
    weight: usize,
    repeated: Vec<(String, usize)>,
}

impl<'a> Reader<'a> {
    /// Returns the next parser event for the start or end of a value, or `None` at the end of the document or input.
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, String> {
        loop {
            match self.events.next_event() {
                Some(Ok((
                    event @ (Event::Scalar(..)
                    | Event::Alias(..)
                    | Event::SequenceStart(..)
                    | Event::SequenceEnd
                    | Event::MappingStart(..)
                    | Event::MappingEnd),
                    span,
                ))) => return Ok(Some((event, span))),
                Some(Ok((Event::DocumentEnd | Event::StreamEnd, _))) | None => return Ok(None),
                Some(Ok(_)) => {}
                // This message quotes at most one character of the input, which can contain secrets.
                Some(Err(error)) => return Err(format!("{}, at line {}", error.info(), error.marker().line())),
            }
        }
    }

    fn part(&mut self) -> Result<(Event<'a>, Span), String> {
        self.next()?.ok_or_else(|| "it ends within a list or a map".into())
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Rc<Node>, String> {
        let (line, before) = (span.start.line(), self.weight);
        let (content, anchor, inner) = match event {
            Event::Alias(anchor) => {
                let aliased = self.anchors.get(&anchor).cloned();
                let aliased =
                    aliased.ok_or(format!("an alias refers to a value that contains the alias, at line {line}"))?;
                self.weigh(aliased.weight, line)?;
                return Ok(aliased);
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.weigh(text.len(), line)?;
                let text = Zeroizing::new(text.into_owned());
                if style == ScalarStyle::DoubleQuoted && self.has_escaped_slash(&span) {
                    return Err(format!("`\\/` is not an escape that kubectl supports; write `/`, at line {line}"));
                }
                (scalar(text, style, tag.as_deref(), line)?, anchor, 0)
            }
            Event::SequenceStart(_, anchor, _) => {
                let items = self.list()?;
                let inner = items.iter().map(|item| item.height).max().unwrap_or(0) + 1;
                (Content::List(items), anchor, inner)
            }
            Event::MappingStart(_, anchor, _) => {
                let members = self.map()?;
                let inner = members.iter().map(|member| member.node.height).max().unwrap_or(0) + 1;
                (Content::Map(members), anchor, inner)
            }
            _ => return Err(format!("invalid YAML at line {line}")),
        };
        self.weigh(NODE, line)?;
        if inner > MAX_NESTING {
            return Err(format!("its aliases nest more than {MAX_NESTING} lists and maps at line {line}"));
        }
        let node = Rc::new(Node { line, content, weight: self.weight - before, height: inner });
        self.anchors.insert(anchor, node.clone());
        Ok(node)
    }

    fn weigh(&mut self, more: usize, line: usize) -> Result<(), String> {
        self.weight += more;
        if self.weight > MAX_SIZE {
            Err(format!("its values exceed {MAX_SIZE} bytes after the expansion of aliases, at line {line}"))
        } else {
            Ok(())
        }
    }

    fn list(&mut self) -> Result<Vec<Rc<Node>>, String> {
        let mut items = Vec::new();
        loop {
            match self.part()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    /// Reads a map. For a repeated key, the last value takes precedence, even if it comes from a merge key (`<<`).
    fn map(&mut self) -> Result<Vec<Member>, String> {
        let (mut members, mut places) = (Vec::new(), HashMap::new());
        loop {
            let (event, span) = self.part()?;
            if event == Event::MappingEnd {
                return Ok(members);
            }
            let line = span.start.line();
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == MERGE);
            let key = self.node(event, span)?;
            let (event, span) = self.part()?;
            let node = self.node(event, span)?;
            if is_merge {
                merged(&node)?.into_iter().for_each(|member| drop(set(&mut members, &mut places, member)));
            } else {
                let member = Member { key: key_text(&key)?, line, node };
                self.repeated.extend(set(&mut members, &mut places, member));
            }
        }
    }

    /// Returns `true` if a double-quoted scalar contains the escape sequence `\/`, which is valid in YAML 1.2 and JSON,
    /// but not in YAML 1.1.
    fn has_escaped_slash(&self, span: &Span) -> bool {
        let mut source = span.slice(self.text).unwrap_or_default().bytes();
        while let Some(byte) = source.next() {
            if byte == b'\\' && source.next() == Some(b'/') {
                return true;
            }
        }
        false
    }
}

/// Adds a field to a map. If the key is repeated, the new field replaces the earlier one, and the method returns the
/// key and the new field's line.
fn set(members: &mut Vec<Member>, places: &mut HashMap<String, usize>, member: Member) -> Option<(String, usize)> {
    let Some(&place) = places.get(&member.key) else {
        places.insert(member.key.clone(), members.len());
        members.push(member);
        return None;
    };
    let replaced = (member.key.clone(), member.line);
    members[place] = member;
    Some(replaced)
}

/// Returns the fields that the merge key `<<` adds to a map. `node` is a map or a list of maps. If several maps contain
/// the same key, the first map takes precedence.
fn merged(node: &Node) -> Result<Vec<Member>, String> {
    let fault = || format!("the value of `<<` is not a map or a list of maps, at line {}", node.line);
    match &node.content {
        Content::Map(members) => Ok(members.clone()),
        Content::List(items) => {
            let maps = items.iter().rev().map(|item| match &item.content {
                Content::Map(members) => Ok(members.clone()),
                _ => Err(fault()),
            });
            Ok(maps.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Content::Scalar { .. } => Err(fault()),
    }
}

fn key_text(key: &Node) -> Result<String, String> {
    match &key.content {
        Content::Scalar { text, meaning: Meaning::Text } => Ok(text.to_string()),
        Content::Scalar { meaning: Meaning::Bool(flag), .. } => Ok(flag.to_string()),
        Content::Scalar { meaning: Meaning::Number(number), .. } => Ok(number.to_string()),
        _ => Err(format!("a map key is not a string, at line {}", key.line)),
    }
}

fn scalar(text: Zeroizing<String>, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Content, String> {
    const NAMESPACE: &str = "tag:yaml.org,2002:";
    let meaning = match tag.map(|tag| tag.suffix_in_namespace(NAMESPACE)) {
        None if style == ScalarStyle::Plain => resolve(&text),
        Some(Some(suffix)) if matches!(&*suffix, "null" | "bool" | "int" | "float") => resolve(&text),
        Some(Some(suffix)) if suffix == "binary" => {
            let bytes = BASE64_STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| format!("the value tagged `!!binary` is not base64 text, at line {line}"))?;
            return Ok(Content::Scalar { text: Zeroizing::new(text), meaning: Meaning::Text });
        }
        _ => Meaning::Text,
    };
    Ok(Content::Scalar { text, meaning })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<String> {
        Document::read(text).err()
    }

    /// Creates a YAML text where each line refers to the previous line nine times, like the "billion laughs" attack.
    fn bomb(rows: usize) -> String {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for n in 1..rows {
            let row = format!("*a{}, ", n - 1).repeat(9);
            text.push_str(&format!("a{n}: &a{n} [{row}]\n"));
        }
        text
    }

    #[test]
    fn aliases_are_counted_before_they_are_expanded() {
        assert_eq!(fault(&bomb(4)), None);
        for rows in [7, 12, 40] {
            let error = fault(&bomb(rows)).unwrap();
            assert!(error.contains("aliases"), "{error}");
        }
        let flat = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), "*a, ".repeat(1_000));
        assert!(fault(&flat).unwrap().contains("line 2"));
        let mut chain = String::from("a0: &a0 {}\n");
        (1..=200).for_each(|n| chain.push_str(&format!("a{n}: &a{n} {{x: *a{}}}\n", n - 1)));
        assert!(fault(&chain).unwrap().contains("nest"));
    }

    #[test]
    fn oversized_deep_and_invalid_texts_are_rejected() {
        for text in ["#".repeat(MAX_SIZE + 1), "[".repeat(100_000), "{a: ".repeat(20_000), "a: &a [\n}".into()] {
            assert!(fault(&text).is_some(), "{}", &text[..10]);
        }
        assert_eq!(fault(&format!("users: [{}]", "{name: a}, ".repeat(10_000))), None);
        for open in ["[", "{a: ", "{\"a\":", "{? ", "[{"] {
            for close in ["", "]", "}"] {
                let text = open.repeat(MAX_NESTING + 1) + &close.repeat(MAX_NESTING + 1);
                assert!(fault(&text).is_some(), "{open} {close}");
            }
        }
        let directives =
            |count: usize| (0..count).map(|at| format!("%TAG !a{at}! b\n")).collect::<String>() + "---\n{}\n";
        assert_eq!(fault(&directives(MAX_DIRECTIVES)), None);
        assert!(fault(&directives(MAX_DIRECTIVES + 1)).is_some());
    }
}
