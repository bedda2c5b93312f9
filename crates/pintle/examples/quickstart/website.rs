//! The custom resource: a plain serde struct and one line.

use pintle::meta::{ObjectMeta, TypeMeta};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A website: what the user wants, and what the controller made of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Website {
    #[serde(flatten)]
    pub types: TypeMeta,
    pub metadata: ObjectMeta,
    pub spec: WebsiteSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WebsiteStatus>,
}

pintle::meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

/// What the user wants. Defaults are the API server's: see `crd.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    pub domain: String,
    pub replicas: i32,
    pub theme: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, String>,
}

/// What the controller made of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    pub phase: Phase,
    pub url: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Phase {
    Published,
    /// Asked for with no replicas.
    Suspended,
}

impl Website {
    /// The status that the spec calls for.
    pub fn desired_status(&self) -> WebsiteStatus {
        WebsiteStatus {
            observed_generation: self.metadata.generation,
            phase: if self.spec.replicas == 0 { Phase::Suspended } else { Phase::Published },
            url: format!("https://{}/", self.spec.domain),
        }
    }
}
