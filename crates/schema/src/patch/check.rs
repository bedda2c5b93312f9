//! Validates strategic merge patches, with the same error messages as kube-apiserver.

use pintle_json::{Json, Map};

use super::restore::go_type;
use super::{PatchError, go_text};
use crate::types::{Field, Scalar, Type};

/// Returns the field `name`, or `None` if the type is unknown.
pub(super) fn field<'a>(ty: Option<&'a Type>, name: &str) -> Result<Option<&'a Field>, PatchError> {
    let missing = |struct_name| {
        PatchError::Directive(format!("unable to find api field in struct {struct_name} for the json field {name:?}"))
    };
    match ty {
        Some(Type::Struct { struct_type, .. }) => {
            struct_type.field(name).map(Some).ok_or_else(|| missing(struct_type.short_name()))
        }
        Some(Type::Scalar(Scalar::Raw)) => Err(missing("RawExtension")),
        Some(Type::Map(_)) => {
            Err(PatchError::Directive("merging an object in json but data type is not struct, instead is: map".into()))
        }
        _ => Ok(None),
    }
}

pub(super) fn list_field<'a>(ty: Option<&'a Type>, name: &str) -> Result<&'a Field, PatchError> {
    let unknown = || PatchError::Directive(format!("unable to find the json field {name:?}"));
    let field = field(ty, name)?.ok_or_else(unknown)?;
    if !field.pointer && !matches!(field.ty, Type::List(_)) {
        return Err(PatchError::Directive("expected slice or array type, but got: struct".into()));
    }
    Ok(field)
}

pub(super) fn list(value: Json) -> Result<Vec<Json>, PatchError> {
    match value {
        Json::Array(items) => Ok(items),
        other => Err(wrong_type("[]interface {}", &other)),
    }
}

/// Returns the name of the Go type that all items of both lists share.
pub(super) fn item_type(live: &[Json], patch: &[Json]) -> Result<&'static str, PatchError> {
    let mut types = live.iter().chain(patch).map(go_type);
    match types.next() {
        None => Err(PatchError::Directive("no elements in any of the given slices".into())),
        Some("slice") => Err(PatchError::Inapplicable("lists of lists are not supported".into())),
        // kube-apiserver panics.
        Some("nil") => Err(PatchError::Directive("the first item of a merged list must not be null".into())),
        Some(first) if types.any(|other| other != first) => {
            let all = go_text(&Json::Array(vec![live.to_vec().into(), patch.to_vec().into()]));
            Err(PatchError::Directive(format!("list element types are not identical: {all}")))
        }
        Some(first) => Ok(first),
    }
}

/// Returns the value by which items are compared: the value of the key field if the list has one, or the whole item.
pub(super) fn item_key<'a>(item: &'a Json, key: Option<&str>) -> Result<&'a Json, PatchError> {
    match key {
        Some(_) if !item.is_object() => Err(wrong_type("map[string]interface {}", item)),
        Some(key) => key_value(item, key),
        None => Ok(item),
    }
}

fn key_value<'a>(item: &'a Json, key: &str) -> Result<&'a Json, PatchError> {
    match item.get(key) {
        None => {
            let item = go_text(item);
            Err(PatchError::Directive(format!("map: {item} does not contain declared merge key: {key}")))
        }
        // kube-apiserver panics.
        Some(Json::Object(_) | Json::Array(_)) => {
            Err(PatchError::Directive(format!("merge key {key} is not a scalar in map: {}", go_text(item))))
        }
        Some(value) => Ok(value),
    }
}

pub(super) fn malformed_list(kind: &str) -> PatchError {
    PatchError::BadRequest(format!("invalid patch format of {kind} list"))
}

pub(super) fn unknown_patch_type(word: &Json, patch: &Map) -> PatchError {
    let word = match word {
        Json::String(word) => word.to_string(),
        Json::Null => "%!s(<nil>)".into(),
        Json::Bool(_) | Json::Number(_) => format!("%!s({}={word})", go_type(word)),
        other => go_text(other),
    };
    PatchError::Directive(format!("unknown patch type: {word} in map: {}", go_text(&Json::Object(patch.clone()))))
}

fn wrong_type(expected: &str, found: &Json) -> PatchError {
    let found = match go_type(found) {
        "nil" => "%!s(<nil>)",
        "map" => "map[string]interface {}",
        "slice" => "[]interface {}",
        scalar => scalar,
    };
    PatchError::Directive(format!("expected a {expected}, but received a {found}"))
}
