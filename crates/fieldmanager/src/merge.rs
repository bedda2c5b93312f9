//! Merges an apply configuration into an object, and removes paths from an object.

use std::collections::{BTreeMap, BTreeSet};

use pintle_json::{Json, Map};
use pintle_schema::{ListType, Type};

use super::compare::{Shape, associative_list, is_atomic_map, is_empty_or_absent, member, shape};
use super::path_element::PathElement;
use super::set::Set;

/// Merges `applied` into `live`, or returns `None` if the result would be empty.
///
/// # Errors
///
/// Returns an error if a list item cannot be identified, or if a list in `applied` contains duplicate items.
pub(super) fn merge(ty: &Type, live: Option<&Json>, applied: Option<&Json>) -> Result<Option<Json>, String> {
    let like = match (live, applied) {
        (None, None) => return Ok(None),
        (Some(live), Some(Json::Null) | None) => shape(ty, live),
        (_, Some(applied)) => shape(ty, applied),
    };
    let whole = || applied.or(live).cloned();
    match like {
        Shape::Scalar => Ok(whole()),
        Shape::Map if is_atomic_map(ty) || (is_empty_or_absent(live) && is_empty_or_absent(applied)) => Ok(whole()),
        Shape::Map => {
            let (live, applied) = (live.and_then(Json::as_object), applied.and_then(Json::as_object));
            let mut out = Map::new();
            let names = live.into_iter().flatten().chain(applied.into_iter().flatten()).map(|(name, _)| name);
            for name in names {
                if out.contains_key(name) {
                    continue;
                }
                let (live, applied) = (live.and_then(|map| map.get(name)), applied.and_then(|map| map.get(name)));
                if let Some(value) = merge(member(ty, name), live, applied)? {
                    out.insert(name.clone(), value);
                }
            }
            Ok((!out.is_empty()).then_some(Json::Object(out)))
        }
        Shape::List => match associative_list(ty) {
            Some(list) if !(is_empty_or_absent(live) && is_empty_or_absent(applied)) => {
                let merged = merge_items(list, items(live), items(applied))?;
                Ok((!merged.is_empty()).then_some(Json::Array(merged)))
            }
            _ => Ok(whole()),
        },
    }
}

fn items(list: Option<&Json>) -> &[Json] {
    list.and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Merges two lists by repeatedly comparing the first remaining item of each list:
///
/// - Two items with the same identity are merged.
/// - A live item that occurs later in the applied list is skipped until the comparison reaches the later position.
/// - A live item that does not occur in the applied list is copied.
/// - In all other cases, the applied item is added, and merged with the same item of the live list, if any.
fn merge_items(ty: &ListType, live: &[Json], applied: &[Json]) -> Result<Vec<Json>, String> {
    let steps = |items: &[Json]| -> Result<Vec<PathElement>, String> {
        let steps = items.iter().enumerate();
        steps.map(|(at, item)| PathElement::of_item(ty, item).map_err(|why| format!("element {at}: {why}"))).collect()
    };
    let (old, new) = (steps(live)?, steps(applied)?);
    let mut applied_steps = BTreeSet::new();
    if let Some(step) = new.iter().find(|step| !applied_steps.insert(*step)) {
        return Err(format!("duplicate entries for key {step}"));
    }
    let mut known: BTreeMap<&PathElement, &Json> = BTreeMap::new();
    for (step, item) in old.iter().zip(live) {
        // Replace a duplicate item in the live list with the applied item, without merging them.
        known.entry(step).and_modify(|item| *item = &Json::Null).or_insert(item);
    }
    let counterpart = |step: &PathElement| known.get(step).copied();
    let mut shared = new.iter().filter(|step| known.contains_key(step)).peekable();
    let mut out = Vec::new();
    let mut emitted: BTreeSet<&PathElement> = BTreeSet::new();
    let (mut live_index, mut applied_index) = (0, 0);
    while live_index < old.len() || applied_index < new.len() {
        if live_index < old.len() && applied_index < new.len() && old[live_index] == new[applied_index] {
            out.extend(merge(&ty.item, counterpart(&old[live_index]), Some(&applied[applied_index]))?);
            emitted.insert(&new[applied_index]);
            shared.next();
            live_index += 1;
            applied_index += 1;
            continue;
        }
        if live_index < old.len()
            && applied_index < new.len()
            && applied_steps.contains(&old[live_index])
            && shared.peek().is_some_and(|next| **next != old[live_index])
        {
            live_index += 1;
            continue;
        }
        if live_index < old.len() {
            if !applied_steps.contains(&old[live_index]) {
                out.extend(merge(&ty.item, Some(&live[live_index]), None)?);
                live_index += 1;
                continue;
            }
            if emitted.contains(&old[live_index]) {
                live_index += 1;
            }
        }
        if applied_index < new.len() {
            out.extend(merge(&ty.item, counterpart(&new[applied_index]), Some(&applied[applied_index]))?);
            emitted.insert(&new[applied_index]);
            shared.next_if(|next| **next == new[applied_index]);
            applied_index += 1;
        }
    }
    Ok(out)
}

/// Removes paths from a value. The result is null if all members or items of the value are removed. If a path below a
/// member or item is removed, the result is a map or a list, which may be empty.
pub(super) fn remove(ty: &Type, value: &Json, paths: &Set) -> Json {
    match (shape(ty, value), value) {
        (Shape::Map, Json::Object(members)) if !members.is_empty() && !is_atomic_map(ty) => {
            let mut out = Map::new();
            let mut removed_below = false;
            for (name, value) in members {
                let step = PathElement::Field(name.clone());
                if paths.has(&step) {
                    continue;
                }
                let value = match paths.below(&step) {
                    Some(below) => {
                        removed_below = true;
                        remove_within(member(ty, name), value, below)
                    }
                    None => value.clone(),
                };
                out.insert(name.clone(), value);
            }
            if out.is_empty() && !removed_below { Json::Null } else { Json::Object(out) }
        }
        (Shape::List, Json::Array(items)) if !items.is_empty() => {
            let Some(list) = associative_list(ty) else { return Json::Null };
            let mut out = Vec::new();
            let mut removed_below = false;
            for item in items {
                let step = PathElement::of_item(list, item).ok();
                if step.as_ref().is_some_and(|step| paths.has(step)) {
                    continue;
                }
                match step.as_ref().and_then(|step| paths.below(step)) {
                    Some(below) => {
                        removed_below = true;
                        out.push(remove_within(&list.item, item, below));
                    }
                    None => out.push(item.clone()),
                }
            }
            if out.is_empty() && !removed_below { Json::Null } else { Json::Array(out) }
        }
        (Shape::Scalar, value) => value.clone(),
        _ => Json::Null,
    }
}

fn remove_within(ty: &Type, value: &Json, paths: &Set) -> Json {
    match (remove(ty, value, paths), value) {
        (Json::Null, Json::Object(_)) => Json::Object(Map::new()),
        (Json::Null, Json::Array(_)) => Json::Array(Vec::new()),
        (left, _) => left,
    }
}
