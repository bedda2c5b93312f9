use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::{Metadata, OwnerRef};
use crate::{Resource, Time};

/// What each object says of itself, under `metadata`.
///
/// Fields that are absent on the wire are empty here, and are left out again when written. A field that this version does
/// not know is kept in `other`, so that reading and writing back loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The name, unique within namespace and resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix to which the server appends five characters, where `name` is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The namespace; empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The identity of this very object, never used again after its deletion. Set by the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision of the object's last change. Opaque, but comparable for equality.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts the changes of the desired state. Set by the server; 0 where it keeps none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// When the object was created. Set by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When deletion was asked for, or, with a grace period, when it will come about. Set by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Seconds that the object is given to end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// What selectors match on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    /// Notes for tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub annotations: BTreeMap<String, String>,
    /// The objects that this one depends on: it is deleted after the last of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub owner_references: Vec<OwnerReference>,
    /// The object stays until this list is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub finalizers: Vec<String>,
    /// Who wrote which fields, as the server keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub managed_fields: Vec<Value>,
    /// Fields that this struct does not name.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl ObjectMeta {
    /// Metadata for a new object. An empty namespace means cluster scope.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ..Self::default() }
    }
}

impl Metadata for ObjectMeta {
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

    fn generation(&self) -> i64 {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    fn finalizers(&self) -> &[String] {
        &self.finalizers
    }

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        self.owner_references.iter().map(OwnerReference::as_ref).collect()
    }
}

/// A reference from a dependent to its owner. Both live in one namespace, or the owner is cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `version` or `group/version` of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
    /// The uid of the owner: a later object of the same name is another owner.
    pub uid: String,
    /// Whether the owner manages this object. At most one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The reference by which `owner` manages a dependent: client-go's `NewControllerRef`.
    pub fn controller_of<T: Resource>(owner: &T) -> Self {
        let resource = T::api_resource();
        Self {
            api_version: resource.group_version.to_string(),
            kind: resource.kind,
            name: owner.name().into(),
            uid: owner.uid().into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    fn as_ref(&self) -> OwnerRef<'_> {
        OwnerRef {
            api_version: &self.api_version,
            kind: &self.kind,
            name: &self.name,
            uid: &self.uid,
            controller: self.controller.unwrap_or(false),
        }
    }
}

/// The two members by which an object names its own kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeMeta {
    /// `version` or `group/version`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Go writes a nil map or slice as `null`.
fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_and_writing_back_loses_nothing() {
        let text = r#"{"name":"a","namespace":"b","labels":{"x":"y"},"selfLink":"/old"}"#;
        let meta: ObjectMeta = serde_json::from_str(text).unwrap();
        let back: Value = serde_json::to_value(&meta).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn null_is_an_empty_collection() {
        let meta: ObjectMeta =
            serde_json::from_str(r#"{"name":"a","creationTimestamp":null,"labels":null,"finalizers":null}"#).unwrap();
        assert_eq!(meta, ObjectMeta::new("", "a"));
    }
}
