//! Reads values according to their types, and records findings and errors.

use std::collections::BTreeMap;

use pintle_json::{Json, Map};
use serde::de::{MapAccess, SeqAccess};

use super::Schema;
use super::decoded::BodyError;
use super::fields::{StructFields, survives_null, zero};
use super::finding::{FieldPath, PathStep, StrictFinding, note};
use super::scalar::ScalarError;
use super::sink::{Name, Seed, Single, Sink};
use super::types::{Scalar, Type, Union};

/// Collects findings and the first error while a body is read.
#[derive(Default)]
pub(super) struct Reader {
    findings: Vec<StrictFinding>,
    /// The findings about unknown metadata fields of a custom resource, which are
    /// reported after the findings about duplicate members. `None` for built-in kinds.
    unknown: Option<Vec<StrictFinding>>,
    /// The total length of all path texts built so far, in bytes, including paths that no finding contains.
    written: usize,
    /// The first error about a value. Reading continues after this error, because a later syntax error takes precedence.
    error: Option<BodyError>,
    /// Whether numbers in values without a type stay unchanged.
    verbatim: bool,
    /// The items that a list lost because the list occurred again with fewer items, by the path of the list. The items are in reverse
    /// order.
    cut_off: BTreeMap<String, Vec<Json>>,
}

/// The maximum of [`Reader::written`]. Beyond this limit, the reader builds no paths and reports no findings.
const MAX_WRITTEN: usize = 16 << 20;

impl Reader {
    pub(super) fn of(schema: &Schema) -> Self {
        Self { unknown: schema.is_custom().then(Vec::new), ..Self::default() }
    }

    pub(super) fn verbatim() -> Self {
        Self { verbatim: true, ..Self::default() }
    }

    /// Returns the findings, or the first error if the body cannot be decoded.
    pub(super) fn findings(mut self) -> Result<Vec<StrictFinding>, BodyError> {
        for finding in self.unknown.into_iter().flatten() {
            note(&mut self.findings, || finding);
        }
        self.error.map_or(Ok(self.findings), Err)
    }

    /// Returns the findings without checking for errors. Call this method only if no value can have an error.
    pub(super) fn repetitions(self) -> Vec<StrictFinding> {
        self.findings
    }

    pub(super) fn repeated(&mut self, place: FieldPath<'_>) {
        find(&mut self.findings, &mut self.written, StrictFinding::Duplicate, place);
    }

    pub(super) fn unknown(&mut self, place: FieldPath<'_>) {
        let findings = self.unknown.as_mut().unwrap_or(&mut self.findings);
        find(findings, &mut self.written, StrictFinding::Unknown, place);
    }

    /// Takes the items that a list lost because the list occurred again with fewer items. In Go, the slice only becomes shorter, so these
    /// items reappear when the list occurs again with more items. Returns no items if the list did not occur earlier.
    fn take_cut_off(&mut self, at: Option<&FieldPath<'_>>, came_before: bool) -> Vec<Json> {
        if self.cut_off.is_empty() {
            return Vec::new();
        }
        let cut_off = self.place(at).and_then(|place| self.cut_off.remove(&place));
        cut_off.filter(|_| came_before).unwrap_or_default()
    }

    /// Stores a list's lost items, because the list may occur again.
    fn keep_cut_off(&mut self, at: Option<&FieldPath<'_>>, items: Vec<Json>) {
        if !items.is_empty()
            && let Some(place) = self.place(at)
        {
            self.cut_off.insert(place, items);
        }
    }

    /// Returns the path as text. Once the path texts exceed `MAX_WRITTEN` bytes in total, returns `None` and drops all items in `cut_off`.
    fn place(&mut self, at: Option<&FieldPath<'_>>) -> Option<String> {
        if self.written >= MAX_WRITTEN {
            self.cut_off.clear();
            return None;
        }
        let place = at.map(FieldPath::path).unwrap_or_default();
        self.written += place.len();
        Some(place)
    }

    fn fail(&mut self, why: impl FnOnce() -> String) {
        self.error.get_or_insert_with(|| BodyError::Value(why()));
    }

    /// Returns `true` if the body is a custom resource, for which duplicate members are reported even in values without a type.
    pub(super) fn is_of_custom(&self) -> bool {
        self.unknown.is_some()
    }

    /// Returns a [`Sink`] for a value without a type.
    pub(super) fn untyped_sink<'r>(&'r mut self, at: Option<&'r FieldPath<'r>>) -> Untyped<'r> {
        Untyped { quiet: !self.is_of_custom(), reader: self, at }
    }
}

fn find(
    findings: &mut Vec<StrictFinding>,
    written: &mut usize,
    finding: fn(String) -> StrictFinding,
    place: FieldPath<'_>,
) {
    if *written < MAX_WRITTEN {
        note(findings, || {
            let path = place.path();
            *written += path.len();
            finding(path)
        });
    }
}

/// A [`Sink`] for a value of a known type. The result is `None` if the value is null.
pub(super) struct Typed<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) of: &'r Type,
    pub(super) at: Option<&'r FieldPath<'r>>,
    /// The value of an earlier occurrence of the same struct field or list
    /// item. A new struct is decoded into the fields of an earlier struct.
    pub(super) earlier: Option<&'r mut Json>,
}

impl Sink for Typed<'_> {
    type Out = Option<Json>;

    fn single(mut self, found: Single<'_>) -> Option<Json> {
        let rejected = match (found, self.of) {
            (Single::Null, _) => return None,
            (found, Type::Any) => return Some(found.into_value()),
            (Single::Bool(value), Type::Union(Union::Bool)) => return Some(value.into()),
            (found, Type::Scalar(scalar)) => match scalar.read(found) {
                Ok(value) => return Some(value),
                Err(rejected) => rejected,
            },
            (found, _) => ScalarError::Type(found),
        };
        match (rejected, self.of) {
            (ScalarError::Form(text), _) => self.reader.fail(|| text),
            (
                ScalarError::Type(Single::Number(number)),
                Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString),
            ) => self.mismatch(&format!("number {number}")),
            (ScalarError::Type(found), _) => self.mismatch(found.shape()),
        }
        None
    }

    fn list<'de, A: SeqAccess<'de>>(mut self, items: A) -> Result<Option<Json>, A::Error> {
        match self.of {
            Type::List(list) => self.items(&list.item, items),
            Type::Union(Union::List) => self.without_earlier().items(&json_schema(), items),
            Type::Union(Union::Strings) => self.without_earlier().items(&Type::Scalar(Scalar::String), items),
            Type::Any => self.untyped().list(items),
            Type::Scalar(Scalar::Untyped | Scalar::Raw) => self.reader.untyped_sink(self.at).list(items),
            _ => {
                self.mismatch("array");
                self.reader.untyped_sink(self.at).list(items)
            }
        }
        .map(Some)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, members: A) -> Result<Option<Json>, A::Error> {
        match self.of {
            Type::Struct { of, .. } => {
                let earlier = self.earlier.and_then(Json::as_object_mut).map(std::mem::take);
                StructFields::new(self.reader, of, self.at).over(earlier).all(members)
            }
            Type::Map(map) => self.entries(&map.value, members),
            Type::Union(_) => {
                return Typed { reader: self.reader, of: &json_schema(), at: self.at, earlier: None }.map(members);
            }
            Type::Any => self.untyped().map(members),
            Type::Scalar(Scalar::Untyped | Scalar::Raw) => self.reader.untyped_sink(self.at).map(members),
            _ => {
                self.mismatch("object");
                self.reader.untyped_sink(self.at).map(members)
            }
        }
        .map(Some)
    }
}

impl<'r> Typed<'r> {
    fn untyped(self) -> Untyped<'r> {
        Untyped { reader: self.reader, at: self.at, quiet: false }
    }

    fn without_earlier(self) -> Self {
        Self { earlier: None, ..self }
    }

    /// Reads the items of a list. As in Go, the items of a repeated list are decoded into the earlier items.
    fn items<'de, A: SeqAccess<'de>>(self, of: &Type, mut items: A) -> Result<Json, A::Error> {
        let mut earlier = self.earlier.and_then(Json::as_array_mut).map(std::mem::take).unwrap_or_default();
        let mut cut_off = self.reader.take_cut_off(self.at, !earlier.is_empty());
        let mut list = Vec::new();
        loop {
            let at = list.len();
            if at == earlier.len() {
                earlier.extend(cut_off.pop());
            }
            let place = FieldPath { parent: self.at, step: PathStep::Item(at) };
            let survives_null = earlier.get(at).is_some_and(|item| survives_null(of, item));
            let item = Seed(Typed { reader: self.reader, of, at: Some(&place), earlier: earlier.get_mut(at) });
            match items.next_element_seed(item)? {
                Some(None) if survives_null => list.extend(earlier.get_mut(at).map(std::mem::take)),
                Some(item) => list.push(item.unwrap_or_else(|| zero(of))),
                None => break,
            }
        }
        // For an empty list, Go creates a new slice and loses the earlier items.
        if !list.is_empty() {
            cut_off.extend(earlier.drain(list.len().min(earlier.len())..).rev());
            self.reader.keep_cut_off(self.at, cut_off);
        }
        Ok(list.into())
    }

    fn entries<'de, A: MapAccess<'de>>(self, of: &Type, mut members: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let place = FieldPath { parent: self.at, step: PathStep::Member(&name) };
            if out.contains_key(&name) {
                self.reader.repeated(place);
            }
            let value = Typed { reader: self.reader, of, at: Some(&place), earlier: None };
            let value = members.next_value_seed(Seed(value))?;
            let value = match of {
                Type::Scalar(Scalar::Bytes) => value.unwrap_or_else(|| "".into()),
                of => value.unwrap_or_else(|| zero(of)),
            };
            out.insert(name, value);
        }
        Ok(Json::Object(out))
    }

    fn mismatch(&mut self, found: &str) {
        let (of, at) = (self.of, self.at);
        self.reader.fail(|| {
            let place =
                at.and_then(FieldPath::field).map_or_else(|| "value".into(), |field| format!("struct field {field}"));
            format!("json: cannot unmarshal {found} into Go {place} of type {}", go_type(of))
        });
    }
}

/// A [`Sink`] for JSON of any shape, which reports duplicate members.
pub(super) struct Untyped<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) at: Option<&'r FieldPath<'r>>,
    /// Whether duplicate members are ignored instead of reported.
    pub(super) quiet: bool,
}

impl Sink for Untyped<'_> {
    type Out = Json;

    fn single(self, found: Single<'_>) -> Json {
        if self.reader.verbatim { found.into_verbatim() } else { found.into_value() }
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = FieldPath { parent: self.at, step: PathStep::Item(list.len()) };
            let item = Untyped { reader: self.reader, at: Some(&place), quiet: self.quiet };
            match items.next_element_seed(Seed(item))? {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn map<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let place = FieldPath { parent: self.at, step: PathStep::Member(&name) };
            if !self.quiet && out.contains_key(&name) {
                self.reader.repeated(place);
            }
            let value = Untyped { reader: self.reader, at: Some(&place), quiet: self.quiet };
            let value = members.next_value_seed(Seed(value))?;
            out.insert(name, value);
        }
        Ok(Json::Object(out))
    }
}

fn json_schema() -> Type {
    super::named("apiextensions.JSONSchemaProps")
}

fn go_type(of: &Type) -> String {
    match of {
        Type::Any => "interface {}".into(),
        Type::Scalar(scalar) => scalar.go_name().into(),
        Type::Struct { of, .. } => of.go_name(),
        Type::Map(map) => format!("map[string]{}", go_type(&map.value)),
        Type::List(list) => format!("[]{}", go_type(&list.item)),
        Type::Union(_) => "v1.JSONSchemaProps".into(),
    }
}
