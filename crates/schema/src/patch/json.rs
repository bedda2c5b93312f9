//! JSON patches (RFC 6902) with cost limits.

use std::collections::HashSet;
use std::io;

use pintle_json::{Json, Map, Text};
use serde::de::{MapAccess, SeqAccess};

use super::PatchError;
use super::patched_text::touch;
use crate::DEEPEST;
use crate::finding::StrictFinding;
use crate::reader::Reader;
use crate::sink::{Name, Primitive, Seed, Sink, feed_json};

const MAX_OPERATIONS: usize = 10_000;
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The maximum number of inserted values, including nested values. Each insertion visits all nested values to check
/// their depth. Without this limit, a patch that moves a large value many times could take minutes.
const MAX_PLACED: usize = 10_000_000;
/// The maximum number of list items that a patch may shift. Inserting or removing a list item shifts all items after
/// it.
const MAX_SHIFTED: usize = 100_000_000;

/// A JSON patch, whose operations are applied in order. Applying a patch fails if the patch copies more than 3 MiB in
/// total, or if it nests a value in more than 127 lists and objects.
#[derive(Clone, Debug)]
pub struct JsonPatch {
    operations: Vec<PatchOperation>,
    /// If `true`, a `test` operation with the value null always fails.
    null_differs: bool,
    findings: Vec<StrictFinding>,
    text: String,
}

#[derive(Clone, Debug, Default)]
struct PatchOperation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Json>,
}

impl JsonPatch {
    pub(super) fn read(body: &[u8]) -> Result<Self, PatchError> {
        let bad = |why: String| PatchError::BadRequest(format!("error decoding patch: {why}"));
        // Go reports the field of the operation for a number that does not fit into a float.
        let of_value =
            |why: String| why.replace("Go value of type float64", "Go struct field jsonPatchOp.value of type float64");
        let operations = match feed_json(body, Operations).map_err(|why| bad(of_value(why)))? {
            Ok(operations) => operations,
            Err(Json::Null) => Vec::new(),
            Err(other) => {
                return Err(bad(format!(
                    "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                    other.type_name()
                )));
            }
        };
        if operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        let mut patch = Self {
            operations: Vec::with_capacity(operations.len()),
            null_differs: false,
            findings: Vec::new(),
            text: String::from_utf8_lossy(body).into_owned(),
        };
        for (at, members) in operations.into_iter().enumerate() {
            let operation = patch.operation(at, members).map_err(bad)?;
            patch.operations.push(operation);
        }
        Ok(patch)
    }

    pub(super) fn with_differing_nulls(self) -> Self {
        Self { null_differs: true, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub(super) fn findings(&self) -> &[StrictFinding] {
        &self.findings
    }

    /// Returns a tree with the objects that contain the targets of the operations.
    pub(super) fn touched(&self) -> Json {
        let mut tree = Json::Object(Map::new());
        for operation in &self.operations {
            let op = operation.op.as_str();
            if let (Some(from), "move" | "copy") = (&operation.from, op) {
                touch(&mut tree, from, false);
            }
            if let Some(path) = &operation.path {
                touch(&mut tree, path, matches!(op, "add" | "replace"));
            }
        }
        tree
    }

    pub(super) fn display_text(&self) -> String {
        self.text.clone()
    }

    pub(super) fn apply(&self, object: &Json) -> Result<Json, PatchError> {
        let mut object = object.clone();
        let mut effort = Effort::default();
        for (at, operation) in self.operations.iter().enumerate() {
            operation.apply(&mut object, &mut effort, self.null_differs).map_err(|error| match error {
                PatchError::Excessive(why) => PatchError::Excessive(format!("operation {at} of the patch {why}")),
                error => error,
            })?;
        }
        Ok(object)
    }

    fn operation(&mut self, at: usize, read: OperationMembers) -> Result<PatchOperation, String> {
        let members = match read {
            Ok(members) => members,
            Err(Json::Null) => Vec::new(),
            Err(other) => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    other.type_name()
                ));
            }
        };
        let mut operation = PatchOperation::default();
        let mut seen = HashSet::new();
        for (name, value) in members {
            if !seen.insert(name.clone()) {
                self.find("duplicate", at, &name);
            }
            let text = |value: Json| match value {
                Json::String(text) => Ok(Some(text.into())),
                Json::Null => Ok(None),
                other => Err(format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                    other.type_name()
                )),
            };
            match name.as_str() {
                "op" => operation.op = text(value)?.unwrap_or_default(),
                "path" => operation.path = text(value)?,
                "from" => operation.from = text(value)?,
                "value" => operation.value = Some(value),
                _ => self.find("unknown", at, &name),
            }
        }
        Ok(operation)
    }

    fn find(&mut self, problem: &str, at: usize, name: &str) {
        crate::finding::push_finding(&mut self.findings, || {
            StrictFinding::Other(format!("json patch {problem} field {:?}", format!("[{at}].{name}")))
        });
    }
}

/// The members of an operation in document order, with duplicates, or a value that is not an object.
type OperationMembers = Result<Vec<(Text, Json)>, Json>;

/// A [`Sink`] for the body of a patch. The result is an error with the value if the body is not a list.
struct Operations;

impl Sink for Operations {
    type Out = Result<Vec<OperationMembers>, Json>;

    fn primitive(self, found: Primitive<'_>) -> Self::Out {
        Err(found.into_verbatim())
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Out, A::Error> {
        let mut operations = Vec::new();
        while let Some(operation) = items.next_element_seed(Seed(Operation))? {
            operations.push(operation);
        }
        Ok(Ok(operations))
    }

    fn map<'de, A: MapAccess<'de>>(self, members: A) -> Result<Self::Out, A::Error> {
        Reader::verbatim().untyped_sink(None).map(members).map(Err)
    }
}

/// A [`Sink`] for one operation.
struct Operation;

impl Sink for Operation {
    type Out = OperationMembers;

    fn primitive(self, found: Primitive<'_>) -> OperationMembers {
        Err(found.into_verbatim())
    }

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<OperationMembers, A::Error> {
        Reader::verbatim().untyped_sink(None).list(items).map(Err)
    }

    fn map<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<OperationMembers, A::Error> {
        let mut reader = Reader::verbatim();
        let mut read = Vec::new();
        while let Some(Name(name)) = members.next_key()? {
            read.push((name, members.next_value_seed(Seed(reader.untyped_sink(None)))?));
        }
        Ok(Ok(read))
    }
}

impl PatchOperation {
    fn apply(&self, object: &mut Json, effort: &mut Effort, null_differs: bool) -> Result<(), PatchError> {
        let op = self.op.as_str();
        let undecoded = |member: &str| inapplicable(format!("{op} operation failed to decode {member}: {MISSING}"));
        let path = self.path.as_deref().ok_or_else(|| undecoded("path"))?;
        let from = || self.from.as_deref().ok_or_else(|| undecoded("from"));
        let absent = |what: &str| inapplicable(format!("{op} operation does not apply: {what}: {MISSING}"));
        let failed = |result, at: &str| in_context(result, |why| format!("error in {op} for {at}: {why}"));
        let value = self.value.as_ref().unwrap_or(&Json::Null);
        match (op, path) {
            ("replace", "") => {
                *object = value.clone();
                Ok(())
            }
            ("test", "") => tested("", object == value),
            ("add", path) => {
                effort.place(path, value)?;
                let (parent, key) =
                    parent(object, path).ok_or_else(|| absent(&format!("doc is missing path: \"{path}\"")))?;
                failed(add(parent, &key, value.clone(), effort), &format!("path: '{path}'"))
            }
            ("replace", path) => {
                effort.place(path, value)?;
                let (parent, key) =
                    parent(object, path).ok_or_else(|| absent(&format!("doc is missing path: {path}")))?;
                replace(parent, &key, value.clone()).map_err(|_| absent(&format!("doc is missing key: {path}")))
            }
            ("remove", path) => {
                let (parent, key) =
                    parent(object, path).ok_or_else(|| absent(&format!("doc is missing path: \"{path}\"")))?;
                failed(remove(parent, &key, effort).map(drop), &format!("path: '{path}'"))
            }
            ("move", path) => {
                let from = from()?;
                let (source, key) =
                    parent(object, from).ok_or_else(|| absent(&format!("doc is missing from path: {from}")))?;
                let value =
                    in_context(remove(source, &key, effort), |why| format!("error in move for path: '{key}': {why}"))?;
                effort.place(path, &value)?;
                let (target, key) =
                    parent(object, path).ok_or_else(|| absent(&format!("doc is missing destination path: {path}")))?;
                failed(add(target, &key, value, effort), &format!("path: '{path}'"))
            }
            ("copy", path) => {
                let from = from()?;
                let (source, key) =
                    parent(object, from).ok_or_else(|| absent(&format!("doc is missing from path: {from}")))?;
                let value = in_context(get(source, &key), |why| format!("error in copy for from: '{from}': {why}"))?;
                let value = value.unwrap_or(&Json::Null);
                effort.copy(value)?;
                effort.place(path, value)?;
                let value = value.clone();
                let (target, key) =
                    parent(object, path).ok_or_else(|| absent(&format!("doc is missing destination path: {path}")))?;
                in_context(add(target, &key, value, effort), |why| {
                    format!("error while adding value during copy: {why}")
                })
            }
            ("test", path) => {
                let (parent, key) = parent(object, path).ok_or_else(|| absent(&format!("is missing path: {path}")))?;
                let found = in_context(get(parent, &key), |why| format!("error in test for path: '{path}': {why}"))?;
                let differs = null_differs && self.value == Some(Json::Null);
                tested(path, !differs && found.unwrap_or(&Json::Null) == value)
            }
            _ => Err(inapplicable(format!("Unexpected kind: {op}"))),
        }
    }
}

const MISSING: &str = "missing value";

fn inapplicable(why: String) -> PatchError {
    PatchError::Inapplicable(why)
}

fn tested(path: &str, is_equal: bool) -> Result<(), PatchError> {
    if is_equal { Ok(()) } else { Err(PatchError::TestFailed(path.into())) }
}

fn in_context<T>(result: Result<T, PatchError>, context: impl FnOnce(String) -> String) -> Result<T, PatchError> {
    result.map_err(|error| match error {
        PatchError::Inapplicable(why) => PatchError::Inapplicable(context(why)),
        error => error,
    })
}

/// Counts the work of a patch against its cost limits.
#[derive(Default)]
struct Effort {
    copied: usize,
    placed: usize,
    shifted: usize,
}

impl Effort {
    /// Counts `value` and its nested values before it is inserted at `path`. Fails if the patch inserts too many
    /// values, or if the value would be nested too deeply.
    fn place(&mut self, path: &str, value: &Json) -> Result<(), PatchError> {
        let above = path.matches('/').count();
        let placed = DEEPEST.checked_sub(above).and_then(|levels_left| self.count(value, levels_left));
        placed.ok_or_else(|| {
            PatchError::Excessive(if self.placed > MAX_PLACED {
                format!("exceeds the limit of the patch: it can place at most {MAX_PLACED} values")
            } else {
                format!("would nest a value deeper than {DEEPEST} lists and objects")
            })
        })
    }

    /// Counts a value and its nested values. `levels_left` is the remaining number of nesting levels.
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

    /// Counts shifted list items. Fails if the patch shifts too many list items.
    fn shift(&mut self, items: usize) -> Result<(), PatchError> {
        self.shifted += items;
        if self.shifted > MAX_SHIFTED {
            let why = format!("exceeds the limit of the patch: it can shift list items at most {MAX_SHIFTED} times");
            return Err(PatchError::Excessive(why));
        }
        Ok(())
    }

    /// Counts the bytes of a value before it is copied. Fails if the patch copies too many bytes.
    fn copy(&mut self, value: &Json) -> Result<(), PatchError> {
        let copied = pintle_json::to_writer(&mut *self, value);
        copied.map_err(|_| {
            let copied = self.copied;
            inapplicable(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
            ))
        })
    }
}

impl io::Write for Effort {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.copied += text.len();
        if self.copied <= MAX_COPIED { Ok(text.len()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the parent object or list of a path and the last segment of the path, or `None` if the parent does not
/// exist. Any text before the first slash of the path is ignored.
fn parent<'a>(object: &'a mut Json, path: &str) -> Option<(&'a mut Json, String)> {
    let (_, path) = path.split_once('/')?;
    let (above, key) = path.rsplit_once('/').map_or((None, path), |(above, key)| (Some(above), key));
    let mut at = object;
    for part in above.into_iter().flat_map(|above| above.split('/')) {
        let part = unescape(part);
        at = match at {
            Json::Object(members) => members.get_mut(&part)?,
            Json::Array(items) => {
                let at = index(&part, items.len()).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then(|| (at, unescape(key)))
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Parses an index into a list of `length` items. A negative index counts from the end of the list.
fn index(part: &str, length: usize) -> Result<usize, PatchError> {
    let index: i64 = part.parse().map_err(|_| inapplicable(format!("value was not a proper array index: '{part}'")))?;
    let from_start = if index < 0 { i64::try_from(length).ok().map(|length| index + length) } else { Some(index) };
    let from_start = from_start.and_then(|index| usize::try_from(index).ok()).filter(|index| *index < length);
    from_start.ok_or_else(|| inapplicable(format!("Unable to access invalid index: {index}: invalid index referenced")))
}

/// Returns a member of an object or an item of a list, or `None` if the member is absent.
fn get<'a>(parent: &'a Json, key: &str) -> Result<Option<&'a Json>, PatchError> {
    match parent {
        Json::Array(items) => Ok(items.get(index(key, items.len())?)),
        other => Ok(other.get(key)),
    }
}

fn add(parent: &mut Json, key: &str, value: Json, effort: &mut Effort) -> Result<(), PatchError> {
    match parent {
        Json::Array(items) if key == "-" => items.push(value),
        Json::Array(items) => {
            let at = index(key, items.len() + 1)?;
            effort.shift(items.len() - at)?;
            items.insert(at, value);
        }
        map => map.set(key, value),
    }
    Ok(())
}

fn replace(parent: &mut Json, key: &str, value: Json) -> Result<(), PatchError> {
    match parent {
        Json::Array(items) => {
            let at = index(key, items.len())?;
            items[at] = value;
        }
        map => map.set(key, value),
    }
    Ok(())
}

fn remove(parent: &mut Json, key: &str, effort: &mut Effort) -> Result<Json, PatchError> {
    match parent {
        Json::Object(members) => members
            .remove(key)
            .ok_or_else(|| inapplicable(format!("Unable to remove nonexistent key: {key}: {MISSING}"))),
        Json::Array(items) => {
            let at = index(key, items.len())?;
            effort.shift(items.len() - at)?;
            Ok(items.remove(at))
        }
        _ => Err(inapplicable(MISSING.into())),
    }
}
