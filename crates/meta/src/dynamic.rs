//! Objects whose kind is not known at compile time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::null::or_empty;
use crate::object::{Metadata, Object};
use crate::object_meta::{ObjectMeta, TypeMeta};

/// An object of any kind, like client-go's `Unstructured`. The metadata is typed, and the other fields are JSON values.
///
/// # Examples
///
/// ```
/// use pintle_meta::{DynamicObject, Object};
///
/// let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2}}"#;
/// let mut web: DynamicObject = serde_json::from_str(text)?;
/// assert_eq!((web.types.kind.as_str(), web.name()), ("Deployment", "web"));
/// web.data["spec"]["replicas"] = 3.into();
/// assert_eq!(serde_json::to_string(&web)?, text.replace('2', "3"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct DynamicObject {
    /// The `apiVersion` and `kind`, which are empty for the items of a list response.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// All top-level fields other than `apiVersion`, `kind` and `metadata`.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

impl Object for DynamicObject {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}

/// An object with only its metadata, like Kubernetes' `PartialObjectMetadata`. The JSON of any object can be decoded as
/// a `PartialObject`, because the decoder skips all fields other than the metadata.
///
/// # Examples
///
/// ```
/// use pintle_meta::{Object, PartialObject};
///
/// let text = r#"{"kind": "Pod", "metadata": {"name": "web", "uid": "4f9a"}, "spec": {"containers": []}}"#;
/// let pod: PartialObject = serde_json::from_str(text)?;
/// assert_eq!((pod.name(), pod.uid()), ("web", "4f9a"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObject {
    /// The API version in the response, as `version` or `group/version`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind of the response.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Object for PartialObject {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}
