//! Converts the managed fields of definitions that this program has created.
//!
//! A definition is first installed with a create request, which fails if another build has already created the
//! definition. If a field manager first creates and then applies an object, it owns each field twice: with the
//! operation `Update` and with the operation `Apply`. An apply could then never remove a field. This module therefore
//! changes the operation of the create request to `Apply`, like client-go's `csaupgrade`. The create request also makes
//! the field manager the owner of the server's default values. The next apply gives up these fields.

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, Patch, Resource, WriteOptions};
use serde_json::{Value, json};

pub(super) async fn read(cluster: &Cluster, name: &str) -> Result<Value, ApiError> {
    let path = format!("{}/{name}", CustomResourceDefinition::api_resource().path(None));
    let request = cluster.client().get().abs_path(path.split('/').filter(|part| !part.is_empty()));
    Ok(request.object().await?)
}

/// Changes the operation of the created fields to `Apply`. Returns `true` if the definition was changed. The error is
/// `Invalid` if the server has moved the managed fields since the read.
pub(super) async fn adopt(
    cluster: &Cluster,
    name: &str,
    stored: &Value,
    options: &WriteOptions,
) -> Result<bool, ApiError> {
    let Some(patch) = adoption(stored, &options.field_manager) else { return Ok(false) };
    cluster.api::<CustomResourceDefinition>().patch(name, &Patch::Json(patch), options).await?;
    Ok(true)
}

/// Returns the JSON patch for the managed fields of a definition. The patch does not check the resourceVersion, because
/// the server writes the status of a new definition at the same time.
fn adoption(stored: &Value, manager: &str) -> Option<Value> {
    let entries = stored["metadata"]["managedFields"].as_array()?;
    let is_own = |entry: &Value| entry["manager"] == manager && entry.get("subresource").is_none();
    // There must not be two entries with the operation `Apply`, because one would replace the other.
    if entries.iter().any(|entry| is_own(entry) && entry["operation"] == "Apply") {
        return None;
    }
    let index = entries.iter().position(|entry| is_own(entry) && entry["operation"] == "Update")?;
    let path = |field: &str| format!("/metadata/managedFields/{index}/{field}");
    Some(json!([
        {"op": "test", "path": path("manager"), "value": manager},
        {"op": "test", "path": path("operation"), "value": "Update"},
        {"op": "replace", "path": path("operation"), "value": "Apply"},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_create_requests_are_adopted() {
        let stored = |entries: Value| json!({"metadata": {"managedFields": entries}});
        let status = json!({"manager": "own", "operation": "Update", "subresource": "status"});
        let (applied, other) =
            (json!({"manager": "own", "operation": "Apply"}), json!({"manager": "x", "operation": "Update"}));
        assert_eq!(adoption(&json!({}), "own"), None);
        assert_eq!(adoption(&stored(json!([status, applied, other])), "own"), None);
        let created = json!({"manager": "own", "operation": "Update"});
        let patch = adoption(&stored(json!([status, created])), "own").unwrap();
        assert_eq!(patch[2], json!({"op": "replace", "path": "/metadata/managedFields/1/operation", "value": "Apply"}));
        let applied = json!({"manager": "own", "operation": "Apply"});
        assert_eq!(adoption(&stored(json!([created, applied])), "own"), None, "only one entry may be an apply");
    }
}
