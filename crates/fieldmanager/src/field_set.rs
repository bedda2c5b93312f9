//! Collects an object's field paths, and checks an applied object against its schema.

use std::collections::{BTreeMap, BTreeSet};

use pintle_json::Json;
use pintle_schema::patch::go_text;
use pintle_schema::{ListType, Scalar, Type};

use super::compare::{Shape, atomic_map, keyed, member, shape};
use super::path_element::PathElement;
use super::set::Set;

/// Returns the paths of the fields that an applied object sets.
pub(crate) fn field_set(ty: &Type, value: &Json) -> Set {
    let mut set = Set::default();
    claim(ty, value, &mut set);
    set
}

/// Adds the paths of the fields that are set inside a value. Returns `true` if the value's own path must be added, too.
fn claim(ty: &Type, value: &Json, set: &mut Set) -> bool {
    match shape(ty, value) {
        Shape::Scalar => true,
        Shape::Map if atomic_map(ty) => true,
        Shape::Map => {
            for (name, value) in value.members("") {
                let mut below = Set::default();
                let whole = claim(member(ty, name), value, &mut below);
                let is_empty = value.is_null() || value.as_object().is_some_and(|map| map.is_empty());
                let step = PathElement::Field(name.clone());
                if whole || is_empty || !ty.names(name) {
                    set.insert(std::slice::from_ref(&step));
                }
                set.extend_below(step, below);
            }
            false
        }
        Shape::List => match keyed(ty) {
            None => true,
            Some(list) => {
                claim_items(list, value.as_array().map_or(&[], Vec::as_slice), set);
                false
            }
        },
    }
}

fn claim_items(ty: &ListType, items: &[Json], set: &mut Set) {
    let mut by_step: BTreeMap<PathElement, Vec<&Json>> = BTreeMap::new();
    for item in items {
        if let Ok(step) = PathElement::of_item(ty, item) {
            by_step.entry(step).or_default().push(item);
        }
    }
    for (step, items) in by_step {
        set.insert(std::slice::from_ref(&step));
        // Duplicate list items share one set of owners.
        if let [item] = items[..] {
            let mut below = Set::default();
            claim(&ty.item, item, &mut below);
            set.extend_below(step, below);
        }
    }
}

/// Returns the errors in an applied object, with the messages of Go's library. Empty if the object fits its schema.
pub(super) fn check(ty: &Type, value: &Json) -> Vec<String> {
    errors(ty, value, Nulls::Fit)
}

/// Returns the errors in an apply configuration from a CEL expression, in which Go's library does not recognize null.
pub(super) fn check_cel_value(ty: &Type, value: &Json) -> Vec<String> {
    errors(ty, value, Nulls::Differ)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Fit,
    /// CEL represents null as a protobuf enum value, which Go's library accepts for no type.
    Differ,
}

fn errors(ty: &Type, value: &Json, nulls: Nulls) -> Vec<String> {
    let mut errors = ValidationErrors { nulls, all: Vec::new(), bytes: 0 };
    check_value(ty, value, &mut String::new(), &mut errors);
    errors.all
}

/// A list of errors with a limited total size, because a path can be as long as the object.
struct ValidationErrors {
    nulls: Nulls,
    all: Vec<String>,
    bytes: usize,
}

/// The maximum total size of the reported errors, in bytes.
const MAX_ERRORS_SIZE: usize = 4 << 20;

impl ValidationErrors {
    fn push(&mut self, path: &str, message: &str) {
        if self.bytes < MAX_ERRORS_SIZE {
            let error = if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") };
            self.bytes += size_of::<String>() + error.len();
            self.all.push(error);
        }
    }
}

fn check_value(ty: &Type, value: &Json, path: &mut String, errors: &mut ValidationErrors) {
    match (shape(ty, value), value) {
        (_, Json::Null) if errors.nulls == Nulls::Fit => {}
        (Shape::Scalar, Json::Null) => {
            if let Type::Scalar(scalar) = ty {
                check_null(*scalar).into_iter().for_each(|what| errors.push(path, &what));
            }
        }
        (Shape::Map, Json::Null) => errors.push(path, "expected map, got &{NULL_VALUE}"),
        (Shape::List, Json::Null) => errors.push(path, "expected list, got &{NULL_VALUE}"),
        (Shape::Scalar, value) => {
            if let Type::Scalar(scalar) = ty {
                check_scalar(*scalar, value).into_iter().for_each(|what| errors.push(path, &what));
            }
        }
        (Shape::Map, Json::Object(members)) => {
            for (name, value) in members {
                let length = path.len();
                path.push_str(&format!(".{name}"));
                match ty.child(name) {
                    Some(ty) => check_value(ty, value, path, errors),
                    None if matches!(ty, Type::Struct { .. }) => {
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

fn check_items(ty: &ListType, items: &[Json], path: &mut String, errors: &mut ValidationErrors) {
    let associative = ty.topology != pintle_schema::Topology::Atomic;
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let step = if associative {
            match PathElement::of_item(ty, item) {
                Ok(step) => step,
                Err(why) => {
                    errors.push(path, &format!("element {at}: {why}"));
                    return;
                }
            }
        } else {
            PathElement::Index(at as i64)
        };
        let length = path.len();
        let text = step.to_string();
        if !seen.insert(step) {
            errors.push(path, &format!("duplicate entries for key {text}"));
        }
        path.push_str(&text);
        check_value(&ty.item, item, path, errors);
        path.truncate(length);
    }
}

fn check_null(scalar: Scalar) -> Option<String> {
    let expected = expected(scalar);
    match scalar {
        Scalar::Raw => None,
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => Some(format!("expected {expected}, got structpb.NullValue")),
        Scalar::String | Scalar::Bytes | Scalar::Duration => {
            Some(format!("expected {expected}, got &value.valueUnstructured{{Value:0}}"))
        }
        _ => Some(format!("expected {expected}, got &{{NULL_VALUE}}")),
    }
}

fn check_scalar(scalar: Scalar, value: &Json) -> Option<String> {
    let fits = match scalar {
        Scalar::Raw => true,
        Scalar::String | Scalar::Bytes | Scalar::Duration => value.is_string(),
        Scalar::Bool => value.is_boolean(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => value.is_number(),
        Scalar::Quantity
        | Scalar::ResourceQuantity
        | Scalar::IntOrString
        | Scalar::Time
        | Scalar::MicroTime
        | Scalar::Untyped => !value.is_array() && !value.is_object(),
    };
    if fits {
        return None;
    }
    let expected = expected(scalar);
    match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => Some(format!("expected {expected}, got {}", go_shape(value))),
        Scalar::String | Scalar::Bytes | Scalar::Duration => {
            Some(format!("expected {expected}, got {}", go_value(value)))
        }
        _ => Some(format!("expected {expected}, got &{{{}}}", go_text(value))),
    }
}

fn expected(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Raw => "JSON",
        Scalar::Bool => "boolean",
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => "numeric (int or float)",
        Scalar::Quantity
        | Scalar::ResourceQuantity
        | Scalar::IntOrString
        | Scalar::Time
        | Scalar::MicroTime
        | Scalar::Untyped => "any scalar",
        Scalar::String | Scalar::Bytes | Scalar::Duration => "string",
    }
}

fn go_shape(value: &Json) -> &'static str {
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
            other => go_shape(other).to_owned() + "{…}",
        }
    )
}
