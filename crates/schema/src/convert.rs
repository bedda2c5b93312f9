//! From JSON as it was written to an object as Go would write it.

use std::collections::HashSet;
use std::fmt;

use pintle_json::{Json, Map};

use super::scalar::Refused;
use super::types::{Field, Scalar, StructRef, Type, Union};
use super::{Node, Schema, builtin_types, object_meta};

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, without the fields that its type does not know.
    pub object: Json,
    /// What was wrong with it, without being an error.
    pub findings: Vec<StrictFinding>,
}

/// Something that `fieldValidation` decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictFinding {
    /// A field that the type does not know.
    Unknown(String),
    /// A member that stands twice.
    Duplicate(String),
    /// The same in YAML or in a JSON patch, in whole words.
    Other(String),
}

/// So much is told of one body, as by Go; and no more bytes than these, since a path may be as long as the body.
const MOST_FINDINGS: usize = 100;
const MOST_TOLD: usize = 4 << 20;

/// Notes a finding, unless it is known or one too many.
pub fn note(findings: &mut Vec<StrictFinding>, finding: impl FnOnce() -> StrictFinding) {
    let told = |finding: &StrictFinding| match finding {
        StrictFinding::Unknown(text) | StrictFinding::Duplicate(text) | StrictFinding::Other(text) => text.len(),
    };
    if findings.len() < MOST_FINDINGS && findings.iter().map(told).sum::<usize>() < MOST_TOLD {
        let finding = finding();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

impl fmt::Display for StrictFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {path:?}"),
            Self::Duplicate(path) => write!(f, "duplicate field {path:?}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Why a body cannot be read as an object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// It is no JSON or YAML, or no object; or it does not say what it is.
    Unrecognized(String),
    /// It is an object of another kind, or of another version.
    OtherKind(String),
    /// A value has the wrong type or form.
    Value(String),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecognized(text) | Self::OtherKind(text) | Self::Value(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BodyError {}

/// Reads an object by its schema.
pub(super) fn convert(node: Node, schema: &Schema) -> Result<Decoded, BodyError> {
    let mut reader = Reader::default();
    let object = match schema.is_custom() {
        true => reader.custom(&node)?,
        false => reader.value(&node, schema.root())?,
    };
    Ok(Decoded { object, findings: reader.findings })
}

/// Reads a value of a type.
pub(super) fn read(node: &Node, of: &Type) -> Result<Json, BodyError> {
    Reader::default().value(node, of)
}

#[derive(Default)]
struct Reader {
    findings: Vec<StrictFinding>,
    /// Where the reader is, with the indexes of lists: `spec.containers[0].name`.
    path: String,
    /// The same without them, as Go has it in errors.
    names: Vec<String>,
    /// The innermost struct and the field in it whose value is being read.
    within: Option<(StructRef, usize)>,
}

impl Reader {
    fn value(&mut self, node: &Node, of: &Type) -> Result<Json, BodyError> {
        match (node, of) {
            (Node::Null, of) => Ok(zero(of)),
            (node, Type::Any) => Ok(self.untyped(node)),
            (node, Type::Scalar(scalar)) => scalar.read(node).map_err(|refused| self.refused(node, refused, of)),
            (Node::Map(members), Type::Struct { of, .. }) => self.members(members, of),
            (Node::Map(members), Type::Map(map)) => {
                let mut out = Map::new();
                let mut seen = HashSet::new();
                for (name, node) in members {
                    if !seen.insert(name) {
                        self.find(StrictFinding::Duplicate, &format!(".{name}"));
                    }
                    let mut value = self.below(&format!(".{name}"), |reader| reader.value(node, &map.value))?;
                    if value.is_null() && matches!(map.value, Type::Scalar(Scalar::Bytes)) {
                        value = "".into();
                    }
                    put(&mut out, name, value);
                }
                Ok(Json::Object(out))
            }
            (Node::List(items), Type::List(list)) => self.items(items, &list.item),
            (node, Type::Union(union)) => self.union(node, *union),
            (node, of) => Err(self.mismatch(node, of)),
        }
    }

    fn items(&mut self, items: &[Node], of: &Type) -> Result<Json, BodyError> {
        let mut list = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            list.push(self.below(&format!("[{at}]"), |reader| reader.value(item, of))?);
        }
        Ok(list.into())
    }

    fn members(&mut self, members: &[(String, Node)], of: &StructRef) -> Result<Json, BodyError> {
        let mut out = Map::new();
        let outer = self.within.take();
        let mut seen = HashSet::new();
        for (name, node) in members {
            let step = if self.path.is_empty() { name.clone() } else { format!(".{name}") };
            let Some(&index) = of.index.get(name) else {
                self.find(StrictFinding::Unknown, &step);
                continue;
            };
            if !seen.insert(name) {
                self.find(StrictFinding::Duplicate, &step);
            }
            // Go leaves a value alone where null follows it.
            if matches!(node, Node::Null) && out.contains_key(name) && !of.fields[index].pointer {
                continue;
            }
            self.within = Some((of.clone(), index));
            self.names.push(name.clone());
            let value = match (node, of.fields[index].pointer) {
                (Node::Null, true) => Json::Null,
                (node, _) => self.below(&step, |reader| reader.value(node, &of.fields[index].of))?,
            };
            self.names.pop();
            put(&mut out, name, value);
        }
        self.within = outer;
        for field in &of.fields {
            finish(field, &mut out);
        }
        Ok(Json::Object(out))
    }

    fn union(&mut self, node: &Node, union: Union) -> Result<Json, BodyError> {
        let Some(schema) = builtin_types::table().named("apiextensions.JSONSchemaProps") else {
            return Ok(self.untyped(node));
        };
        match (node, union) {
            (Node::Bool(value), Union::Bool) => Ok((*value).into()),
            (Node::List(items), Union::List) => self.items(items, &schema),
            (Node::List(items), Union::Strings) => self.items(items, &Type::Scalar(Scalar::String)),
            (node, _) => self.value(node, &schema),
        }
    }

    /// JSON of any shape, with an eye on repeated members.
    fn untyped(&mut self, node: &Node) -> Json {
        match node {
            Node::Map(members) => {
                let mut out = Map::new();
                let mut seen = HashSet::new();
                for (name, node) in members {
                    let step = if self.path.is_empty() { name.clone() } else { format!(".{name}") };
                    if !seen.insert(name) {
                        self.find(StrictFinding::Duplicate, &step);
                    }
                    let value = self.below(&step, |reader| reader.untyped(node));
                    out.insert(name.clone(), value);
                }
                Json::Object(out)
            }
            Node::List(items) => {
                let items = items.iter().enumerate();
                items.map(|(at, item)| self.below(&format!("[{at}]"), |reader| reader.untyped(item))).collect()
            }
            node => node.clone().into_value(),
        }
    }

    /// A custom resource: only its metadata have a type here; the definition's schema prunes the rest.
    fn custom(&mut self, node: &Node) -> Result<Json, BodyError> {
        let mut object = self.untyped(node);
        let Node::Map(_) = node else { return Ok(object) };
        let Some(metadata) = node.member("metadata") else { return Ok(object) };
        let repeated = self.findings.len();
        let value = self.below("metadata", |reader| reader.value(metadata, &object_meta()))?;
        // Repetitions have been seen above.
        let mut seen = 0..;
        self.findings.retain(|finding| {
            seen.next().is_some_and(|at| at < repeated) || !matches!(finding, StrictFinding::Duplicate(_))
        });
        if let Json::Object(members) = &mut object {
            members.insert("metadata", value);
        }
        Ok(object)
    }

    /// Notes a finding at the step.
    fn find(&mut self, what: fn(String) -> StrictFinding, step: &str) {
        note(&mut self.findings, || what(format!("{}{step}", self.path)));
    }

    fn below<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(step);
        let value = read(self);
        self.path.truncate(length);
        value
    }

    fn refused(&self, node: &Node, refused: Refused, of: &Type) -> BodyError {
        match refused {
            Refused::Type => self.mismatch(node, of),
            Refused::Form(text) => BodyError::Value(text),
        }
    }

    fn mismatch(&self, node: &Node, of: &Type) -> BodyError {
        let found = match node {
            Node::Number(number) if matches!(of, Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString)) => {
                format!("number {number}")
            }
            node => node.shape().into(),
        };
        let place = match &self.within {
            Some((of, _)) => {
                let name = of.short_name();
                format!("struct field {name}.{}", self.names.join("."))
            }
            None => "value".into(),
        };
        BodyError::Value(format!("json: cannot unmarshal {found} into Go {place} of type {}", go_type(of)))
    }
}

/// Puts a value in its place; where one stands already, maps are merged, as Go does.
fn put(out: &mut Map, name: &str, value: Json) {
    match (out.get_mut(name), value) {
        (Some(Json::Object(earlier)), Json::Object(later)) => earlier.extend(later),
        (_, value) => {
            out.insert(name, value);
        }
    }
}

/// What Go writes for a field: nothing for the empty value of most, something always for others.
fn finish(field: &Field, out: &mut Map) {
    match out.get(&field.name) {
        Some(Json::Null) | None => {
            out.remove(&field.name);
            if field.always {
                let empty = if field.pointer { Json::Null } else { zero(&field.of) };
                out.insert(field.name.clone(), empty);
            }
        }
        Some(value) if !field.always && !field.pointer && is_empty(value) => {
            // An empty struct is not empty to Go; and an empty list of managers is an order to forget them.
            if !matches!(field.of, Type::Struct { .. }) && field.name != "managedFields" {
                out.remove(&field.name);
            }
        }
        Some(_) => {}
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Number(value) => value.as_f64() == Some(0.0),
        Json::String(value) => value.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
    }
}

/// What Go writes for a value that was never set.
fn zero(of: &Type) -> Json {
    match of {
        Type::Scalar(scalar) => scalar.zero(),
        Type::Struct { of, .. } => {
            let mut out = Map::new();
            for field in &of.fields {
                finish(field, &mut out);
            }
            Json::Object(out)
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => Json::Null,
    }
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
