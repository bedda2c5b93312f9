//! Collects the field paths of an object, and validates an applied object against its schema.

use std::collections::{BTreeMap, BTreeSet};

use pintle_json::Json;
use pintle_schema::patch::go_text;
use pintle_schema::{ListType, Scalar, Type};

use super::compare::{Shape, associative_list, is_atomic_map, member, shape};
use super::path_element::PathElement;
use super::set::Set;

pub(crate) fn field_set(ty: &Type, value: &Json) -> Set {
    let mut set = Set::default();
    collect_paths(ty, value, &mut set);
    set
}

/// Adds the paths of all fields that are set inside a value. Returns `true` if the value is a leaf. For a leaf, the
/// caller must add its path.
fn collect_paths(ty: &Type, value: &Json, set: &mut Set) -> bool {
    match shape(ty, value) {
        Shape::Scalar => true,
        Shape::Map if is_atomic_map(ty) => true,
        Shape::Map => {
            for (name, value) in value.members("") {
                let mut child_paths = Set::default();
                let is_leaf = collect_paths(member(ty, name), value, &mut child_paths);
                let is_empty = value.is_null() || value.as_object().is_some_and(|map| map.is_empty());
                let element = PathElement::Field(name.clone());
                if is_leaf || is_empty || !ty.names(name) {
                    set.insert(std::slice::from_ref(&element));
                }
                set.extend_below(element, child_paths);
            }
            false
        }
        Shape::List => match associative_list(ty) {
            None => true,
            Some(list) => {
                collect_item_paths(list, value.as_array().map_or(&[], Vec::as_slice), set);
                false
            }
        },
    }
}

fn collect_item_paths(ty: &ListType, items: &[Json], set: &mut Set) {
    let mut by_element: BTreeMap<PathElement, Vec<&Json>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = PathElement::of_item(ty, item) {
            by_element.entry(element).or_default().push(item);
        }
    }
    for (element, items) in by_element {
        set.insert(std::slice::from_ref(&element));
        // Treat duplicate list items as one item with a single set of owners.
        if let [item] = items[..] {
            let mut child_paths = Set::default();
            collect_paths(&ty.item, item, &mut child_paths);
            set.extend_below(element, child_paths);
        }
    }
}

pub(super) fn schema_errors(ty: &Type, value: &Json) -> Vec<String> {
    errors(ty, value, Rules { null_is_valid: true, duplicates_are_valid: false })
}

/// Validates a stored or new object against its schema, but allows list items with the same key.
pub(super) fn schema_errors_except_duplicates(ty: &Type, value: &Json) -> Vec<String> {
    errors(ty, value, Rules { null_is_valid: true, duplicates_are_valid: true })
}

/// Validates an apply configuration from a CEL expression against its schema.
pub(super) fn schema_errors_of_cel_value(ty: &Type, value: &Json) -> Vec<String> {
    errors(ty, value, Rules { null_is_valid: false, duplicates_are_valid: false })
}

pub(super) fn error_text(errors: &[String]) -> String {
    match errors {
        [message] => message.clone(),
        messages => format!("errors:\n  {}", messages.join("\n  ")),
    }
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Whether null is valid. In CEL, null is a protobuf enum value, which Go's library rejects for all types.
    null_is_valid: bool,
    duplicates_are_valid: bool,
}

fn errors(ty: &Type, value: &Json, rules: Rules) -> Vec<String> {
    let mut errors = SchemaErrors { rules, all: Vec::new(), bytes: 0 };
    check_value(ty, value, &mut String::new(), &mut errors);
    errors.all
}

/// Error messages as in Go's library, with the paths of the fields. The total size of the messages is limited, because
/// a path can be as long as the object.
struct SchemaErrors {
    rules: Rules,
    all: Vec<String>,
    bytes: usize,
}

const MAX_ERRORS_SIZE: usize = 4 << 20;

impl SchemaErrors {
    fn push(&mut self, path: &str, message: &str) {
        if self.bytes < MAX_ERRORS_SIZE {
            let message = if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") };
            self.bytes += size_of::<String>() + message.len();
            self.all.push(message);
        }
    }
}

fn check_value(ty: &Type, value: &Json, path: &mut String, errors: &mut SchemaErrors) {
    match (shape(ty, value), value) {
        (_, Json::Null) if errors.rules.null_is_valid => {}
        (Shape::Scalar, Json::Null) => {
            if let Type::Scalar(scalar) = ty {
                null_error(*scalar).into_iter().for_each(|error| errors.push(path, &error));
            }
        }
        (Shape::Map, Json::Null) => errors.push(path, "expected map, got &{NULL_VALUE}"),
        (Shape::List, Json::Null) => errors.push(path, "expected list, got &{NULL_VALUE}"),
        (Shape::Scalar, value) => {
            if let Type::Scalar(scalar) = ty {
                scalar_error(*scalar, value).into_iter().for_each(|error| errors.push(path, &error));
            }
        }
        (Shape::Map, Json::Object(members)) => {
            // Go stops at the first undeclared field of a map, in the random order of the map.
            let mut is_declared = true;
            for (name, value) in members {
                let length = path.len();
                path.push_str(&format!(".{name}"));
                match ty.child(name) {
                    Some(ty) => check_value(ty, value, path, errors),
                    None if is_declared && matches!(ty, Type::Struct { .. }) => {
                        is_declared = false;
                        errors.push(path, "field not declared in schema");
                    }
                    None => {}
                }
                path.truncate(length);
            }
        }
        (Shape::Map, value) => errors.push(path, &format!("expected map, got &{{{}}}", go_text(value))),
        (Shape::List, Json::Array(items)) => {
            if let Type::List(list) = ty {
                check_items(list, items, path, errors);
            }
        }
        (Shape::List, value) => errors.push(path, &format!("expected list, got &{{{}}}", go_text(value))),
    }
}

fn check_items(ty: &ListType, items: &[Json], path: &mut String, errors: &mut SchemaErrors) {
    let is_associative = ty.topology != pintle_schema::Topology::Atomic;
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if is_associative {
            match PathElement::of_item(ty, item) {
                Ok(element) => element,
                Err(why) => {
                    errors.push(path, &format!("element {index}: {why}"));
                    return;
                }
            }
        } else {
            PathElement::Index(index as i64)
        };
        let length = path.len();
        let text = element.to_string();
        if !seen.insert(element) && !errors.rules.duplicates_are_valid {
            errors.push(path, &format!("duplicate entries for key {text}"));
        }
        path.push_str(&text);
        check_value(&ty.item, item, path, errors);
        path.truncate(length);
    }
}

/// Returns the error for a null value, which is not valid for any type.
fn null_error(scalar: Scalar) -> Option<String> {
    let expected = expected_type(scalar);
    match scalar {
        Scalar::Raw => None,
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => Some(format!("expected {expected}, got structpb.NullValue")),
        Scalar::String | Scalar::Bytes | Scalar::Duration => {
            Some(format!("expected {expected}, got &value.valueUnstructured{{Value:0}}"))
        }
        _ => Some(format!("expected {expected}, got &{{NULL_VALUE}}")),
    }
}

fn scalar_error(scalar: Scalar, value: &Json) -> Option<String> {
    let fits = match scalar {
        Scalar::Raw => true,
        Scalar::String | Scalar::Bytes | Scalar::Duration => value.is_string(),
        Scalar::Bool => value.is_boolean(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => value.is_number(),
        Scalar::Quantity | Scalar::ResourceQuantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime => {
            !value.is_array() && !value.is_object()
        }
    };
    if fits {
        return None;
    }
    let expected = expected_type(scalar);
    match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => Some(format!("expected {expected}, got {}", go_type(value))),
        Scalar::String | Scalar::Bytes | Scalar::Duration => {
            Some(format!("expected {expected}, got {}", go_value(value)))
        }
        _ => Some(format!("expected {expected}, got &{{{}}}", go_text(value))),
    }
}

fn expected_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Raw => "JSON",
        Scalar::Bool => "boolean",
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => "numeric (int or float)",
        Scalar::Quantity | Scalar::ResourceQuantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime => {
            "any scalar"
        }
        Scalar::String | Scalar::Bytes | Scalar::Duration => "string",
    }
}

fn go_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

fn go_value(value: &Json) -> String {
    format!(
        "&value.valueUnstructured{{Value:{}}}",
        match value {
            Json::String(text) => format!("{text:?}"),
            Json::Number(number) => number.to_string(),
            Json::Bool(value) => value.to_string(),
            other => go_type(other).to_owned() + "{…}",
        }
    )
}
