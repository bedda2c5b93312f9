//! Finds duplicate items in lists of the types `set` and `map`.

use std::collections::HashMap;

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

use super::field_path::FieldPath;
use super::structural::Structural;

/// Returns an error for each duplicate item in a list of type `set` or `map`. Each error has the path of the item's
/// second occurrence.
pub(crate) fn errors(schema: &Structural, value: &Json, old: Option<&Json>, path: &str) -> FieldErrors {
    let duplicate_errors = |value: &Json| {
        let mut errors = FieldErrors::default();
        collect_duplicates(schema, value, FieldPath::Start(path), &mut errors);
        errors
    };
    // Ignore duplicates in the new list if the old list already has duplicates.
    if old.is_some_and(|old| !duplicate_errors(old).is_empty()) {
        FieldErrors::default()
    } else {
        duplicate_errors(value)
    }
}

fn collect_duplicates(schema: &Structural, value: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    match value {
        Json::Array(items) => {
            match schema.list_type.as_str() {
                "map" => duplicate_keys(schema, items, path, errors),
                "set" => {
                    for at in second_occurrences(items.iter()) {
                        errors.add(|| FieldError::duplicate(path.item(at), &items[at]));
                    }
                }
                _ => {}
            }
            if let Some(schema) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    collect_duplicates(schema, item, path.item(at), errors);
                }
            }
        }
        Json::Object(members) => {
            for (name, member) in members {
                if let Some(of_member) = schema.member(name) {
                    collect_duplicates(of_member, member, schema.path_of(name, &path), errors);
                }
            }
        }
        _ => {}
    }
}

/// Reports list map items with equal keys. A null item counts as an item without keys.
fn duplicate_keys(schema: &Structural, items: &[Json], path: FieldPath<'_>, errors: &mut FieldErrors) {
    if let Some(at) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let why = "must be an object for an array of list-type map";
        return errors.add(|| FieldError::invalid(path.item(at), &items[at], why));
    }
    let key = |item: &Json| {
        let keys = schema.list_map_keys.iter();
        let present = keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Json::Object(present.collect())
    };
    let keys: Vec<_> = items.iter().map(key).collect();
    // With a single list map key, compare only its values.
    let duplicates = match &schema.list_map_keys[..] {
        [key] => second_occurrences(keys.iter().map(|present| present.get(key).unwrap_or(present))),
        _ => second_occurrences(keys.iter()),
    };
    for at in duplicates {
        errors.add(|| FieldError::duplicate(path.item(at), &keys[at]));
    }
}

fn second_occurrences<'a>(items: impl Iterator<Item = &'a Json>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }
    found
}
