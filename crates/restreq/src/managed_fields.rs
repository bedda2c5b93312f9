//! Extracts the fields that a field manager owns.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use thiserror::Error;

/// Returns the fields that a manager applied and still owns, like client-go's `ExtractInto`. Returns `None` if the
/// manager has not applied fields to `subresource`. An empty `subresource` refers to the main resource. The result
/// includes `apiVersion`, `kind`, `name` and `namespace`, so that the manager can modify the result and apply it.
///
/// `object` must be the complete JSON that the server returned. `object` must not be a type with
/// [`ObjectMeta`](pintle_meta::ObjectMeta), because `ObjectMeta` does not contain `managedFields`.
/// [`Api::applied`](crate::Api::applied) reads the object and calls this function.
///
/// # Errors
///
/// Returns an error if the managed fields have an unknown format.
///
/// # Examples
///
/// ```
/// use pintle_restreq::extract_managed_fields;
/// use serde_json::json;
///
/// let object = json!({
///     "apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "1", "other": "2"},
///     "metadata": {"name": "a", "namespace": "b", "uid": "4f9a", "managedFields": [
///         {"manager": "me", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:mine": {}}}},
///     ]},
/// });
/// let mine = json!({
///     "apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "1"}, "metadata": {"name": "a", "namespace": "b"},
/// });
/// assert_eq!(extract_managed_fields(&object, "me", "")?, Some(mine));
/// assert_eq!(extract_managed_fields(&object, "you", "")?, None);
/// # Ok::<(), pintle_restreq::InvalidManagedFields>(())
/// ```
pub fn extract_managed_fields(
    object: &Value,
    manager: &str,
    subresource: &str,
) -> Result<Option<Value>, InvalidManagedFields> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let is_own = |entry: &&Value| {
        text(entry, "manager") == manager
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource") == subresource
    };
    let Some(entry) = entries.into_iter().flatten().find(is_own) else { return Ok(None) };
    let fields = entry["fieldsV1"].as_object().ok_or_else(|| InvalidManagedFields::new("fieldsV1"))?;
    // At the root of the managed fields, an empty set means "no fields". Below the root, an empty set means "the whole
    // value".
    let owned = if fields.is_empty() { None } else { part(object, fields)? };
    let mut extracted = owned.unwrap_or_else(|| Value::Object(Map::new()));
    for member in ["apiVersion", "kind"] {
        if let Some(value) = object.get(member) {
            extracted[member] = value.clone();
        }
    }
    for member in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(member) {
            extracted["metadata"][member] = value.clone();
        }
    }
    Ok(Some(extracted))
}

/// Returns the fields of `value` that the set `fields` contains, or `None` if `value` no longer contains any of them.
fn part(value: &Value, fields: &Map<String, Value>) -> Result<Option<Value>, InvalidManagedFields> {
    // If a path has no subfields, the field manager owns the whole value.
    if fields.is_empty() {
        return Ok(Some(value.clone()));
    }
    match value {
        Value::Object(members) => {
            let mut owned = Map::new();
            for (path, inner) in fields.iter().filter(|(path, _)| *path != ".") {
                let name = path.strip_prefix("f:").ok_or_else(|| InvalidManagedFields::new(path))?;
                let inner = inner.as_object().ok_or_else(|| InvalidManagedFields::new(path))?;
                if let Some(member) = members.get(name)
                    && let Some(part) = part(member, inner)?
                {
                    owned.insert(name.to_owned(), part);
                }
            }
            let is_there = !owned.is_empty() || fields.contains_key(".");
            Ok(is_there.then_some(Value::Object(owned)))
        }
        Value::Array(items) => {
            let mut owned = Vec::new();
            let paths = if items.is_empty() { ItemPaths::default() } else { ItemPaths::parse(fields)? };
            for (at, item) in items.iter().enumerate() {
                for path in paths.of(at, item) {
                    owned.extend(path.part(item)?);
                }
            }
            let is_there = !owned.is_empty() || fields.contains_key(".");
            Ok(is_there.then_some(Value::Array(owned)))
        }
        // The type of the value has changed since the manager applied it, so the owned fields no longer exist.
        _ => Ok(None),
    }
}

/// The parsed paths of managed fields that refer to items of a list. A path identifies an item by its index, its value
/// or its keys. These maps avoid a comparison of each list item with every path.
#[derive(Default)]
struct ItemPaths<'a> {
    paths: Vec<ItemPath<'a>>,
    by_index: HashMap<usize, Vec<usize>>,
    /// The positions in `paths` of the paths with a value, by the JSON of this value.
    by_value: HashMap<String, Vec<usize>>,
    /// The positions in `paths` of the paths with keys, first by key names, and then by the JSON of the key values.
    by_keys: HashMap<Vec<String>, HashMap<Vec<String>, Vec<usize>>>,
}

struct ItemPath<'a> {
    fields: &'a Map<String, Value>,
    /// The key fields that identify the item, with their values. The map is empty if the path identifies the item by an
    /// index or a value.
    keys: BTreeMap<String, Value>,
}

impl<'a> ItemPaths<'a> {
    fn parse(fields: &'a Map<String, Value>) -> Result<Self, InvalidManagedFields> {
        let mut parsed = Self::default();
        for (path, inner) in fields.iter().filter(|(path, _)| *path != ".") {
            let invalid = || InvalidManagedFields::new(path);
            let (position, mut keys) = (parsed.paths.len(), BTreeMap::new());
            let positions = match path.split_once(':').ok_or_else(invalid)? {
                ("i", index) => parsed.by_index.entry(index.parse().map_err(|_| invalid())?).or_default(),
                ("v", value) => {
                    let value: Value = serde_json::from_str(value).map_err(|_| invalid())?;
                    parsed.by_value.entry(value.to_string()).or_default()
                }
                ("k", text) => {
                    keys = serde_json::from_str::<BTreeMap<String, Value>>(text).map_err(|_| invalid())?;
                    let values = keys.values().map(Value::to_string).collect();
                    parsed.by_keys.entry(keys.keys().cloned().collect()).or_default().entry(values).or_default()
                }
                _ => return Err(invalid()),
            };
            positions.push(position);
            parsed.paths.push(ItemPath { fields: inner.as_object().ok_or_else(invalid)?, keys });
        }
        Ok(parsed)
    }

    /// Returns the paths that identify this item, in the order of the managed fields.
    fn of(&self, index: usize, item: &Value) -> impl Iterator<Item = &ItemPath<'a>> {
        let by_value = if self.by_value.is_empty() { None } else { self.by_value.get(&item.to_string()) };
        let by_keys = self.by_keys.iter().filter_map(|(names, paths)| {
            let values = names.iter().map(|name| item.get(name).map(Value::to_string));
            paths.get(&values.collect::<Option<Vec<_>>>()?)
        });
        let mut positions: Vec<usize> =
            self.by_index.get(&index).into_iter().chain(by_value).chain(by_keys).flatten().copied().collect();
        positions.sort_unstable();
        positions.into_iter().map(|position| &self.paths[position])
    }
}

impl ItemPath<'_> {
    /// Returns the owned fields of a list item, including its keys.
    fn part(&self, item: &Value) -> Result<Option<Value>, InvalidManagedFields> {
        let mut owned = part(item, self.fields)?;
        if let Some(Value::Object(members)) = &mut owned {
            for (key, value) in &self.keys {
                members.entry(key.as_str()).or_insert_with(|| value.clone());
            }
        }
        Ok(owned)
    }
}

/// The error for managed fields in an unknown format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the managed fields of the object have an unknown format at {path:?}")]
pub struct InvalidManagedFields {
    path: Box<str>,
}

impl InvalidManagedFields {
    fn new(path: &str) -> Self {
        // Include only the prefix of the path element in the error message, because the suffix is a value of the
        // object.
        let shown = if path.starts_with("k:") || path.starts_with("v:") { &path[..2] } else { path };
        Self { path: shown.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: Value, fields: Value, expected: Option<Value>) {
        let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": fields}});
        let object = json!({"spec": spec, "metadata": {"name": "a", "managedFields": [entry]}});
        let extracted = extract_managed_fields(&object, "me", "").unwrap().unwrap();
        assert_eq!(extracted.get("spec"), expected.as_ref(), "{fields}");
        assert_eq!(extracted["metadata"], json!({"name": "a"}));
    }

    #[test]
    fn only_owned_fields_are_extracted() {
        check(json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"f:b": {"f:c": {}}}), Some(json!({"b": {"c": 2}})));
        check(json!({"a": {"x": 1}}), json!({"f:a": {}}), Some(json!({"a": {"x": 1}})));
        check(json!({"a": {"x": 1}}), json!({"f:a": {".": {}}}), Some(json!({"a": {}})));
        check(json!({"a": 1}), json!({"f:gone": {}}), None);
        check(json!({"a": 1}), json!({"f:a": {"f:was": {}}}), None);
        let ports = json!([{"port": 1, "protocol": "TCP", "name": "x"}, {"port": 1, "protocol": "UDP", "name": "y"}]);
        let by_key = json!({"f:p": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}});
        let expected = json!({"p": [{"port": 1, "protocol": "TCP", "name": "x"}]});
        check(json!({"p": ports}), by_key, Some(expected));
        check(json!({"s": ["a", "b"]}), json!({"f:s": {"v:\"b\"": {}}}), Some(json!({"s": ["b"]})));
        check(json!({"s": ["a", "b"]}), json!({"f:s": {"i:0": {}}}), Some(json!({"s": ["a"]})));
    }

    #[test]
    fn long_list_takes_linear_time() {
        const ITEMS: usize = 20_000;
        let items: Vec<_> = (0..ITEMS).map(|number| json!({"name": number, "value": "x", "other": "y"})).collect();
        let owned: Vec<_> = (0..ITEMS).map(|number| json!({"name": number, "value": "x"})).collect();
        let path = |number| (format!("k:{{\"name\":{number}}}"), json!({"f:value": {}}));
        let fields: Map<_, _> = (0..ITEMS).map(path).collect();
        // This test would take minutes if the running time were quadratic.
        check(json!({"list": items}), json!({"f:list": fields}), Some(json!({"list": owned})));
    }

    #[test]
    fn entry_matches_by_manager_operation_and_subresource() {
        let entry = |operation: &str, subresource: &str, field: &str| json!({"manager": "me", "operation": operation, "subresource": subresource, "fieldsV1": {field: {}}});
        let entries = json!([entry("Update", "", "f:a"), entry("Apply", "status", "f:b"), entry("Apply", "", "f:c")]);
        let object = json!({"a": 1, "b": 2, "c": 3, "metadata": {"managedFields": entries}});
        let extract = |subresource| extract_managed_fields(&object, "me", subresource).unwrap();
        assert_eq!(extract(""), Some(json!({"c": 3})));
        assert_eq!(extract("status"), Some(json!({"b": 2})));
        assert_eq!(extract("scale"), None);
        assert_eq!(extract_managed_fields(&object, "you", "").unwrap(), None);
        assert_eq!(extract_managed_fields(&json!({}), "me", "").unwrap(), None);
    }

    #[test]
    fn manager_without_fields_gets_only_identity() {
        let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": {}});
        let object = json!({"spec": 1, "metadata": {"name": "a", "uid": "u", "managedFields": [entry]}});
        assert_eq!(extract_managed_fields(&object, "me", ""), Ok(Some(json!({"metadata": {"name": "a"}}))));
    }

    #[test]
    fn unknown_managed_fields_format_is_rejected() {
        for fields in
            [json!([]), json!({"x:a": {}}), json!({"f:l": {"k:{": {}}}), json!({"f:l": {"i:x": {}}}), json!({"f:a": 1})]
        {
            let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": fields});
            let object = json!({"a": 1, "l": [1], "metadata": {"managedFields": [entry]}});
            assert!(extract_managed_fields(&object, "me", "").is_err(), "{fields}");
        }
    }
}
