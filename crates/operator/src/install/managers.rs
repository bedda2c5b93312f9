//! Converts the managed fields of objects that this program has created or patched.
//!
//! An object is first installed with a create request, which fails if another build has already created the object. If a
//! field manager first creates and then applies an object, it owns each field twice: with the operation `Update` and
//! with the operation `Apply`. The same happens if an older build patches the certificates of a newer build's object. An
//! apply could never remove a field that is owned twice. This module therefore merges all entries of the field manager
//! into one entry with the operation `Apply`, like client-go's `csaupgrade`. The create request also makes the field
//! manager the owner of the server's default values. The next apply gives up this ownership.

use pintle_cluster::Cluster;
use pintle_meta::{ApiError, ObjectKey, Patch, Resource, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::shared::read_raw;

/// Returns the stored object, including its managed fields. Creates the object if it does not exist.
pub(super) async fn read_or_create<T>(cluster: &Cluster, object: &T, options: &WriteOptions) -> Result<Value, ApiError>
where
    T: Resource + Serialize + DeserializeOwned,
{
    let (resource, key) = (T::api_resource(), ObjectKey::cluster(object.name()));
    match read_raw(cluster, &resource, &key).await {
        Err(error) if error.is_object_not_found() => {
            // Use a create request, because an apply would overwrite an object that another build creates at the same
            // time.
            match cluster.api().create(object, options).await {
                Err(error) if !error.is_already_exists() => Err(error),
                // If another replica has created the object since the read, use its object.
                _ => read_raw(cluster, &resource, &key).await,
            }
        }
        stored => stored,
    }
}

/// Merges the entries of the field manager in the managed fields of an object. Returns `true` if this changed the
/// object. The error is `Invalid` if the server has moved the entries since the object was read.
pub(super) async fn adopt<T: Resource + DeserializeOwned>(
    cluster: &Cluster,
    name: &str,
    stored: &Value,
    options: &WriteOptions,
) -> Result<bool, ApiError> {
    let Some(patch) = adoption(stored, &options.field_manager) else { return Ok(false) };
    cluster.api::<T>().patch(name, &Patch::Json(patch), options).await?;
    Ok(true)
}

/// Returns the JSON patch that merges the entries in an object's managed fields. The patch does not check the
/// resourceVersion, because the server writes the status of a new definition at the same time.
fn adoption(stored: &Value, manager: &str) -> Option<Value> {
    let entries = stored["metadata"]["managedFields"].as_array()?.iter().enumerate();
    let is_own = |entry: &Value| entry["manager"] == manager && entry.get("subresource").is_none();
    let own: Vec<_> = entries.filter(|(_, entry)| is_own(entry)).collect();
    let [(first, entry), rest @ ..] = &own[..] else { return None };
    if rest.is_empty() && entry["operation"] == "Apply" {
        return None;
    }
    let path = |index: &usize, field: &str| format!("/metadata/managedFields/{index}{field}");
    let (mut patch, mut all) = (Vec::new(), json!({}));
    for (index, entry) in &own {
        add_fields(&mut all, &entry["fieldsV1"]);
        for field in ["manager", "operation", "fieldsV1"] {
            patch.push(json!({"op": "test", "path": path(index, &format!("/{field}")), "value": entry[field]}));
        }
    }
    patch.push(json!({"op": "replace", "path": path(first, "/operation"), "value": "Apply"}));
    patch.push(json!({"op": "replace", "path": path(first, "/fieldsV1"), "value": all}));
    patch.extend(rest.iter().rev().map(|(index, _)| json!({"op": "remove", "path": path(index, "")})));
    Some(patch.into())
}

/// Adds the field set `more` to the field set `all`. A field set is a map in which each value is the field set of the
/// members of a field.
fn add_fields(all: &mut Value, more: &Value) {
    for (name, fields) in more.as_object().into_iter().flatten() {
        add_fields(&mut all[name], fields);
        if all[name].is_null() {
            all[name] = json!({});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_entries_are_merged() {
        let stored = |entries: Value| json!({"metadata": {"managedFields": entries}});
        let status = json!({"manager": "own", "operation": "Update", "subresource": "status"});
        let (applied, other) =
            (json!({"manager": "own", "operation": "Apply"}), json!({"manager": "x", "operation": "Update"}));
        assert_eq!(adoption(&json!({}), "own"), None);
        assert_eq!(adoption(&stored(json!([status, applied, other])), "own"), None);
        let changes = |entries: Value| {
            let patch = adoption(&stored(entries), "own").unwrap();
            let (tests, changes): (Vec<_>, Vec<_>) =
                patch.as_array().unwrap().iter().cloned().partition(|operation| operation["op"] == "test");
            (tests.len(), Value::from(changes))
        };
        let entry =
            |operation: &str, fields: Value| json!({"manager": "own", "operation": operation, "fieldsV1": fields});
        let set = |field: &str, value: Value| json!({"op": "replace", "path": format!("/metadata/managedFields/{field}"), "value": value});
        let created = entry("Update", json!({"f:a": {}}));
        let expected = json!([set("1/operation", json!("Apply")), set("1/fieldsV1", json!({"f:a": {}}))]);
        assert_eq!(changes(json!([status, created])), (3, expected));

        let applied = entry("Apply", json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}));
        let written = entry("Update", json!({"f:a": {"f:c": {}, "f:e": {}}, "f:d": {"f:f": {}}}));
        let merged = json!({"f:a": {"f:b": {}, "f:c": {}, "f:e": {}}, "f:d": {"f:f": {}}});
        let removed = json!({"op": "remove", "path": "/metadata/managedFields/2"});
        let expected = json!([set("0/operation", json!("Apply")), set("0/fieldsV1", merged), removed]);
        for entries in [json!([applied, status, written]), json!([written, other, applied])] {
            assert_eq!(changes(entries), (6, expected.clone()));
        }
    }
}
