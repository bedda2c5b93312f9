//! Compares two objects field by field.

use std::collections::HashMap;
use std::fmt;

use pintle_json::{Json, Map, Text};

/// The fields that are never part of a change, because servers set them or every write changes them.
const IGNORED: [&str; 6] = [
    "metadata.creationTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "metadata.uid",
];
/// The fields that servers set only while an object is being deleted.
const DELETION_MARKS: [&str; 2] = ["metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp"];
/// The members that can identify list items, from most to least preferred. A member identifies the items of a list if
/// all items have this member and its values are unique.
const ITEM_KEYS: [&str; 4] = ["name", "type", "uid", "key"];

/// A field that would change if the old object were replaced by the new object. The data values of Secrets are hidden.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedField {
    /// The path of the field, such as `spec.template.spec.containers[web].image`. The path identifies a list item by
    /// its name, type, uid or key, whichever is the first that has a unique value in each item, or by its index.
    pub path: String,
    /// The current value, or `None` if the field is absent.
    pub old: Option<Json>,
    /// The planned value, or `None` if the field would be removed.
    pub new: Option<Json>,
}

impl fmt::Display for PlannedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "~ {path}: {old} -> {new}"),
            (None, Some(new)) => write!(f, "+ {path}: {new}"),
            (Some(old), None) => write!(f, "- {path}: {old}"),
            (None, None) => write!(f, "  {path}"),
        }
    }
}

impl PlannedField {
    pub fn hide(&mut self) {
        let hidden = |value: &mut Json| *value = "(hidden)".into();
        self.old.iter_mut().chain(&mut self.new).for_each(hidden);
    }
}

/// Returns the differing fields of two objects, sorted by path segments. Pass `Null` for an object that does not exist.
pub fn fields(old: &Json, new: &Json) -> Vec<PlannedField> {
    let mut fields = Vec::new();
    differ(
        &mut String::new(),
        Some(old).filter(|old| !old.is_null()),
        Some(new).filter(|new| !new.is_null()),
        &mut fields,
    );
    let is_shown = |path: &str| {
        let is_name = old.is_null() && matches!(path, "metadata.name" | "metadata.namespace" | "apiVersion" | "kind");
        let is_ignored = IGNORED.contains(&path) || path.starts_with("metadata.managedFields[");
        !is_ignored && !DELETION_MARKS.contains(&path) && !is_name
    };
    fields.retain(|field| is_shown(&field.path));
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
            // Compare list items by index, unless the items of both lists are identified by keys.
            let (old, new) = match (old, new) {
                (Ok(old), Ok(new)) => (old, new),
                (old, new) => (indexed(old), indexed(new)),
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

/// Returns `true` if the value is absent, an empty list or an empty object. Two empty values are compared as a whole,
/// not member by member.
fn is_empty(value: Option<&Json>) -> bool {
    match value {
        None => true,
        Some(Json::Object(members)) => members.is_empty(),
        Some(Json::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Returns a list's items with their keys, sorted by key. If no member of [`ITEM_KEYS`] identifies the items, returns
/// them unchanged as `Err`.
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

fn indexed(list: Result<Vec<(String, Json)>, Vec<Json>>) -> Vec<(String, Json)> {
    let items = list.unwrap_or_else(|items| items.into_iter().map(|item| (String::new(), item)).collect());
    items.into_iter().enumerate().map(|(index, (_, item))| (index.to_string(), item)).collect()
}

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
    use pintle_effort::is_linear;
    use pintle_json::json;

    use super::*;

    #[track_caller]
    fn check(old: Json, new: Json, expected: &[&str]) {
        let lines: Vec<_> = fields(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn changed_members_are_listed_by_path() {
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
    fn list_comparison_takes_linear_time() {
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
    fn list_items_match_by_name_or_else_by_index() {
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
    fn server_filled_fields_are_ignored() {
        let object = |version: &str| json!({"metadata": {"name": "a", "uid": version, "resourceVersion": version, "managedFields": [{"manager": version}]}});
        check(object("1"), object("2"), &[]);
        check(
            Json::Null,
            json!({"kind": "A", "metadata": {"name": "a", "labels": {"x": "y"}}}),
            &["+ metadata.labels.x: \"y\""],
        );
    }
}
