//! Installs webhook configurations. As with CustomResourceDefinitions, this build keeps the configurations of a newer
//! build.

use std::cmp::Ordering;

use pintle_cluster::Cluster;
use pintle_crd::PACKAGE_VERSION;
use pintle_meta::{ApiError, Patch, Resource, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::certificates::replacement;
use super::precedence::order_of;
use super::{Installer, REPEATS, Retries, managers};
use crate::error::OperatorError;

impl Installer {
    /// Applies a webhook configuration, unless a newer build has installed it. Retries failed requests indefinitely,
    /// unless the server rejects the request. Passes each failure to `report`.
    pub(crate) async fn configure<T>(
        &self,
        cluster: &Cluster,
        configuration: &T,
        report: &(impl Fn(&ApiError) + Sync),
    ) -> Result<(), OperatorError>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let mut retries = Retries::new::<T>(configuration.name(), report);
        loop {
            match self.configure_once(cluster, configuration).await {
                Ok(()) => return Ok(()),
                Err(error) => retries.wait(error).await?,
            }
        }
    }

    async fn configure_once<T>(&self, cluster: &Cluster, configuration: &T) -> Result<(), ApiError>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let (api, name, options) = (cluster.api::<T>(), configuration.name(), self.write_options());
        let mut own = serde_json::to_value(configuration).map_err(ApiError::invalid_request)?;
        let mut attempts = 0;
        loop {
            let installed = managers::read_or_create(cluster, configuration, &options).await?;
            if order_of(version(&own), version(&installed)) == Some(Ordering::Less) && !self.replaces_newer {
                let (kind, version) = (T::KIND, version(&installed));
                tracing::warn!(kind, name, version, "keeping the webhook configuration of a newer build");
                if let Some(patch) = certificates(&own, &installed) {
                    api.patch(name, &Patch::Json(patch), &options).await?;
                }
                return Ok(());
            }
            match managers::adopt::<T>(cluster, name, &installed, &options).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) if error.is_invalid() && attempts < REPEATS => {
                    attempts += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            // With this resourceVersion, the server returns a conflict if another build has written the configuration
            // since the read.
            own["metadata"]["resourceVersion"] = installed["metadata"]["resourceVersion"].clone();
            let patch = Patch::Apply(own.clone());
            match api.patch(name, &patch, &WriteOptions::apply(&self.field_manager)).await {
                Err(error) if error.is_conflict() && attempts < REPEATS => attempts += 1,
                applied => return applied.map(drop),
            }
        }
    }
}

fn version(configuration: &Value) -> Option<&str> {
    configuration["metadata"]["annotations"][PACKAGE_VERSION].as_str()
}

/// Returns a JSON patch that copies the certificates from `own` to the webhooks of `installed` that have the same server.
/// Returns `None` if the patch would change nothing.
fn certificates(own: &Value, installed: &Value) -> Option<Value> {
    let own = own["webhooks"].as_array()?;
    let webhooks = installed["webhooks"].as_array()?.iter().map(|webhook| &webhook["clientConfig"]);
    let changes = webhooks.enumerate().filter_map(|(index, config)| {
        let bundle = own.iter().find_map(|own| replacement(&own["clientConfig"], config))?;
        Some(json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}))
    });
    let mut patch: Vec<_> = changes.collect();
    if patch.is_empty() {
        return None;
    }
    let version = &installed["metadata"]["resourceVersion"];
    patch.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
    Some(patch.into())
}
