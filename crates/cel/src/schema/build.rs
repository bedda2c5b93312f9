//! Builds schemas from OpenAPI, with the same sizes as in kube-apiserver.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Format, List, Schema, Shape, escape};
use crate::node::{Node, Scalar};
use crate::types::Type;

/// The maximum size of a request, in bytes. The size of a value without a limit in its schema is at most the size of a
/// request.
pub(super) const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
const MAX_DEPTH: usize = 200;
/// The maximum length of the path of a schema, in bytes. The length is limited because the path of an object is also
/// its type name.
const MAX_PATH: usize = 1_000;
const QUOTES: u64 = 2;
const DATE_SIZE: u64 = 12;
const MIN_DATE_TIME_SIZE: u64 = 21;
const MIN_DURATION_SIZE: u64 = 3;
const MAX_TIME_SIZE: u64 = 32;

/// Builds a schema from an OpenAPI node. The names of the schema's object types begin with `type_name`.
pub(super) fn schema(node: &dyn Node, root: bool, type_name: &str) -> Schema {
    build(node, root, type_name, MAX_DEPTH)
}

fn text<'a>(node: &'a dyn Node, name: &str) -> &'a str {
    match node.field(name).map(Node::scalar) {
        Some(Scalar::String(text)) => text,
        _ => "",
    }
}

fn flag(node: &dyn Node, name: &str) -> bool {
    matches!(node.field(name).map(Node::scalar), Some(Scalar::Bool(true)))
}

/// Reads the limit `name`. A negative limit is treated as 0.
fn limit(node: &dyn Node, name: &str) -> Option<u64> {
    match node.field(name)?.scalar() {
        Scalar::Int(limit) => Some(u64::try_from(limit).unwrap_or(0)),
        Scalar::Uint(limit) => Some(limit),
        Scalar::Double(limit) => Some(limit.max(0.0) as u64),
        _ => None,
    }
}

fn items<'a>(node: &'a dyn Node, name: &str) -> impl Iterator<Item = &'a dyn Node> {
    let list = node.field(name);
    (0..list.map_or(0, Node::len)).filter_map(move |index| list?.item(index))
}

fn strings<'a>(node: &'a dyn Node, name: &str) -> impl Iterator<Item = &'a str> {
    items(node, name).filter_map(|item| match item.scalar() {
        Scalar::String(text) => Some(text),
        _ => None,
    })
}

fn build(node: &dyn Node, root: bool, type_name: &str, depth: usize) -> Schema {
    let nullable = flag(node, "nullable");
    let list = match text(node, "x-kubernetes-list-type") {
        "" | "atomic" => List::Atomic,
        "set" => List::Set,
        "map" => List::Keyed(strings(node, "x-kubernetes-list-map-keys").map(Into::into).collect()),
        other => List::Unknown(other.into()),
    };
    let blank = Schema {
        shape: Shape::Closed,
        declared: None,
        nullable,
        max_elements: 0,
        max_key_length: 0,
        min_size: 0,
        list,
    };
    let sized = |shape, declared, max_elements, min_size| Schema {
        shape,
        declared: Some(declared),
        max_elements,
        min_size,
        ..blank.clone()
    };
    if flag(node, "x-kubernetes-int-or-string") {
        let max = limit(node, "maxLength").map_or(MAX_REQUEST_BYTES - QUOTES, |limit| limit.saturating_mul(4));
        return sized(Shape::IntOrString, Type::Dyn, max, 1);
    }
    let Some(depth) = depth.checked_sub(1).filter(|_| type_name.len() <= MAX_PATH) else {
        return Schema { shape: Shape::Unknown { preserved: true, type_name: "".into() }, ..blank };
    };
    match text(node, "type") {
        "array" => array(node, type_name, depth, blank),
        "object" => object(node, root, type_name, depth, blank),
        "string" => string(node, blank),
        "boolean" => sized(Shape::Boolean, Type::Bool, 0, 4),
        "number" => sized(Shape::Number, Type::Double, 0, 1),
        "integer" => sized(Shape::Integer, Type::Int, 0, 1),
        other => {
            let preserved = flag(node, "x-kubernetes-preserve-unknown-fields");
            Schema { shape: Shape::Unknown { preserved, type_name: other.into() }, ..blank }
        }
    }
}

fn string(node: &dyn Node, blank: Schema) -> Schema {
    let longest = MAX_REQUEST_BYTES - QUOTES;
    let max_length = limit(node, "maxLength");
    let (format, declared, max_elements, min_size) = match text(node, "format") {
        "byte" => (Format::Byte, Type::Bytes, max_length.unwrap_or(longest), QUOTES),
        "duration" => (Format::Duration, Type::Duration, MAX_TIME_SIZE, MIN_DURATION_SIZE),
        "date" => (Format::Date, Type::Timestamp, DATE_SIZE, DATE_SIZE),
        "date-time" => (Format::DateTime, Type::Timestamp, MAX_TIME_SIZE, MIN_DATE_TIME_SIZE),
        _ => {
            let longest_value = || strings(node, "enum").map(|value| value.len() as u64).max().unwrap_or(0);
            let max = match max_length {
                // Multiply by four, because `maxLength` counts code points, and a code point has up to four bytes.
                Some(limit) => limit.saturating_mul(4),
                None if node.field("enum").is_some_and(|values| !values.is_empty()) => longest_value(),
                None => longest,
            };
            (Format::Plain, Type::String, max, QUOTES)
        }
    };
    Schema { shape: Shape::String(format), declared: Some(declared), max_elements, min_size, ..blank }
}

fn array(node: &dyn Node, type_name: &str, depth: usize, blank: Schema) -> Schema {
    let Some(items) = node.field("items") else { return Schema { shape: Shape::List(None), ..blank } };
    let embedded = flag(items, "x-kubernetes-embedded-resource");
    let items = build(items, embedded, &format!("{type_name}.@idx"), depth);
    let max_elements = limit(node, "maxItems").unwrap_or((MAX_REQUEST_BYTES - QUOTES) / (items.min_size + 1));
    let declared = items.declared.clone().map(Type::list);
    Schema { shape: Shape::List(Some(Arc::new(items))), declared, max_elements, min_size: QUOTES, ..blank }
}

fn object(node: &dyn Node, root: bool, type_name: &str, depth: usize, blank: Schema) -> Schema {
    let values = node.field("additionalProperties").filter(|values| values.scalar() == Scalar::Map);
    if let Some(values) = values {
        let embedded = flag(values, "x-kubernetes-embedded-resource");
        let values = build(values, embedded, &format!("{type_name}.@elem"), depth);
        // A map entry needs at least six bytes: a key, two quotes, a colon and a comma.
        let max_elements = limit(node, "maxProperties").unwrap_or((MAX_REQUEST_BYTES - QUOTES) / (values.min_size + 6));
        let declared = values.declared.clone().map(|values| Type::map(Type::String, values));
        let keys = node.field("propertyNames").map(|keys| build(keys, false, type_name, depth));
        let max_key_length = keys.map_or(0, |keys| keys.max_elements);
        let shape = Shape::Map(Arc::new(values));
        return Schema { shape, declared, max_elements, max_key_length, min_size: QUOTES, ..blank };
    }
    let mut properties = BTreeMap::new();
    let mut min_size = QUOTES;
    let required: Vec<_> = strings(node, "required").collect();
    let declared = node.field("properties");
    for (name, property) in declared.into_iter().flat_map(Node::fields) {
        let embedded = flag(property, "x-kubernetes-embedded-resource");
        let part_name = format!("{type_name}.{}", escape(name).unwrap_or_default());
        let part = build(property, embedded, &part_name, depth);
        if part.declared.is_some() && required.contains(&name) && property.field("default").is_none() {
            min_size += name.len() as u64 + part.min_size + 4;
        }
        properties.insert(name.into(), Arc::new(part));
    }
    if root {
        add_identity(&mut properties, type_name, &required, declared, &mut min_size);
    }
    let shape = if declared.is_some() || root { Shape::Object(properties) } else { Shape::Closed };
    Schema { shape, declared: Some(Type::object(type_name)), min_size, ..blank }
}

fn add_identity(
    properties: &mut BTreeMap<Box<str>, Arc<Schema>>,
    type_name: &str,
    required: &[&str],
    declared: Option<&dyn Node>,
    min_size: &mut u64,
) {
    let is_string = |part: Option<&Arc<Schema>>| part.is_some_and(|part| matches!(part.shape, Shape::String(_)));
    let metadata_is_complete = properties.get("metadata").is_some_and(|metadata| match &metadata.shape {
        Shape::Object(parts) => is_string(parts.get("name")) && is_string(parts.get("generateName")),
        _ => false,
    });
    if metadata_is_complete && is_string(properties.get("kind")) && is_string(properties.get("apiVersion")) {
        return;
    }
    let blank = Schema {
        shape: Shape::Closed,
        declared: None,
        nullable: false,
        max_elements: 0,
        max_key_length: 0,
        min_size: QUOTES,
        list: List::Atomic,
    };
    let string = Arc::new(Schema {
        shape: Shape::String(Format::Plain),
        declared: Some(Type::String),
        max_elements: MAX_REQUEST_BYTES - QUOTES,
        ..blank.clone()
    });
    let parts = ["name", "generateName"].map(|name| (name.into(), string.clone()));
    let metadata = Schema {
        shape: Shape::Object(parts.into()),
        declared: Some(Type::object(format!("{type_name}.metadata"))),
        ..blank
    };
    let replacements = [("kind", string.clone()), ("apiVersion", string), ("metadata", Arc::new(metadata))];
    for (name, replacement) in replacements {
        let has_default = declared.and_then(|all| all.field(name)).is_some_and(|part| part.field("default").is_some());
        if required.contains(&name) {
            let size = name.len() as u64 + 4;
            if let Some(replaced) = properties.get(name)
                && !has_default
                && replaced.declared.is_some()
            {
                *min_size = min_size.saturating_sub(size + replaced.min_size);
            }
            *min_size += size + replacement.min_size;
        }
        properties.insert(name.into(), replacement);
    }
}
