//! JSON patches (RFC 6902), with limits on what one patch may do.

use std::collections::HashSet;
use std::io;

use pintle_json::{Json, Map};

use super::PatchError;
use crate::{DEEPEST, JsonNode, StrictFinding};

/// A JSON patch of more operations is refused.
const MOST_OPERATIONS: usize = 10_000;
/// So many bytes may be copied in all.
const MOST_COPIED: usize = 3 * 1024 * 1024;
/// The values that are put in their places may have so many parts in all: how deep they reach is found by walking them, and a
/// patch that moves a large one to and fro would take minutes.
const MOST_PLACED: usize = 10_000_000;
/// The items of lists may make room for others, or close up where others were, so often in all.
const MOST_SHIFTED: usize = 100_000_000;

/// A list of operations, done one after another. Those that copy more than 3 MiB in all, or that would nest a value deeper than
/// 127 lists and objects, cannot be applied to an object.
#[derive(Clone, Debug)]
pub struct JsonPatch {
    operations: Vec<PatchOperation>,
    findings: Vec<StrictFinding>,
    text: String,
}

#[derive(Clone, Debug, Default)]
struct PatchOperation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    /// None where it is absent.
    value: Option<Json>,
}

impl JsonPatch {
    pub(super) fn read(body: &[u8]) -> Result<Self, PatchError> {
        let bad = |why: String| PatchError::BadRequest(format!("error decoding patch: {why}"));
        let nodes = match JsonNode::from_json(body).map_err(bad)? {
            JsonNode::List(nodes) => nodes,
            JsonNode::Null => Vec::new(),
            other => {
                return Err(bad(format!(
                    "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                    other.shape()
                )));
            }
        };
        if nodes.len() > MOST_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                nodes.len()
            )));
        }
        let mut patch = Self {
            operations: Vec::with_capacity(nodes.len()),
            findings: Vec::new(),
            text: String::from_utf8_lossy(body).into_owned(),
        };
        for (at, node) in nodes.into_iter().enumerate() {
            let operation = patch.operation(at, node).map_err(bad)?;
            patch.operations.push(operation);
        }
        Ok(patch)
    }

    pub(super) fn findings(&self) -> &[StrictFinding] {
        &self.findings
    }

    pub(super) fn told(&self) -> String {
        self.text.clone()
    }

    pub(super) fn apply(&self, object: &Json) -> Result<Json, PatchError> {
        let mut object = object.clone();
        let mut effort = Effort::default();
        for (at, operation) in self.operations.iter().enumerate() {
            if operation.apply(&mut object, &mut effort).is_none() {
                let excess =
                    effort.excess.map(|why| PatchError::Excessive(format!("operation {at} of the patch {why}")));
                return Err(excess.unwrap_or(PatchError::Inapplicable));
            }
        }
        Ok(object)
    }

    fn operation(&mut self, at: usize, node: JsonNode) -> Result<PatchOperation, String> {
        let members = match node {
            JsonNode::Map(members) => members,
            JsonNode::Null => Vec::new(),
            other => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    other.shape()
                ));
            }
        };
        let mut operation = PatchOperation::default();
        let mut seen = HashSet::new();
        for (name, node) in members {
            if !seen.insert(name.clone()) {
                self.find("duplicate", at, &name);
            }
            let text = |node: JsonNode| match node {
                JsonNode::String(text) => Ok(Some(text)),
                JsonNode::Null => Ok(None),
                other => Err(format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                    other.shape()
                )),
            };
            match name.as_str() {
                "op" => operation.op = text(node)?.unwrap_or_default(),
                "path" => operation.path = text(node)?,
                "from" => operation.from = text(node)?,
                "value" => operation.value = Some(node.into_verbatim()),
                _ => self.find("unknown", at, &name),
            }
        }
        Ok(operation)
    }

    fn find(&mut self, what: &str, at: usize, name: &str) {
        crate::note(&mut self.findings, || {
            StrictFinding::Other(format!("json patch {what} field {:?}", format!("[{at}].{name}")))
        });
    }
}

impl PatchOperation {
    /// None if it cannot be done.
    fn apply(&self, object: &mut Json, effort: &mut Effort) -> Option<()> {
        let path = self.path.as_deref()?;
        let value = self.value.as_ref().unwrap_or(&Json::Null);
        match (self.op.as_str(), path) {
            ("replace", "") => {
                *object = value.clone();
                Some(())
            }
            ("test", "") => (object == value).then_some(()),
            ("add", path) => {
                effort.place(path, value)?;
                add(object, path, value.clone(), effort)
            }
            ("replace", path) => {
                effort.place(path, value)?;
                replace(object, path, value.clone())
            }
            ("remove", path) => remove(object, path, effort).map(drop),
            ("move", path) => {
                let value = remove(object, self.from.as_deref()?, effort)?;
                effort.place(path, &value)?;
                add(object, path, value, effort)
            }
            ("copy", path) => {
                let (parent, key) = parent(object, self.from.as_deref()?)?;
                let value = get(parent, &key)?.unwrap_or(&Json::Null);
                effort.copy(value)?;
                effort.place(path, value)?;
                let value = value.clone();
                add(object, path, value, effort)
            }
            ("test", path) => {
                let (parent, key) = parent(object, path)?;
                (get(parent, &key)?.unwrap_or(&Json::Null) == value).then_some(())
            }
            _ => None,
        }
    }
}

/// What a patch has cost so far.
#[derive(Default)]
struct Effort {
    copied: usize,
    placed: usize,
    shifted: usize,
    /// In what the patch goes too far, in words.
    excess: Option<String>,
}

impl Effort {
    /// Counts a value that is to stand at the path. None if it is one too many, or would stand too deep.
    fn place(&mut self, path: &str, value: &Json) -> Option<()> {
        let above = path.matches('/').count();
        let placed = DEEPEST.checked_sub(above).and_then(|room| self.count(value, room));
        if placed.is_none() {
            self.excess = Some(match self.placed > MOST_PLACED {
                true => format!("is one too many: they put more than {MOST_PLACED} values in their places"),
                false => format!("would nest a value deeper than {DEEPEST} lists and objects"),
            });
        }
        placed
    }

    /// Counts a value and its parts; containers may stand one in another as often as there is room.
    fn count(&mut self, value: &Json, room: usize) -> Option<()> {
        self.placed += 1;
        if self.placed > MOST_PLACED {
            return None;
        }
        match value {
            Json::Object(members) => {
                let room = room.checked_sub(1)?;
                members.values().try_for_each(|value| self.count(value, room))
            }
            Json::Array(items) => {
                let room = room.checked_sub(1)?;
                items.iter().try_for_each(|value| self.count(value, room))
            }
            _ => Some(()),
        }
    }

    /// Counts the items of a list that change their places. None if they are too many.
    fn shift(&mut self, items: usize) -> Option<()> {
        self.shifted += items;
        if self.shifted > MOST_SHIFTED {
            let most = MOST_SHIFTED;
            self.excess = Some(format!("is one too many: they move the items of lists more than {most} times"));
            return None;
        }
        Some(())
    }

    /// Counts a value that is to be copied, before it is. None if it is too large.
    fn copy(&mut self, value: &Json) -> Option<()> {
        pintle_json::to_writer(self, value).ok()
    }
}

impl io::Write for Effort {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.copied += text.len();
        match self.copied <= MOST_COPIED {
            true => Ok(text.len()),
            false => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The map or list that holds what a path names, and the last part of the path. The part before the first slash does not count.
fn parent<'a>(object: &'a mut Json, path: &str) -> Option<(&'a mut Json, String)> {
    let (_, path) = path.split_once('/')?;
    let (above, key) = path.rsplit_once('/').map_or((None, path), |(above, key)| (Some(above), key));
    let mut at = object;
    for part in above.into_iter().flat_map(|above| above.split('/')) {
        let part = unescape(part);
        at = match at {
            Json::Object(members) => members.get_mut(&part)?,
            Json::Array(items) => {
                let at = index(&part, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then(|| (at, unescape(key)))
}

fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let (text, skip) = match tail.as_bytes().get(1) {
            Some(b'1') => ("/", 2),
            Some(b'0') => ("~", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = &tail[skip..];
    }
    out.push_str(rest);
    out
}

/// The place in a list of this length; a negative index counts from the end.
fn index(part: &str, length: usize) -> Option<usize> {
    let index: i64 = part.parse().ok()?;
    let index = if index < 0 { index + i64::try_from(length).ok()? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// An absent member of a map is found, as nothing; of a list it is not.
fn get<'a>(parent: &'a Json, key: &str) -> Option<Option<&'a Json>> {
    match parent {
        Json::Object(members) => Some(members.get(key)),
        Json::Array(items) => items.get(index(key, items.len())?).map(Some),
        _ => None,
    }
}

fn add(object: &mut Json, path: &str, value: Json, effort: &mut Effort) -> Option<()> {
    let (parent, key) = parent(object, path)?;
    match parent {
        Json::Object(members) => put(members, key, value),
        Json::Array(items) if key == "-" => items.push(value),
        Json::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            effort.shift(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(object: &mut Json, path: &str, value: Json) -> Option<()> {
    let (parent, key) = parent(object, path)?;
    match parent {
        Json::Object(members) => put(members, key, value),
        Json::Array(items) => {
            let at = index(&key, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Json, path: &str, effort: &mut Effort) -> Option<Json> {
    let (parent, key) = parent(object, path)?;
    match parent {
        Json::Object(members) => members.remove(&key),
        Json::Array(items) => {
            let at = index(&key, items.len())?;
            effort.shift(items.len() - at)?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn put(members: &mut Map, key: String, value: Json) {
    members.insert(key, value);
}
