//! How two objects differ, field by field.

use std::collections::HashMap;

use pintle_json::{Json, Map, Text};

/// What servers fill in, or what follows from the change itself.
const NOT_TOLD: [&str; 6] = [
    "metadata.creationTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "metadata.uid",
];
/// Of a deletion, that it is under way.
const GOING: [&str; 2] = ["metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp"];
/// By which of their members the objects of a list are told apart, where each has one of its own.
const ITEM_KEYS: [&str; 4] = ["name", "type", "uid", "key"];

/// A field that would differ. Of a Secret's contents, neither value is told.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedField {
    /// Where it is: `spec.template.spec.containers[web].image`. An item of a list goes by its name, type, uid or key, if all have one, or
    /// else by its place.
    pub path: String,
    /// What it is; none if it is absent.
    pub old: Option<Json>,
    /// What it would be; none if it would be absent.
    pub new: Option<Json>,
}

/// The fields in which an object differs from another, in the order of their paths' parts; `Null` stands for no object.
pub(super) fn fields(old: &Json, new: &Json) -> Vec<PlannedField> {
    let mut fields = Vec::new();
    differ(
        &mut String::new(),
        Some(old).filter(|old| !old.is_null()),
        Some(new).filter(|new| !new.is_null()),
        &mut fields,
    );
    let is_told = |path: &str| {
        let is_name = old.is_null() && matches!(path, "metadata.name" | "metadata.namespace" | "apiVersion" | "kind");
        !NOT_TOLD.contains(&path) && !path.starts_with("metadata.managedFields[") && !GOING.contains(&path) && !is_name
    };
    fields.retain(|field| is_told(&field.path));
    fields
}

fn differ(path: &mut String, old: Option<&Json>, new: Option<&Json>, to: &mut Vec<PlannedField>) {
    match (old, new) {
        (old, new) if old == new => (),
        (None | Some(Json::Object(_)), None | Some(Json::Object(_))) if !is_empty(old) || !is_empty(new) => {
            let (none, members) = (Map::new(), |value: Option<&'_ Json>| value.and_then(Json::as_object).cloned());
            let (old, new) = (members(old).unwrap_or(none.clone()), members(new).unwrap_or(none));
            let added = new.keys().filter(|name| !old.contains_key(name));
            let mut names: Vec<&Text> = old.keys().chain(added).collect();
            names.sort();
            for name in names {
                below(path, &member(path, name), |path| differ(path, old.get(name), new.get(name), to));
            }
        }
        (None | Some(Json::Array(_)), None | Some(Json::Array(_))) if !is_empty(old) || !is_empty(new) => {
            let items = |value: Option<&'_ Json>| value.and_then(Json::as_array).cloned().unwrap_or_default();
            let (old, new) = (keyed(&items(old)), keyed(&items(new)));
            // Told apart by their places, unless both are by their keys.
            let (old, new) = match (old, new) {
                (Ok(old), Ok(new)) => (old, new),
                (old, new) => (placed(old), placed(new)),
            };
            let by_key = |list: &'_ [(String, Json)]| -> HashMap<String, Json> { list.iter().cloned().collect() };
            let (olds, news) = (by_key(&old), by_key(&new));
            let added = new.iter().filter(|(key, _)| !olds.contains_key(key));
            for (key, _) in old.iter().chain(added) {
                below(path, &format!("[{key}]"), |path| differ(path, olds.get(key), news.get(key), to));
            }
        }
        (old, new) => to.push(PlannedField { path: path.clone(), old: old.cloned(), new: new.cloned() }),
    }
}

/// Whether there is nothing in it to be told one by one.
fn is_empty(value: Option<&Json>) -> bool {
    match value {
        None => true,
        Some(Json::Object(members)) => members.is_empty(),
        Some(Json::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// A list with a key each, or the list itself where its items have none of their own.
fn keyed(items: &[Json]) -> Result<Vec<(String, Json)>, Vec<Json>> {
    let keys_by = |member: &str| -> Option<Vec<(String, Json)>> {
        let key = |item: &Json| Some((item.get(member)?.as_str()?.to_owned(), item.clone()));
        let mut keyed: Vec<_> = items.iter().map(key).collect::<Option<_>>()?;
        let count = keyed.len();
        keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
        keyed.dedup_by(|(a, _), (b, _)| a == b);
        (keyed.len() == count).then_some(keyed)
    };
    ITEM_KEYS.into_iter().find_map(keys_by).ok_or_else(|| items.to_vec())
}

fn placed(list: Result<Vec<(String, Json)>, Vec<Json>>) -> Vec<(String, Json)> {
    let items = list.unwrap_or_else(|items| items.into_iter().map(|item| (String::new(), item)).collect());
    items.into_iter().enumerate().map(|(at, (_, item))| (at.to_string(), item)).collect()
}

/// How a member continues a path.
fn member(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match is_plain {
        true if path.is_empty() => name.to_owned(),
        true => format!(".{name}"),
        false => format!("[{name:?}]"),
    }
}

fn below(path: &mut String, part: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(part);
    then(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::clock::effort::is_linear;

    #[track_caller]
    fn check(old: Json, new: Json, expected: &[&str]) {
        let told: Vec<_> = fields(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn members_are_told_by_their_paths() {
        check(
            json!({"data": {"a": "1", "b": {"c": 2}, "same": 1}}),
            json!({"data": {"a": "2", "b": null, "same": 1, "x.y/z": "3"}}),
            &["~ data.a: \"1\" -> \"2\"", "~ data.b: {\"c\":2} -> null", "+ data[\"x.y/z\"]: \"3\""],
        );
        check(json!({"a": {"b": 1}}), json!({}), &["- a.b: 1"]);
        check(json!({"a": {}}), json!({}), &["- a: {}"]);
        check(json!({"a": {"b": 1}}), json!({"a": {}}), &["- a.b: 1"]);
    }

    #[test]
    fn a_list_is_compared_in_proportion_to_its_items() {
        let differ = |items: usize| {
            let list = |first: &str| {
                let rest = (1..items).map(|item| Json::from(item.to_string()));
                json!({"l": std::iter::once(Json::from(first)).chain(rest).collect::<Vec<_>>()})
            };
            assert_eq!(fields(&list("a"), &list("b")).len(), 1);
        };
        assert!(is_linear(2_000, differ));
    }

    #[test]
    fn items_are_told_apart_by_their_names_or_else_by_their_places() {
        let pod = |containers: Json| json!({"spec": {"containers": containers}});
        check(
            pod(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
            pod(json!([{"name": "b", "image": "2"}, {"name": "a", "image": "1"}])),
            &["~ spec.containers[b].image: \"1\" -> \"2\""],
        );
        check(json!({"a": ["x", "y"]}), json!({"a": ["x", "z", "y"]}), &["~ a[1]: \"y\" -> \"z\"", "+ a[2]: \"y\""]);
        check(
            json!({"a": [{"name": "x"}, {"name": "x"}]}),
            json!({"a": [{"name": "y"}]}),
            &["~ a[0].name: \"x\" -> \"y\"", "- a[1].name: \"x\""],
        );
    }

    #[test]
    fn what_servers_fill_in_is_not_told() {
        let object = |version: &str| json!({"metadata": {"name": "a", "uid": version, "resourceVersion": version, "managedFields": [{"manager": version}]}});
        check(object("1"), object("2"), &[]);
        check(
            Json::Null,
            json!({"kind": "A", "metadata": {"name": "a", "labels": {"x": "y"}}}),
            &["+ metadata.labels.x: \"y\""],
        );
    }
}
