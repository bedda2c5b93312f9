//! Applies strategic merge patches and their directives.

use std::collections::HashSet;

use pintle_json::{Json, Map};

use super::merge_patch::drop_nulls;
use super::order::{Places, arrange};
use super::ordered::{PATCH, check_order, live_order};
use super::{PatchError, check};
use crate::Schema;
use crate::types::{Field, Type};

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch. A map in the patch is merged with the map in the object. The schema determines
/// whether a list in the patch replaces the list in the object, or is merged with it by key.
///
/// # Errors
///
/// Returns an error if a directive is invalid, or if an item of a keyed list has no key.
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
        Some(word) => return Err(check::unknown_patch_type(word, &patch)),
        None => {}
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered(&mut live, &mut patch, ty)?;
    for (name, value) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE) {
            Some(list) => (list.strip_prefix('/').ok_or_else(|| check::malformed_list("primitive"))?.into(), true),
            None => (name, false),
        };
        if value.is_null() {
            live.remove(&name);
            continue;
        }
        let merged = match (live.remove(&name), value) {
            (Some(Json::Object(old)), Json::Object(new)) => {
                let field = check::field(ty, &name)?;
                if field.is_some_and(|field| field.merge.replace) {
                    Some(Json::Object(new))
                } else {
                    Some(Json::Object(merge_map(old, new, field.map(|field| &field.ty))?))
                }
            }
            (Some(Json::Array(old)), Json::Array(new)) => {
                Some(Json::Array(merge_field(old, new, check::field(ty, &name)?, deletes)?))
            }
            (old, _) if deletes => old,
            (_, mut value) => {
                drop_nulls(&mut value);
                without_directives(value)
            }
        };
        if let Some(merged) = merged {
            live.insert(name, merged);
        }
    }
    Ok(live)
}

fn merge_field(
    live: Vec<Json>,
    patch: Vec<Json>,
    field: Option<&Field>,
    deletes: bool,
) -> Result<Vec<Json>, PatchError> {
    if deletes || field.is_some_and(|field| field.merge.lists) {
        merge_list(live, patch, field, deletes)
    } else {
        Ok(patch)
    }
}

fn merge_list(
    live: Vec<Json>,
    patch: Vec<Json>,
    field: Option<&Field>,
    deletes: bool,
) -> Result<Vec<Json>, PatchError> {
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    if check::item_type(&live, &patch)? != "map" {
        if deletes {
            let deleted: HashSet<Json> = patch.into_iter().collect();
            return Ok(live.into_iter().filter(|item| !deleted.contains(item)).collect());
        }
        let mut seen = HashSet::new();
        let merged = live.iter().chain(&patch).filter(|item| seen.insert(*item)).cloned().collect();
        return Ok(arrange(merged, &patch, &live, None));
    }
    let key = field.and_then(|field| field.merge.key.as_deref());
    let key = key.ok_or_else(|| PatchError::Directive("cannot merge lists without merge key for struct".into()))?;
    let (live, patch) = apply_directives(live, patch, key)?;
    let item = match field.map(|field| &field.ty) {
        Some(Type::List(list)) => Some(&list.item),
        _ => None,
    };
    let mut merged = live.clone();
    let mut places = Places::new(&live, Some(key));
    for new in &patch {
        check::item_key(new, Some(key))?;
        match (places.of(new).and_then(|at| merged.get_mut(at)), new) {
            (Some(old), Json::Object(new)) => {
                let before = old.as_object_mut().map(std::mem::take).unwrap_or_default();
                *old = Json::Object(merge_map(before, new.clone(), item)?);
            }
            _ => {
                // kube-apiserver keeps the nulls and the nested directives of an added item.
                places.insert(new, merged.len());
                merged.push(new.clone());
            }
        }
    }
    for old in &live {
        check::item_key(old, Some(key))?;
    }
    Ok(arrange(merged, &patch, &live, Some(key)))
}

/// Applies the list items with a `$patch` directive, and removes them from the patch.
fn apply_directives(mut live: Vec<Json>, patch: Vec<Json>, key: &str) -> Result<(Vec<Json>, Vec<Json>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(PATCH) {
            None => rest.push(item),
            Some(Json::String(word)) if word == "delete" => {
                check::item_key(&item, Some(key))?;
                deleted.push(item);
            }
            Some(Json::String(word)) if word == "replace" => replace = true,
            Some(Json::String(word)) if word == "merge" => {
                return Err(PatchError::Directive("merging lists cannot yet be specified in the patch".into()));
            }
            Some(word) => return Err(check::unknown_patch_type(word, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    let deleted = Places::new(&deleted, Some(key));
    live.retain(|old| deleted.of(old).is_none());
    Ok(if replace { (rest, Vec::new()) } else { (live, rest) })
}

/// Merges the lists that have a `$setElementOrder` directive, and removes these lists from the patch.
fn merge_ordered(live: &mut Map, patch: &mut Map, ty: Option<&Type>) -> Result<(), PatchError> {
    let names: Vec<String> = patch.keys().filter_map(|name| name.strip_prefix(ORDER)).map(Into::into).collect();
    for suffix in names {
        let order = check::list(patch.remove(&format!("{ORDER}{suffix}")).unwrap_or_default())?;
        let name = suffix.strip_prefix('/').ok_or_else(|| check::malformed_list("setElementOrder"))?;
        let old = live.get(name).cloned().map(check::list).transpose()?;
        let new = patch.get(name).cloned().map(check::list).transpose()?;
        let field = check::list_field(ty, name)?;
        let key = field.merge.key.as_deref();
        check_order(new.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (&old, &new) {
            (Some(old), Some(new)) => merge_field(old.clone(), new.clone(), Some(field), false)?,
            (Some(old), None) => old.clone(),
            (None, Some(new)) => new.iter().cloned().filter_map(without_directives).collect(),
            (None, None) => continue,
        };
        patch.remove(name);
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        for item in merged.iter().chain(&order).chain(&old) {
            if matches!(check::item_key(item, key)?, Json::Object(_) | Json::Array(_)) {
                // kube-apiserver panics.
                return Err(PatchError::Directive("cannot order lists without merge key for struct".into()));
            }
        }
        check::item_type(&old, &new)?;
        let live_order = match key {
            Some(key) if field.merge.lists => live_order(old, new, key),
            _ => old,
        };
        live.insert(name, arrange(merged, &order, &live_order, key).into());
    }
    Ok(())
}

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

/// Drops every map that contains `$patch`. kube-apiserver keeps all other directives and reports them as unknown fields.
fn without_directives(value: Json) -> Option<Json> {
    match value {
        Json::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        Json::Object(members) if members.contains_key(PATCH) => None,
        Json::Object(members) => {
            let members = members.into_iter();
            Some(Json::Object(members.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect()))
        }
        other => Some(other),
    }
}
