//! Metadata with only a few fields, for tests.

use pintle_meta::Metadata;
use serde::{Deserialize, Serialize};

/// Metadata without finalizers, as in the example of [`Metadata`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlimMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

impl Metadata for SlimMetadata {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}
