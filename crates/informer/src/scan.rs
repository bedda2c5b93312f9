//! Scans the bytes of an object to find its identity and the fields to drop. A scan reads each byte at most once. The
//! scan ends after the metadata if no later field is dropped.

mod cursor;
mod managers;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pintle_meta::ObjectKey;

use self::cursor::Cursor;
use self::managers::Newest;
use crate::projection::Projection;
use crate::stored::{Content, HeadText, Record, Source};
use crate::writer::LastWrite;

#[derive(Debug)]
pub(crate) struct Scanner {
    /// The field names of the projection, stored as a tree. The first node is the root, and the second node is the
    /// metadata.
    nodes: Vec<Node>,
}

type Node = Vec<(String, Action)>;

#[derive(Clone, Copy, Debug)]
enum Action {
    Enter(usize),
    Read(Field),
    Cut,
    /// Read the field managers of the newest write, and keep the field.
    ReadManagers,
    /// Read the field managers of the newest write, and cut the field.
    CutManagers,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    DeletionTimestamp,
    Generation,
}

const FIELDS: usize = 6;

/// The result of a scan: the positions of the identity fields, and the byte ranges to cut.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// The byte range of each [`Field`]'s value. The range of a string excludes the quotes. The generation is a number
    /// and has no quotes.
    texts: [Option<Range<usize>>; FIELDS],
    /// Whether a field that must be a string has another type.
    is_odd: bool,
    metadata: Range<usize>,
    /// The byte ranges to cut. The ranges are in order and do not overlap.
    cuts: Vec<Range<usize>>,
    newest: Newest,
}

const ROOT: usize = 0;
const METADATA: usize = 1;

/// The maximum nesting depth. The scanner and the decoder reject deeper objects, because
/// `serde_json` has the same limit.
const MAX_DEPTH: usize = 128;

impl Scanner {
    pub(crate) fn new(projection: &Projection) -> Self {
        let metadata = [
            ("name", Field::Name),
            ("namespace", Field::Namespace),
            ("uid", Field::Uid),
            ("resourceVersion", Field::ResourceVersion),
            ("deletionTimestamp", Field::DeletionTimestamp),
            ("generation", Field::Generation),
        ];
        let root = vec![("metadata".to_owned(), Action::Enter(METADATA))];
        let metadata = metadata.map(|(name, field)| (name.to_owned(), Action::Read(field)));
        let mut scanner = Self { nodes: vec![root, metadata.into()] };
        projection.left_out.iter().for_each(|path| scanner.leave_out(path));
        scanner.read_managers();
        scanner
    }

    /// Makes the scanner read the field managers of the newest write. Does nothing if the projection drops only a part
    /// of `managedFields`.
    fn read_managers(&mut self) {
        const NAME: &str = Projection::MANAGED_FIELDS[1];
        let metadata = &mut self.nodes[METADATA];
        match metadata.iter_mut().find(|(name, _)| name == NAME) {
            None => metadata.push((NAME.to_owned(), Action::ReadManagers)),
            Some((_, action @ Action::Cut)) => *action = Action::CutManagers,
            Some(_) => {}
        }
    }

    fn leave_out(&mut self, path: &[String]) {
        let Some((last, way)) = path.split_last() else { return };
        let mut node = ROOT;
        for name in way {
            node = match action_of(&self.nodes[node], name.as_bytes()) {
                Some(Action::Enter(next)) => next,
                Some(_) => return,
                None => {
                    let next = self.nodes.len();
                    self.nodes.push(Node::new());
                    self.nodes[node].push((name.clone(), Action::Enter(next)));
                    next
                }
            };
        }
        self.nodes[node].retain(|(name, _)| name != last);
        self.nodes[node].push((last.clone(), Action::Cut));
    }

    /// Scans the bytes of an object. Returns `None` if the bytes are not a JSON object, and the decoder then reports
    /// the reason.
    ///
    /// The scanner skips irrelevant fields without validating them. The decoder validates the skipped fields later,
    /// unless the projection drops them. If a field occurs twice in the metadata, the last occurrence is used.
    pub(crate) fn scan(&self, json: &[u8]) -> Option<Outline> {
        let ends_with_metadata = self.nodes[ROOT].len() == 1;
        let mut walk =
            Walk { nodes: &self.nodes, cursor: Cursor::new(json), open: Vec::new(), outline: Outline::default() };
        walk.cursor.skip_white();
        walk.enter(ROOT, false)?;
        while let Some(here) = walk.open.last() {
            let end = if here.is_array { b']' } else { b'}' };
            walk.cursor.skip_white();
            if walk.cursor.take(end).is_none() {
                walk.go_on()?;
            } else if walk.open.pop().is_some_and(|closed| closed.node == METADATA) {
                walk.outline.metadata.end = walk.cursor.at();
                if ends_with_metadata {
                    break;
                }
            }
        }
        Some(walk.outline)
    }
}

struct Walk<'a> {
    nodes: &'a [Node],
    cursor: Cursor<'a>,
    /// The objects and arrays that enclose the current position, ordered from the outermost to the innermost.
    open: Vec<Open>,
    outline: Outline,
}

struct Open {
    node: usize,
    is_array: bool,
    /// Whether a member or item has already been read, so that the next member or item requires a comma.
    has_begun: bool,
    /// Whether a previous member or item of this object or array is kept.
    has_kept: bool,
}

impl Walk<'_> {
    fn enter(&mut self, node: usize, is_array: bool) -> Option<()> {
        self.cursor.take(if is_array { b'[' } else { b'{' })?;
        self.open.push(Open { node, is_array, has_begun: false, has_kept: false });
        (self.open.len() <= MAX_DEPTH).then_some(())
    }

    /// Reads one member or item. Skips the value of the field, or enters the value if it may contain relevant fields.
    fn go_on(&mut self) -> Option<()> {
        let here = self.open.last_mut()?;
        let comma = self.cursor.at();
        if here.has_begun {
            self.cursor.take(b',')?;
            self.cursor.skip_white();
        }
        here.has_begun = true;
        let start = self.cursor.at();
        let action = if here.is_array {
            Some(Action::Enter(here.node))
        } else {
            let name = self.cursor.text()?;
            self.cursor.skip_white();
            self.cursor.take(b':')?;
            self.cursor.skip_white();
            action_of(&self.nodes[here.node], unescaped(self.cursor.bytes(), name)?.as_bytes())
        };
        match action {
            Some(Action::Cut) => {
                self.cursor.skip_value()?;
                return self.cut(start, comma);
            }
            Some(Action::CutManagers) => {
                self.outline.newest = Newest::read(&mut self.cursor)?;
                return self.cut(start, comma);
            }
            _ => here.has_kept = true,
        }
        let node = match action {
            Some(Action::Enter(node)) => node,
            Some(Action::Read(field)) => return self.read(field),
            Some(Action::ReadManagers) => {
                self.outline.newest = Newest::read(&mut self.cursor)?;
                return Some(());
            }
            _ => return self.cursor.skip_value(),
        };
        match self.cursor.peek()? {
            b'{' => {
                if node == METADATA {
                    self.outline.metadata.start = self.cursor.at();
                }
                self.enter(node, false)
            }
            // Do not enter arrays here, because the metadata must be an object.
            b'[' if node != METADATA => self.enter(node, true),
            _ => self.cursor.skip_value(),
        }
    }

    fn read(&mut self, field: Field) -> Option<()> {
        let (start, first) = (self.cursor.at(), self.cursor.peek()?);
        self.cursor.skip_value()?;
        let value = start..self.cursor.at();
        self.outline.texts[field as usize] = match (first, field) {
            (b'n', _) => None,
            (_, Field::Generation) => Some(value),
            (b'"', _) => Some(value.start + 1..value.end - 1),
            _ => {
                self.outline.is_odd = true;
                None
            }
        };
        Some(())
    }

    /// Removes the member between `start` and the cursor, including the preceding comma. If no previous member of the
    /// object is kept, this method removes the following comma instead.
    fn cut(&mut self, start: usize, comma: usize) -> Option<()> {
        let here = self.open.last_mut()?;
        let mut cut = if here.has_kept { comma } else { start }..self.cursor.at();
        if !here.has_kept {
            self.cursor.skip_white();
            if self.cursor.take(b',').is_some() {
                self.cursor.skip_white();
                here.has_begun = false;
                cut.end = self.cursor.at();
                if self.cursor.peek() == Some(b'}') {
                    return None;
                }
            }
        }
        self.outline.cuts.push(cut);
        Some(())
    }
}

impl Outline {
    pub(crate) fn uid<'a>(&self, json: &'a [u8]) -> Option<Cow<'a, str>> {
        self.text(json, Field::Uid)
    }

    pub(crate) fn resource_version<'a>(&self, json: &'a [u8]) -> Option<Cow<'a, str>> {
        self.text(json, Field::ResourceVersion)
    }

    pub(crate) fn key(&self, json: &[u8]) -> Option<ObjectKey> {
        let name = self.text(json, Field::Name)?;
        Some(ObjectKey::new(&self.text(json, Field::Namespace).unwrap_or_default(), &name))
    }

    pub(crate) fn last_write(&self, json: &[u8]) -> LastWrite {
        let text = |at: &Range<usize>| &json[at.clone()];
        let writers = self.newest.entries();
        let writers = writers.iter().map(|entry| [&entry.manager, &entry.operation, &entry.subresource].map(text));
        let size = self.newest.entries().last().map_or(0, |entry| entry.size);
        LastWrite::new(writers, text(&self.newest.time()), size)
    }

    pub(crate) fn pruned<'a>(&self, json: &'a [u8]) -> Cow<'a, [u8]> {
        if self.cuts.is_empty() {
            return Cow::Borrowed(json);
        }
        let mut pruned = Vec::with_capacity(self.after_cuts(json.len()));
        self.kept(json).for_each(|part| pruned.extend_from_slice(part));
        Cow::Owned(pruned)
    }

    /// Creates the stored form of an object from its scanned bytes. Returns `None` if the object lacks a name or has
    /// unusual metadata, because only the decoder can determine whether the object is valid.
    pub(crate) fn record<T>(&self, json: &[u8], source: &Arc<Source<T>>) -> Option<Record<T>> {
        self.texts[Field::Name as usize].as_ref().filter(|name| !name.is_empty())?;
        if self.is_odd {
            return None;
        }
        let generation = match &self.texts[Field::Generation as usize] {
            Some(at) => serde_json::from_slice(&json[at.clone()]).ok()?,
            None => 0,
        };
        let content = Content {
            head: [
                self.head_text(json, Field::Name)?,
                self.head_text(json, Field::Namespace)?,
                self.head_text(json, Field::Uid)?,
                self.head_text(json, Field::ResourceVersion)?,
            ],
            generation,
            is_terminating: self.texts[Field::DeletionTimestamp as usize].is_some(),
            json: self.kept(json).collect(),
            last_write: self.last_write(json),
            metadata_at: self.after_cuts(self.metadata.start)..self.after_cuts(self.metadata.end),
        };
        Record::new(source, &content)
    }

    fn kept<'a>(&self, json: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let starts = [0].into_iter().chain(self.cuts.iter().map(|cut| cut.end));
        let ends = self.cuts.iter().map(|cut| cut.start).chain([json.len()]);
        starts.zip(ends).map(|(start, end)| &json[start..end])
    }

    /// Converts the position of a byte to its position after the cut.
    fn after_cuts(&self, at: usize) -> usize {
        at - self.cuts.iter().take_while(|cut| cut.end <= at).map(ExactSizeIterator::len).sum::<usize>()
    }

    /// Returns the text of a field in the remaining JSON. Returns `None` if the text is invalid.
    fn head_text(&self, json: &[u8], field: Field) -> Option<HeadText> {
        let Some(at) = self.texts[field as usize].clone() else { return Some(HeadText::InJson(0..0)) };
        Some(match unescaped(json, at.clone())? {
            Cow::Borrowed(_) => HeadText::InJson(self.after_cuts(at.start)..self.after_cuts(at.end)),
            Cow::Owned(text) => HeadText::Unescaped(text),
        })
    }

    fn text<'a>(&self, json: &'a [u8], field: Field) -> Option<Cow<'a, str>> {
        unescaped(json, self.texts[field as usize].clone()?)
    }
}

fn action_of(node: &Node, name: &[u8]) -> Option<Action> {
    node.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, action)| *action)
}

/// Returns the content of the JSON string whose range between the quotes is given. Returns `None` if the content is not
/// valid JSON or not UTF-8.
fn unescaped(json: &[u8], text: Range<usize>) -> Option<Cow<'_, str>> {
    if json[text.clone()].contains(&b'\\') {
        return serde_json::from_slice(&json[text.start - 1..=text.end]).ok().map(Cow::Owned);
    }
    str::from_utf8(&json[text]).ok().map(Cow::Borrowed)
}

#[cfg(test)]
mod tests;
