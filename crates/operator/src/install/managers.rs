//! Changes the managed fields of definitions that this program has created.
//!
//! The first installation uses a create request, which fails if another build has already created the definition. A
//! field manager that creates an object and then applies it owns each field twice, with the operations `Update` and
//! `Apply`. An apply could then never remove a field. This module therefore changes the create request's operation to
//! `Apply`, as client-go's `csaupgrade` does. The next apply gives up the server's default values, which the field
//! manager also owns after the create request.

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

/// Returns the JSON patch for a definition's managed fields. The patch does not test the resourceVersion, because the
/// server writes a new definition's status at the same time.
fn adoption(stored: &Value, manager: &str) -> Option<Value> {
    let entries = stored["metadata"]["managedFields"].as_array()?;
    let is_own = |entry: &Value| entry["manager"] == manager && entry.get("subresource").is_none();
    // Two entries with the operation `Apply` would replace each other.
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
