//! The custom resource of the operators.

use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
pub(super) struct Website {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Spec,
    pub(super) status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct Spec {
    #[schemars(length(max = 253))]
    pub(super) domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct Status {
    pub(super) url: String,
    pub(super) conditions: Conditions,
}
