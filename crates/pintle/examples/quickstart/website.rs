//! The custom resource: a plain serde struct and one macro line.

use pintle::meta::TypeMeta;
use pintle::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A website: the desired state, and the status that the controller writes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Website {
    #[serde(flatten)]
    pub(crate) types: TypeMeta,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WebsiteSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<WebsiteStatus>,
}

resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

/// The desired state. The API server fills in the defaults in `crd.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteSpec {
    pub(crate) domain: String,
    pub(crate) replicas: i32,
    pub(crate) theme: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) pages: BTreeMap<String, String>,
}

/// The status that the controller writes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteStatus {
    /// The generation of the spec that this status reflects.
    #[serde(default)]
    pub(crate) observed_generation: i64,
    pub(crate) phase: Phase,
    pub(crate) url: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Phase {
    Published,
    /// The spec requests zero replicas.
    Suspended,
}

impl Website {
    /// Returns the status for the current spec.
    pub(crate) fn desired_status(&self) -> WebsiteStatus {
        WebsiteStatus {
            observed_generation: self.metadata.generation,
            phase: if self.spec.replicas == 0 { Phase::Suspended } else { Phase::Published },
            url: format!("https://{}/", self.spec.domain),
        }
    }
}
