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

/// The metadata of an object and nothing else, as a server sends it when asked for `PartialObjectMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct PartialObject {
    /// `apiVersion` and `kind` of the answer.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Object for PartialObject {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}
