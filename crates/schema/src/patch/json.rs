//! JSON patches (RFC 6902), with limits on the cost of one patch.

use std::collections::HashSet;
use std::io;

use pintle_json::{Json, Map};

use super::PatchError;
use crate::{DEEPEST, JsonNode, StrictFinding};

/// The maximum number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;
/// The maximum number of bytes that a patch copies.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The maximum number of values that a patch inserts, including nested values. To find the depth of an inserted value, the code visits all
/// values inside it. Without this limit, a patch that moves a large value back and forth would take minutes.
const MAX_PLACED: usize = 10_000_000;
/// The maximum number of list items that a patch shifts in all. Inserting or removing an item shifts all items behind it.
const MAX_SHIFTED: usize = 100_000_000;

/// A JSON patch. Its operations are applied in order. Applying fails if the operations copy more than 3 MiB in total, or if a value would
/// be nested in more than 127 lists and objects.
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
    /// The value. `None` if the operation has no member `value`.
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
        if nodes.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
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

    pub(super) fn display_text(&self) -> String {
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

    fn find(&mut self, problem: &str, at: usize, name: &str) {
        crate::note(&mut self.findings, || {
            StrictFinding::Other(format!("json patch {problem} field {:?}", format!("[{at}].{name}")))
        });
    }
}

impl PatchOperation {
    /// Returns `None` if the operation cannot be applied.
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

/// The counts that are compared with the limits of a patch.
#[derive(Default)]
struct Effort {
    copied: usize,
    placed: usize,
    shifted: usize,
    /// The error text if the patch has exceeded a limit.
    excess: Option<String>,
}

impl Effort {
    /// Counts a value before it is inserted at the path. Returns `None` if the count exceeds the limit, or if the value would be nested too
    /// deeply.
    fn place(&mut self, path: &str, value: &Json) -> Option<()> {
        let above = path.matches('/').count();
        let placed = DEEPEST.checked_sub(above).and_then(|levels_left| self.count(value, levels_left));
        if placed.is_none() {
            self.excess = Some(match self.placed > MAX_PLACED {
                true => format!("exceeds the limit of the patch: it can place at most {MAX_PLACED} values"),
                false => format!("would nest a value deeper than {DEEPEST} lists and objects"),
            });
        }
        placed
    }

    /// Counts a value and all values inside it. `levels_left` is the number of nesting levels that are still allowed.
    fn count(&mut self, value: &Json, levels_left: usize) -> Option<()> {
        self.placed += 1;
        if self.placed > MAX_PLACED {
            return None;
        }
        match value {
            Json::Object(members) => {
                let levels_left = levels_left.checked_sub(1)?;
                members.values().try_for_each(|value| self.count(value, levels_left))
            }
            Json::Array(items) => {
                let levels_left = levels_left.checked_sub(1)?;
                items.iter().try_for_each(|value| self.count(value, levels_left))
            }
            _ => Some(()),
        }
    }

    /// Counts shifted list items. Returns `None` if the count exceeds the limit.
    fn shift(&mut self, items: usize) -> Option<()> {
        self.shifted += items;
        if self.shifted > MAX_SHIFTED {
            let most = MAX_SHIFTED;
            self.excess = Some(format!("exceeds the limit of the patch: it can shift list items at most {most} times"));
            return None;
        }
        Some(())
    }

    /// Counts the bytes of a value before it is copied. Returns `None` if the count exceeds the limit.
    fn copy(&mut self, value: &Json) -> Option<()> {
        pintle_json::to_writer(self, value).ok()
    }
}

impl io::Write for Effort {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.copied += text.len();
        match self.copied <= MAX_COPIED {
            true => Ok(text.len()),
            false => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the map or list that contains the target of a path, and the last segment. Ignores the text before the first slash.
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

/// Parses an index into a list of this length. A negative index counts from the end.
fn index(part: &str, length: usize) -> Option<usize> {
    let index: i64 = part.parse().ok()?;
    let index = if index < 0 { index + i64::try_from(length).ok()? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// Returns the value at a key of a map or list. Returns `Some(None)` for an absent member of a map, and `None` for an absent item of a
/// list.
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
