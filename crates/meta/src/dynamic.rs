//! Objects of kinds that are not known at compile time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Metadata, Object, ObjectMeta, TypeMeta};

/// An object of any kind: its metadata is typed, the rest is JSON. client-go's `Unstructured`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct DynamicObject {
    /// `apiVersion` and `kind`. The items of a list carry none.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// All other members.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

impl Object for DynamicObject {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}

/// The metadata of an object and nothing else, as a server sends it when asked for `PartialObjectMetadata`. Any object can be
/// read as one: its other members are skipped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObject {
    /// `version` or `group/version` of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Object for PartialObject {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}
