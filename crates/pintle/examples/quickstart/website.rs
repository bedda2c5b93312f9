//! The custom resource of the demo.

use std::collections::BTreeMap;

use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A website.
#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", short("site"))]
#[resource(column("Domain", ".spec.domain"), column("Replicas", ".spec.replicas"), column("Phase", ".status.phase"))]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Spec {
    #[schemars(length(min = 1, max = 253))]
    pub(crate) domain: String,
    #[serde(default = "one")]
    #[schemars(range(max = 20))]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) theme: Theme,
    /// The text of each page by page name. The page names become keys in a ConfigMap.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 100, "x-kubernetes-validations" = [{"rule": "self.all(name, name.matches('^[-._a-zA-Z0-9]+$'))"}]))]
    pub(crate) pages: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Theme {
    Dark,
    Light,
    #[default]
    Plain,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) url: String,
    pub(crate) conditions: Conditions,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Phase {
    Published,
    /// The spec requests zero replicas.
    Suspended,
}

fn one() -> i32 {
    1
}
