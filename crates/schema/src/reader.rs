//! Collects the findings and errors about a body, and reads values without a type.

use std::collections::BTreeMap;

use pintle_json::{Json, Map};
use serde::de::{MapAccess, SeqAccess};

use super::Schema;
use super::decoded::BodyError;
use super::finding::{FieldPath, PathSegment, StrictFinding, push_finding};
use super::go_json::decoded_number;
use super::sink::{Name, Primitive, Seed, Sink};
use super::types::{Scalar, Type};

#[derive(Default)]
pub(super) struct Reader {
    findings: Vec<StrictFinding>,
    /// For a custom resource, the findings about unknown metadata fields, which are reported after all other findings.
    /// `None` for a built-in kind.
    unknown: Option<Vec<StrictFinding>>,
    /// The total length of all paths converted to text so far, in bytes.
    path_bytes: usize,
    /// The first error about a value. The reader continues after the error, because a later syntax error takes
    /// precedence.
    error: Option<BodyError>,
    /// Whether the error comes from a type with its own decoder. Go then stops, and ignores the type errors before it.
    is_final: bool,
    /// Whether numbers in untyped values are kept unchanged.
    verbatim: bool,
    /// Whether an empty list becomes null where Go always writes the field, as in an object that was stored as
    /// protobuf, which has no empty lists.
    pub(super) nulls_empty_lists: bool,
    /// The items that were removed from a list because the list occurred again with fewer items. The map is keyed by
    /// the path of the list, and its items are in reverse order.
    cut_off: BTreeMap<String, Vec<Json>>,
    /// The number of enclosing unions. The Go types of unions have their own decoders, which are never strict.
    pub(super) lenient: usize,
}

/// The maximum of [`Reader::path_bytes`]. After reaching this limit, the reader reports no more findings.
const MAX_PATH_BYTES: usize = 16 << 20;

impl Reader {
    pub(super) fn new(schema: &Schema) -> Self {
        Self { unknown: schema.is_custom().then(Vec::new), ..Self::default() }
    }

    /// Creates a reader for an object that was stored as protobuf.
    pub(super) fn of_stored() -> Self {
        Self { nulls_empty_lists: true, ..Self::default() }
    }

    pub(super) fn verbatim() -> Self {
        Self { verbatim: true, ..Self::default() }
    }

    /// Returns the findings, or the first error if the body cannot be decoded.
    pub(super) fn into_findings(mut self) -> Result<Vec<StrictFinding>, BodyError> {
        for finding in self.unknown.into_iter().flatten() {
            push_finding(&mut self.findings, || finding);
        }
        self.error.map_or(Ok(self.findings), Err)
    }

    /// Returns the findings without checking for errors. Use this method only for values that cannot cause errors.
    pub(super) fn into_duplicates(self) -> Vec<StrictFinding> {
        self.findings
    }

    pub(super) fn report_duplicate(&mut self, path: FieldPath<'_>) {
        if self.lenient > 0 {
            return;
        }
        add_finding(&mut self.findings, &mut self.path_bytes, StrictFinding::Duplicate, path);
    }

    pub(super) fn report_unknown(&mut self, path: FieldPath<'_>) {
        if self.lenient > 0 {
            return;
        }
        let findings = self.unknown.as_mut().unwrap_or(&mut self.findings);
        add_finding(findings, &mut self.path_bytes, StrictFinding::Unknown, path);
    }

    /// Takes the items that were removed from a list because the list occurred again with fewer items. In Go, the
    /// removed items reappear if the list later occurs with more items, because Go only shortens the slice. Returns no
    /// items if the list has not occurred before.
    pub(super) fn take_cut_off(&mut self, path: Option<&FieldPath<'_>>, occurred_before: bool) -> Vec<Json> {
        if self.cut_off.is_empty() {
            return Vec::new();
        }
        let cut_off = self.path_text(path).and_then(|path| self.cut_off.remove(&path));
        cut_off.filter(|_| occurred_before).unwrap_or_default()
    }

    /// Stores the items that were removed from a list, because the list may occur again with more items.
    pub(super) fn keep_cut_off(&mut self, path: Option<&FieldPath<'_>>, items: Vec<Json>) {
        if !items.is_empty()
            && let Some(path) = self.path_text(path)
        {
            self.cut_off.insert(path, items);
        }
    }

    /// Returns the path as text. If the total length of all paths has reached `MAX_PATH_BYTES`, returns `None` and
    /// drops all items in `cut_off`.
    fn path_text(&mut self, path: Option<&FieldPath<'_>>) -> Option<String> {
        if self.path_bytes >= MAX_PATH_BYTES {
            self.cut_off.clear();
            return None;
        }
        let text = path.map(|path| path.to_text()).unwrap_or_default();
        self.path_bytes += text.len();
        Some(text)
    }

    /// Records an error in a value of the type `ty`.
    pub(super) fn fail(&mut self, ty: &Type, why: impl FnOnce() -> String) {
        let is_final = matches!(
            ty,
            Type::Union(_)
                | Type::Scalar(
                    Scalar::Quantity
                        | Scalar::ResourceQuantity
                        | Scalar::IntOrString
                        | Scalar::Time
                        | Scalar::MicroTime
                        | Scalar::Duration
                )
        );
        if self.error.is_none() || (is_final && !self.is_final) {
            self.error = Some(BodyError::Value(why()));
            self.is_final = is_final;
        }
    }

    /// Returns `true` if the body is a custom resource. In a custom resource, the reader also reports duplicate members
    /// of untyped values.
    pub(super) fn is_custom_resource(&self) -> bool {
        self.unknown.is_some()
    }

    pub(super) fn untyped_sink<'r>(&'r mut self, path: Option<&'r FieldPath<'r>>) -> Untyped<'r> {
        Untyped { ignores_duplicates: !self.is_custom_resource(), reader: self, path }
    }
}

fn add_finding(
    findings: &mut Vec<StrictFinding>,
    path_bytes: &mut usize,
    to_finding: fn(String) -> StrictFinding,
    path: FieldPath<'_>,
) {
    if *path_bytes < MAX_PATH_BYTES {
        push_finding(findings, || {
            let path = path.to_text();
            *path_bytes += path.len();
            to_finding(path)
        });
    }
}

/// A [`Sink`] for arbitrary JSON that reports duplicate members.
pub(super) struct Untyped<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) path: Option<&'r FieldPath<'r>>,
    pub(super) ignores_duplicates: bool,
}

impl Sink for Untyped<'_> {
    type Out = Json;

    fn primitive(self, found: Primitive<'_>) -> Json {
        match found {
            Primitive::Number(number) if !self.reader.verbatim => Json::Number(decoded_number(number)),
            found => found.into_verbatim(),
        }
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = FieldPath { parent: self.path, segment: PathSegment::Item(list.len()) };
            let item = Untyped { reader: self.reader, path: Some(&path), ignores_duplicates: self.ignores_duplicates };
            match items.next_element_seed(Seed(item))? {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn map<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let path = FieldPath { parent: self.path, segment: PathSegment::Member(&name) };
            if !self.ignores_duplicates && out.contains_key(&name) {
                self.reader.report_duplicate(path);
            }
            let value = Untyped { reader: self.reader, path: Some(&path), ignores_duplicates: self.ignores_duplicates };
            let value = members.next_value_seed(Seed(value))?;
            out.insert(name, value);
        }
        Ok(Json::Object(out))
    }
}
