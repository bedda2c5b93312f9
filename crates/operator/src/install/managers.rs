//! The managed fields of a definition that this program has created.
//!
//! Only a create request fails if the definition exists. But a field manager that creates an object and then applies it
//! owns its fields twice, with the operations `Update` and `Apply`. An apply could then never remove a field. So this
//! module changes the operation of the create request to `Apply`, as client-go's `csaupgrade` does. The apply that follows
//! gives up the default values of the server, which a create request also owns.

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, Patch, Resource, WriteOptions};
use serde_json::{Value, json};

/// Reads a definition with its `managedFields`.
pub(super) async fn read(cluster: &Cluster, name: &str) -> Result<Value, ApiError> {
    let path = format!("{}/{name}", CustomResourceDefinition::api_resource().path(None));
    let request = cluster.client().get().abs_path(path.split('/').filter(|part| !part.is_empty()));
    Ok(request.object().await?)
}

/// Makes the fields of a create request count as applied. Returns the changed definition, or `None` if the definition
/// was not changed. If the request fails, the next start of the program tries it again.
pub(super) async fn adopt(
    cluster: &Cluster,
    name: &str,
    stored: &Value,
    options: &WriteOptions,
) -> Option<CustomResourceDefinition> {
    let patch = adoption(stored, &options.field_manager)?;
    match cluster.api::<CustomResourceDefinition>().patch(name, &Patch::Json(patch), options).await {
        Ok(adopted) => Some(adopted),
        Err(error) => {
            tracing::warn!(name, %error, "cannot change the managed fields of the CustomResourceDefinition");
            None
        }
    }
}

/// Returns the patch for the managed fields of a definition. The patch has no resourceVersion, because the server writes
/// the status of a new definition at the same time.
fn adoption(stored: &Value, manager: &str) -> Option<Value> {
    let entries = stored["metadata"]["managedFields"].as_array()?;
    let index = entries.iter().position(|entry| {
        entry["manager"] == manager && entry["operation"] == "Update" && entry.get("subresource").is_none()
    })?;
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
    }
}
