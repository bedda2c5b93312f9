//! An operator that maintains a ConfigMap for each `Website` and writes the URL to the status.

mod role;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use role::{lease_role, role};

/// The name of the operator's Lease, field manager, user agent and Event source.
pub const NAME: &str = "website-operator";

/// The finalizer. The API server deletes a website only after `retire` has succeeded.
pub const FINALIZER: &str = "example.com/website-operator";

/// A website that the operator publishes.
#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
pub struct Website {
    pub metadata: ObjectMeta,
    pub spec: WebsiteSpec,
    pub status: Option<WebsiteStatus>,
}

/// The desired state, which users write.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WebsiteSpec {
    /// The domain name, such as `blog.example.com`.
    #[schemars(length(min = 1, max = 253))]
    pub domain: String,
}

/// The observed state, which only the operator writes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WebsiteStatus {
    /// The address of the published website.
    pub url: String,
    /// The conditions. `Ready` is true once the website is published.
    pub conditions: Conditions,
}

/// Adds the controllers of this operator to `manager`.
pub fn operator(manager: Manager) -> Manager {
    let controller = Controller::new()
        .owns::<ConfigMap>()
        .cleanup(FINALIZER, retire)
        .reconcile(publish);
    manager
        .leader_election()
        .install::<Website>()
        .controller(controller)
}

/// Reconciles a website after every change of the website or of its ConfigMap. After an error, the controller retries
/// with exponential backoff.
async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    let url = format!("https://{}", site.spec.domain);
    cx.apply(config_map(site.name(), &url)).await?;
    cx.apply_status(WebsiteStatus {
        url,
        conditions: cx.ready("Published"),
    })
    .await?;
    Ok(Action::await_change())
}

/// Cleans up resources outside of the cluster. The ConfigMap does not have to be cleaned up, because Kubernetes deletes
/// it with its owner.
async fn retire(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Cleanup> {
    cx.event(
        EventType::Normal,
        "Retired",
        format!("{} is no longer published", site.spec.domain),
    );
    Ok(Cleanup::Done)
}

fn config_map(name: &str, url: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("url".to_owned(), url.to_owned())].into());
    map
}
