//! Installs webhook configurations. Like definitions, configurations of a newer build are kept.

use std::cmp::Ordering;

use pintle_cluster::Cluster;
use pintle_crd::PACKAGE_VERSION;
use pintle_meta::{ApiError, Patch, Resource, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::precedence::order_of;
use super::{Installer, Retries};
use crate::error::OperatorError;

impl Installer {
    /// Applies a webhook configuration, unless a newer build has installed its configuration. Failed requests are
    /// retried indefinitely, unless the server rejects the request. Passes each failure to `report`.
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
        let (api, name) = (cluster.api::<T>(), configuration.name());
        let encode = |object: &T| serde_json::to_value(object).map_err(ApiError::invalid_request);
        let mut own = encode(configuration)?;
        let installed = match api.get(name).await {
            Ok(installed) => Some(encode(&installed)?),
            Err(error) if error.is_object_not_found() => None,
            Err(error) => return Err(error),
        };
        if let Some(installed) = installed {
            if order_of(version(&own), version(&installed)) == Some(Ordering::Less) && !self.replaces_newer {
                let (kind, version) = (T::KIND, version(&installed));
                tracing::warn!(kind, name, version, "keeping the webhook configuration of a newer build");
                if let Some(patch) = certificates(&own, &installed) {
                    api.patch(name, &Patch::Json(patch), &self.write_options()).await?;
                }
                return Ok(());
            }
            // Because of the resourceVersion, the server returns a conflict if another build has written the
            // configuration since it was read.
            own["metadata"]["resourceVersion"] = installed["metadata"]["resourceVersion"].clone();
        }
        api.patch(name, &Patch::Apply(own), &WriteOptions::apply(&self.field_manager)).await.map(drop)
    }
}

fn version(configuration: &Value) -> Option<&str> {
    configuration["metadata"]["annotations"][PACKAGE_VERSION].as_str()
}

/// Returns a JSON patch that copies the certificates from `own` to `installed`. Returns `None` if they are equal. The
/// certificates of a newer build's configuration are also replaced, because they belong to the cluster and not to a
/// particular build.
fn certificates(own: &Value, installed: &Value) -> Option<Value> {
    let bundle = |webhook: &Value| webhook["clientConfig"]["caBundle"].as_str().map(str::to_owned);
    let own = own["webhooks"].as_array()?.iter().find_map(bundle)?;
    let webhooks = installed["webhooks"].as_array()?.iter().enumerate();
    let changes = webhooks.filter(|(_, webhook)| bundle(webhook).as_ref() != Some(&own)).map(
        |(index, _)| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": own}),
    );
    let mut patch: Vec<_> = changes.collect();
    if patch.is_empty() {
        return None;
    }
    let version = &installed["metadata"]["resourceVersion"];
    patch.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
    Some(patch.into())
}
