//! Reads typed values, and collects findings and errors.

use std::collections::BTreeMap;

use pintle_json::{Json, Map};
use serde::de::{MapAccess, SeqAccess};

use super::Schema;
use super::decoded::BodyError;
use super::fields::{StructFields, survives_null, zero};
use super::finding::{FieldPath, PathSegment, StrictFinding, push_finding};
use super::go_json::decoded_number;
use super::quantity::WRONG_FORM;
use super::scalar::ScalarError;
use super::sink::{Name, Primitive, Seed, Sink};
use super::types::{Scalar, Type, Union};

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
    /// The items that were removed from a list because the list occurred again with fewer items. The map is keyed by
    /// the path of the list, and its items are in reverse order.
    cut_off: BTreeMap<String, Vec<Json>>,
    /// The number of enclosing unions. The Go types of unions have their own decoders, which are never strict.
    lenient: usize,
}

/// The maximum of [`Reader::path_bytes`]. After reaching this limit, the reader reports no more findings.
const MAX_PATH_BYTES: usize = 16 << 20;

impl Reader {
    pub(super) fn new(schema: &Schema) -> Self {
        Self { unknown: schema.is_custom().then(Vec::new), ..Self::default() }
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
    fn take_cut_off(&mut self, path: Option<&FieldPath<'_>>, occurred_before: bool) -> Vec<Json> {
        if self.cut_off.is_empty() {
            return Vec::new();
        }
        let cut_off = self.path_text(path).and_then(|path| self.cut_off.remove(&path));
        cut_off.filter(|_| occurred_before).unwrap_or_default()
    }

    /// Stores the items that were removed from a list, because the list may occur again with more items.
    fn keep_cut_off(&mut self, path: Option<&FieldPath<'_>>, items: Vec<Json>) {
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
    fn fail(&mut self, ty: &Type, why: impl FnOnce() -> String) {
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

/// A [`Sink`] for a value of a known type. The result is `None` if the value is null.
pub(super) struct Typed<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) ty: &'r Type,
    pub(super) path: Option<&'r FieldPath<'r>>,
    /// The value from an earlier occurrence of the same struct field or list item. As in Go, a repeated struct is
    /// decoded into the fields of the earlier struct.
    pub(super) earlier: Option<&'r mut Json>,
}

impl Sink for Typed<'_> {
    type Out = Option<Json>;

    fn primitive(mut self, found: Primitive<'_>) -> Option<Json> {
        let rejected = match (found, self.ty) {
            (Primitive::Null, _) => return None,
            (found, Type::Any) => return Some(found.into_value()),
            (Primitive::Bool(value), Type::Union(Union::Bool)) => return Some(value.into()),
            (_, Type::Union(Union::Bool)) => ScalarError::Form(NO_SCHEMA_OR_BOOL.into()),
            // Go ignores the value and keeps an empty union, which it writes as null.
            (_, Type::Union(_)) => return None,
            (found, Type::Scalar(scalar)) => match scalar.read(found) {
                Ok(value) => return Some(value),
                Err(rejected) => rejected,
            },
            (found, _) => ScalarError::Type(found),
        };
        match (rejected, self.ty) {
            (ScalarError::Form(text), ty) => self.reader.fail(ty, || text),
            (
                ScalarError::Type(Primitive::Number(number)),
                Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString),
            ) => self.mismatch(&format!("number {number}")),
            (ScalarError::Type(found), _) => self.mismatch(found.json_type()),
        }
        None
    }

    fn list<'de, A: SeqAccess<'de>>(mut self, items: A) -> Result<Option<Json>, A::Error> {
        match self.ty {
            Type::List(list) => self.items(&list.item, items),
            Type::Union(Union::List) => {
                self.reader.lenient += 1;
                let reader = &mut *self.reader;
                let list = Typed { reader, ty: self.ty, path: self.path, earlier: None }.items(&json_schema(), items);
                self.reader.lenient -= 1;
                list
            }
            Type::Union(Union::Strings) => self.without_earlier().items(&Type::Scalar(Scalar::String), items),
            Type::Any => self.untyped().list(items),
            Type::Scalar(Scalar::Raw) => self.reader.untyped_sink(self.path).list(items),
            _ => {
                if let Type::Union(Union::Bool) = self.ty {
                    self.reader.fail(self.ty, || NO_SCHEMA_OR_BOOL.into());
                } else {
                    self.mismatch("array");
                }
                self.reader.untyped_sink(self.path).list(items)
            }
        }
        .map(Some)
    }

    fn map<'de, A: MapAccess<'de>>(mut self, members: A) -> Result<Option<Json>, A::Error> {
        match self.ty {
            Type::Struct { struct_type, .. } => {
                let earlier = self.earlier.and_then(Json::as_object_mut).map(std::mem::take);
                StructFields::new(self.reader, struct_type, self.path).starting_with(earlier).read_all(members)
            }
            Type::Map(map) => self.entries(&map.value, members),
            Type::Union(_) => {
                self.reader.lenient += 1;
                let reader = &mut *self.reader;
                let schema = Typed { reader, ty: &json_schema(), path: self.path, earlier: None }.map(members);
                self.reader.lenient -= 1;
                return schema;
            }
            Type::Any => self.untyped().map(members),
            Type::Scalar(Scalar::Raw) => self.reader.untyped_sink(self.path).map(members),
            _ => {
                self.mismatch("object");
                self.reader.untyped_sink(self.path).map(members)
            }
        }
        .map(Some)
    }
}

impl<'r> Typed<'r> {
    fn untyped(self) -> Untyped<'r> {
        self.reader.untyped_sink(self.path)
    }

    fn without_earlier(self) -> Self {
        Self { earlier: None, ..self }
    }

    /// Reads the items of a list. As in Go, decodes the items of a repeated list into the earlier items.
    fn items<'de, A: SeqAccess<'de>>(self, ty: &Type, mut items: A) -> Result<Json, A::Error> {
        let mut earlier = self.earlier.and_then(Json::as_array_mut).map(std::mem::take).unwrap_or_default();
        let mut cut_off = self.reader.take_cut_off(self.path, !earlier.is_empty());
        let mut list = Vec::new();
        loop {
            let index = list.len();
            if index == earlier.len() {
                earlier.extend(cut_off.pop());
            }
            let path = FieldPath { parent: self.path, segment: PathSegment::Item(index) };
            let survives_null = earlier.get(index).is_some_and(|item| survives_null(ty, item));
            let item = Seed(Typed { reader: self.reader, ty, path: Some(&path), earlier: earlier.get_mut(index) });
            match items.next_element_seed(item)? {
                Some(None) if survives_null => list.extend(earlier.get_mut(index).map(std::mem::take)),
                Some(item) => list.push(item.unwrap_or_else(|| zero(ty))),
                None => break,
            }
        }
        // For an empty list, Go creates a new slice and discards the earlier items.
        if !list.is_empty() {
            cut_off.extend(earlier.drain(list.len().min(earlier.len())..).rev());
            self.reader.keep_cut_off(self.path, cut_off);
        }
        Ok(list.into())
    }

    fn entries<'de, A: MapAccess<'de>>(self, ty: &Type, mut members: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let path = FieldPath { parent: self.path, segment: PathSegment::Member(&name) };
            if out.contains_key(&name) {
                self.reader.report_duplicate(path);
            }
            let value = Typed { reader: self.reader, ty, path: Some(&path), earlier: None };
            let value = members.next_value_seed(Seed(value))?;
            let value = match ty {
                Type::Scalar(Scalar::Bytes) => value.unwrap_or_else(|| "".into()),
                ty => value.unwrap_or_else(|| zero(ty)),
            };
            out.insert(name, value);
        }
        Ok(Json::Object(out))
    }

    fn mismatch(&mut self, found: &str) {
        let (ty, path) = (self.ty, self.path);
        if let Type::Scalar(Scalar::Quantity | Scalar::ResourceQuantity) = ty {
            return self.reader.fail(ty, || WRONG_FORM.into());
        }
        self.reader.fail(ty, || {
            let go_path = path.and_then(FieldPath::go_path);
            let target = go_path.map_or_else(|| "value".into(), |path| format!("struct field {path}"));
            format!("json: cannot unmarshal {found} into Go {target} of type {}", go_type(ty))
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

const NO_SCHEMA_OR_BOOL: &str = "boolean or JSON schema expected";

fn json_schema() -> Type {
    super::named("apiextensions.JSONSchemaProps")
}

fn go_type(ty: &Type) -> String {
    match ty {
        Type::Any => "interface {}".into(),
        Type::Scalar(scalar) => scalar.go_name().into(),
        Type::Struct { struct_type, .. } => struct_type.go_name(),
        Type::Map(map) => format!("map[string]{}", go_type(&map.value)),
        Type::List(list) => format!("[]{}", go_type(&list.item)),
        Type::Union(_) => "v1.JSONSchemaProps".into(),
    }
}
