//! Applies strategic merge patches and their directives.

use std::collections::HashSet;

use pintle_json::{Json, Map};

use super::merge_patch::drop_nulls;
use super::order::{Places, arrange, identity};
use super::{PatchError, go_text};
use crate::Schema;
use crate::types::{Field, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch. A map in the patch is merged with the map in the object. Depending on the schema,
/// a list in the patch replaces the list in the object or is merged with it by key.
///
/// # Errors
///
/// Fails if a directive is invalid, or if an item of a keyed list has no key.
pub fn strategic(object: &Json, patch: &Json, schema: &Schema) -> Result<Json, PatchError> {
    let (Json::Object(object), Json::Object(patch)) = (object, patch) else { return Ok(patch.clone()) };
    merge_map(object.clone(), patch.clone(), Some(schema.root())).map(Json::Object)
}

fn merge_map(mut live: Map, mut patch: Map, ty: Option<&Type>) -> Result<Map, PatchError> {
    match patch.get(PATCH) {
        Some(Json::String(word)) if word == "replace" => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(Json::String(word)) if word == "delete" => return Ok(Map::new()),
        Some(word) => return Err(unknown(word, &patch)),
        None => {}
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered(&mut live, &mut patch, ty)?;
    for (name, value) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE) {
            Some(list) => (list.into(), true),
            None => (name, false),
        };
        if value.is_null() {
            live.remove(&name);
            continue;
        }
        let merged = match (live.remove(&name), value) {
            (Some(Json::Object(old)), Json::Object(new)) => {
                let field = field(ty, &name);
                if field.is_some_and(|field| field.merge.replace) {
                    Json::Object(new)
                } else {
                    Json::Object(merge_map(old, new, below(ty, &name))?)
                }
            }
            (Some(Json::Array(old)), Json::Array(new)) => Json::Array(merge_field(old, new, ty, &name, deletes)?),
            (Some(old), _) if deletes => old,
            (None, _) if deletes => continue,
            (
                Some(Json::String(_) | Json::Number(_) | Json::Bool(_)),
                value @ (Json::String(_) | Json::Number(_) | Json::Bool(_)),
            ) => value,
            (_, value) => cleaned(value),
        };
        live.insert(name, merged);
    }
    Ok(live)
}

fn merge_field(
    live: Vec<Json>,
    patch: Vec<Json>,
    ty: Option<&Type>,
    name: &str,
    deletes: bool,
) -> Result<Vec<Json>, PatchError> {
    match field(ty, name) {
        Some(field) if field.merge.lists => merge_list(live, patch, field, deletes),
        _ => Ok(patch),
    }
}

fn merge_list(live: Vec<Json>, patch: Vec<Json>, field: &Field, deletes: bool) -> Result<Vec<Json>, PatchError> {
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    let maps = live.iter().chain(&patch).filter(|item| item.is_object()).count();
    if maps != 0 && maps != live.len() + patch.len() {
        let all = go_text(&Json::Array(vec![live.into(), patch.into()]));
        return Err(PatchError::Directive(format!("list element types are not identical: {all}")));
    }
    if maps == 0 {
        if deletes {
            let deleted: HashSet<Json> = patch.into_iter().collect();
            return Ok(live.into_iter().filter(|item| !deleted.contains(item)).collect());
        }
        let mut seen = HashSet::new();
        let merged = live.iter().chain(&patch).filter(|item| seen.insert(*item)).cloned().collect();
        return Ok(arrange(merged, &patch, &live, None));
    }
    let Some(key) = field.merge.key.as_deref() else {
        return Err(PatchError::Directive(format!("cannot merge lists without merge key for {}", field.name)));
    };
    let (live, patch) = apply_directives(live, patch, key)?;
    let item = match &field.ty {
        Type::List(list) => Some(&list.item),
        _ => None,
    };
    let mut merged = live.clone();
    let mut places = Places::new(&live, Some(key));
    for new in patch.iter() {
        new.get(key).ok_or_else(|| no_key(new, key))?;
        match (places.of(new).and_then(|at| merged.get_mut(at)), new) {
            (Some(old), Json::Object(new)) => {
                let before = old.as_object_mut().map(std::mem::take).unwrap_or_default();
                *old = Json::Object(merge_map(before, new.clone(), item)?);
            }
            _ => {
                let new = cleaned(new.clone());
                places.insert(&new, merged.len());
                merged.push(new);
            }
        }
    }
    for old in &live {
        old.get(key).ok_or_else(|| no_key(old, key))?;
    }
    Ok(arrange(merged, &patch, &live, Some(key)))
}

/// Applies the list items that contain a `$patch` directive, and removes these items from the patch.
fn apply_directives(mut live: Vec<Json>, patch: Vec<Json>, key: &str) -> Result<(Vec<Json>, Vec<Json>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(PATCH) {
            None => rest.push(item),
            Some(Json::String(word)) if word == "delete" => {
                item.get(key).ok_or_else(|| no_key(&item, key))?;
                deleted.push(item);
            }
            Some(Json::String(word)) if word == "replace" => replace = true,
            Some(Json::String(word)) if word == "merge" => {
                return Err(PatchError::Directive("merging lists cannot yet be specified in the patch".into()));
            }
            Some(word) => return Err(unknown(word, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    let deleted = Places::new(&deleted, Some(key));
    live.retain(|old| deleted.of(old).is_none());
    Ok(if replace { (rest, Vec::new()) } else { (live, rest) })
}

/// Merges the lists that have a `$setElementOrder` directive, and removes these lists from the patch.
fn merge_ordered(live: &mut Map, patch: &mut Map, ty: Option<&Type>) -> Result<(), PatchError> {
    let names: Vec<String> = patch.keys().filter_map(|name| name.strip_prefix(ORDER)).map(Into::into).collect();
    for name in names {
        let order = list(patch.remove(&format!("{ORDER}{name}")).unwrap_or_default())?;
        let field = match ty {
            Some(Type::Struct { struct_type, .. }) => struct_type.field(&name).ok_or_else(|| {
                let struct_name = struct_type.short_name();
                PatchError::Directive(format!(
                    "unable to find api field in struct {struct_name} for the json field {name:?}"
                ))
            })?,
            _ => return Err(PatchError::Directive(format!("unable to find the json field {name:?}"))),
        };
        let key = field.merge.key.as_deref();
        if let Some(key) = key {
            for item in &order {
                item.get(key).ok_or_else(|| no_key(item, key))?;
            }
        }
        let old = live.get(&name).cloned().map(list).transpose()?;
        let new = patch.get(&name).cloned().map(list).transpose()?;
        check_order(new.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (&old, &new) {
            (Some(old), Some(new)) => merge_field(old.clone(), new.clone(), ty, &name, false)?,
            (Some(old), None) => old.clone(),
            (None, Some(new)) => match cleaned(new.clone().into()) {
                Json::Array(items) => items,
                _ => Vec::new(),
            },
            (None, None) => continue,
        };
        patch.remove(&name);
        live.insert(name, arrange(merged, &order, old.as_deref().unwrap_or_default(), key).into());
    }
    Ok(())
}

/// Checks that `$setElementOrder` contains all items that the patch adds or changes, in the same order.
fn check_order(patch: &[Json], order: &[Json], key: Option<&str>) -> Result<(), PatchError> {
    let deleted = |item: &Json| item[PATCH].as_str() == Some("delete");
    let kept = patch.iter().filter(|item| key.is_none() || !deleted(item));
    let mut kept = kept.map(|item| identity(item, key)).peekable();
    if order.is_empty() {
        return Ok(());
    }
    for item in order {
        let named = identity(item, key);
        kept.next_if(|next| next.is_some() && *next == named);
    }
    match kept.peek() {
        None => Ok(()),
        Some(_) => Err(PatchError::Directive(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            go_text(&patch.to_vec().into()),
            go_text(&order.to_vec().into())
        ))),
    }
}

/// Drops all fields that are not listed in the `$retainKeys` directive.
fn retain_keys(live: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".into());
    let keys: HashSet<&str> = keys.as_array().ok_or_else(bad)?.iter().filter_map(Json::as_str).collect();
    let is_key = |name: &str| keys.contains(&name);
    let directive = |name: &str| name.starts_with(DELETE) || name.starts_with(ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !directive(name) && !is_key(name)) {
        return Err(bad());
    }
    live.retain(|name, _| is_key(name));
    Ok(())
}

/// Removes all directives and nulls from a value that the patch adds.
fn cleaned(mut value: Json) -> Json {
    drop_nulls(&mut value);
    without_directives(value).unwrap_or_default()
}

fn without_directives(value: Json) -> Option<Json> {
    match value {
        Json::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        Json::Object(members) => {
            if members[PATCH].as_str() == Some("delete") {
                return None;
            }
            let directive = |name: &str| {
                name == PATCH || name == RETAIN_KEYS || name.starts_with(DELETE) || name.starts_with(ORDER)
            };
            let members = members.into_iter().filter(|(name, _)| !directive(name));
            Some(Json::Object(members.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect()))
        }
        other => Some(other),
    }
}

fn field<'a>(ty: Option<&'a Type>, name: &str) -> Option<&'a Field> {
    ty?.field(name)
}

fn below<'a>(ty: Option<&'a Type>, name: &str) -> Option<&'a Type> {
    ty?.child(name)
}

fn list(value: Json) -> Result<Vec<Json>, PatchError> {
    match value {
        Json::Array(items) => Ok(items),
        other => {
            let found = match other {
                Json::Null => "nil",
                Json::Bool(_) => "bool",
                Json::Number(_) => "number",
                Json::String(_) => "string",
                _ => "map[string]interface {}",
            };
            Err(PatchError::Directive(format!("expected a []interface {{}}, but received a {found}")))
        }
    }
}

fn no_key(item: &Json, key: &str) -> PatchError {
    PatchError::Directive(format!("map: {} does not contain declared merge key: {key}", go_text(item)))
}

fn unknown(word: &Json, patch: &Map) -> PatchError {
    let word = match word {
        Json::String(word) => word.to_string(),
        Json::Number(number) => format!("%!s(int64={number})"),
        other => go_text(other),
    };
    PatchError::Directive(format!("unknown patch type: {word} in map: {}", go_text(&Json::Object(patch.clone()))))
}
