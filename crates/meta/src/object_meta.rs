//! Object metadata.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::null::{Few, OrEmpty, Texts, is_default, or_empty};
use crate::object::{Metadata, OwnerRef, Resource};
use crate::time::Time;

/// The `metadata` of an object, like Kubernetes' `metav1.ObjectMeta`.
///
/// Fields that are missing or `null` are decoded as empty values, and empty fields are omitted when serializing. As in
/// Go, a `null` in a map or list of strings is decoded as an empty string. The field `other` keeps unknown fields, so
/// decoding and then serializing an object preserves all fields except `managedFields`.
///
/// The field `managedFields` is skipped when decoding, because it often accounts for more than half of an object's
/// size. If a write omits `managedFields`, the server keeps the stored value
/// (`docs/reference/using-api/server-side-apply`, "clearing managedFields"). To read `managedFields`, decode the object
/// as a type that declares this field.
///
/// # Cost
///
/// The metadata of a typical pod takes at most 2,000 bytes in 31 allocations, including the `ObjectMeta` struct itself.
/// The size was measured for a 7 KB pod with five labels, three annotations and one owner reference. The pod's 3 KB of
/// managed fields use no memory after decoding. The label and annotation maps take more than half of the memory: each
/// map takes 544 bytes for up to eleven entries, not including the strings. For the same pod, a custom [`Metadata`]
/// type with four fields takes at most 231 bytes. `tests/memory.rs` checks these memory limits with a counting
/// allocator.
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectMeta;
///
/// let mut meta = ObjectMeta::new("team-a", "web");
/// meta.labels.insert("app".into(), "web".into());
/// let text = r#"{"name":"web","namespace":"team-a","labels":{"app":"web"}}"#;
/// assert_eq!(serde_json::to_string(&meta)?, text);
///
/// let read: ObjectMeta = serde_json::from_str(r#"{"name": "web", "labels": null, "managedFields": [{}]}"#)?;
/// assert_eq!(read, ObjectMeta::new("", "web"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The name, which is unique among the objects of this resource in the namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix from which the server generates a name. If `name` is empty, the server generates a name by appending
    /// five random characters to this prefix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The namespace, or an empty string for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The unique ID of the object, which the server assigns. A uid is never reused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision of the last change of the object. Treat the revision as an opaque string, and only compare it for
    /// equality.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// A counter that the server increments when the desired state changes. The generation is 0 for kinds that do not
    /// have one.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: i64,
    /// The time at which the server created the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The time at which the deletion was requested, plus the grace period. The server sets `deletionTimestamp` when a
    /// client requests the deletion of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// The grace period in seconds, if the object is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The labels, which label selectors match.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations, which contain data for tools and libraries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The object's owners. The garbage collector deletes the object once all of its owners have been deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The finalizers. The server removes a deleted object only after its list of finalizers has become empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The unknown fields of the metadata. The map is boxed, because it is usually empty.
    #[serde(flatten)]
    pub other: Option<Box<BTreeMap<String, Value>>>,
}

impl ObjectMeta {
    /// Creates metadata for a new object. Pass an empty namespace for a cluster-scoped object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ..Self::default() }
    }
}

/// Implemented manually, because a derived implementation with `#[serde(flatten)]` would buffer the entire object as a
/// tree of values.
impl<'de> Deserialize<'de> for ObjectMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "camelCase")]
        enum Field {
            Name,
            GenerateName,
            Namespace,
            Uid,
            ResourceVersion,
            Generation,
            CreationTimestamp,
            DeletionTimestamp,
            DeletionGracePeriodSeconds,
            Labels,
            Annotations,
            OwnerReferences,
            Finalizers,
            ManagedFields,
            Other(String),
        }

        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = ObjectMeta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the metadata of an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectMeta, A::Error> {
                let mut meta = ObjectMeta::default();
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Name => meta.name = value(&mut map)?,
                        Field::GenerateName => meta.generate_name = value(&mut map)?,
                        Field::Namespace => meta.namespace = value(&mut map)?,
                        Field::Uid => meta.uid = value(&mut map)?,
                        Field::ResourceVersion => meta.resource_version = value(&mut map)?,
                        Field::Generation => meta.generation = value(&mut map)?,
                        Field::CreationTimestamp => meta.creation_timestamp = value(&mut map)?,
                        Field::DeletionTimestamp => meta.deletion_timestamp = value(&mut map)?,
                        Field::DeletionGracePeriodSeconds => meta.deletion_grace_period_seconds = value(&mut map)?,
                        Field::Labels => Texts(meta.labels) = value(&mut map)?,
                        Field::Annotations => Texts(meta.annotations) = value(&mut map)?,
                        Field::OwnerReferences => Few(meta.owner_references) = value(&mut map)?,
                        Field::Finalizers => Few(meta.finalizers) = value(&mut map)?,
                        Field::ManagedFields => _ = map.next_value::<IgnoredAny>()?,
                        Field::Other(name) => _ = meta.other.get_or_insert_default().insert(name, map.next_value()?),
                    }
                }
                Ok(meta)
            }
        }

        fn value<'de, A: MapAccess<'de>, T: Default + Deserialize<'de>>(map: &mut A) -> Result<T, A::Error> {
            map.next_value().map(|OrEmpty(value)| value)
        }

        deserializer.deserialize_map(Fields)
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

    fn supports_finalizers(&self) -> bool {
        true
    }

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        self.owner_references.iter().map(OwnerReference::as_ref).collect()
    }
}

/// A reference from an object to the object that owns it. The owner must be cluster-scoped or in the same namespace as
/// the dependent.
///
/// # Examples
///
/// ```
/// use pintle_meta::{Metadata, ObjectMeta, OwnerReference};
///
/// struct Website { metadata: ObjectMeta }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// let blog = Website { metadata: ObjectMeta { uid: "4f9a".into(), ..ObjectMeta::new("team-a", "blog") } };
/// let mut pod = ObjectMeta::new("team-a", "blog-0");
/// pod.owner_references.push(OwnerReference::controller_of(&blog));
/// assert_eq!(pod.controller().map(|owner| (owner.kind, owner.uid)), Some(("Website", "4f9a")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's API version, as `version` or `group/version`.
    #[serde(default, deserialize_with = "or_empty")]
    pub api_version: String,
    /// The owner's kind.
    #[serde(default, deserialize_with = "or_empty")]
    pub kind: String,
    /// The owner's name.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// The owner's uid. A new object with the same name has a different uid and is not the owner.
    #[serde(default, deserialize_with = "or_empty")]
    pub uid: String,
    /// Whether the owner is the controller of the dependent. At most one owner of an object is its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the deletion of the dependent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// Creates a controller reference to `owner`, like client-go's `NewControllerRef`.
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

/// An object's `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeMeta {
    /// `version` or `group/version`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind in upper camel case, such as `Deployment`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_roundtrip_loses_nothing() {
        let text = r#"{"name":"a","namespace":"b","labels":{"x":"y"},"selfLink":"/old"}"#;
        let meta: ObjectMeta = serde_json::from_str(text).unwrap();
        let back: Value = serde_json::to_value(&meta).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn managed_fields_are_skipped() {
        let text = r#"{"name":"a","managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{}}}]}"#;
        assert_eq!(serde_json::from_str::<ObjectMeta>(text).unwrap(), ObjectMeta::new("", "a"));
    }

    #[test]
    fn null_decodes_as_the_empty_value() {
        let texts = |entries: &[(&str, &str)]| {
            entries.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
        };
        let owner = |name: &str| OwnerReference { kind: "Web".into(), name: name.into(), ..OwnerReference::default() };
        let with = |change: &dyn Fn(&mut ObjectMeta)| {
            let mut meta = ObjectMeta::new("", "a");
            change(&mut meta);
            meta
        };
        for (members, expected) in [
            (r#""namespace":null,"generateName":null,"uid":null,"resourceVersion":null"#, with(&|_| {})),
            (r#""generation":null,"deletionGracePeriodSeconds":null"#, with(&|_| {})),
            (r#""creationTimestamp":null,"deletionTimestamp":null"#, with(&|_| {})),
            (
                r#""labels":null,"annotations":null,"ownerReferences":null,"finalizers":null,"managedFields":null"#,
                with(&|_| {}),
            ),
            (r#""labels":{"x":null,"y":"z"}"#, with(&|meta| meta.labels = texts(&[("x", ""), ("y", "z")]))),
            (r#""annotations":{"x":"y","z":null}"#, with(&|meta| meta.annotations = texts(&[("x", "y"), ("z", "")]))),
            (r#""finalizers":["x",null]"#, with(&|meta| meta.finalizers = vec!["x".into(), "".into()])),
            (
                r#""ownerReferences":[{"kind":"Web","name":"b","apiVersion":null,"uid":null,"controller":null},{"kind":"Web"}]"#,
                with(&|meta| meta.owner_references = vec![owner("b"), owner("")]),
            ),
            (r#""ownerReferences":[null]"#, with(&|meta| meta.owner_references = vec![OwnerReference::default()])),
        ] {
            let read: ObjectMeta = serde_json::from_str(&format!(r#"{{"name":"a",{members}}}"#)).unwrap();
            assert_eq!(read, expected, "{members}");
        }
        let types: TypeMeta = serde_json::from_str(r#"{"kind":null,"apiVersion":null}"#).unwrap();
        assert_eq!(types, TypeMeta::default());
    }

    #[test]
    fn wrong_types_are_rejected() {
        for members in [
            r#""name":7"#,
            r#""labels":{"x":7}"#,
            r#""labels":{"x":["y"]}"#,
            r#""labels":["x"]"#,
            r#""annotations":"x""#,
            r#""finalizers":{"x":"y"}"#,
            r#""finalizers":[7]"#,
            r#""ownerReferences":["x"]"#,
            r#""creationTimestamp":"yesterday""#,
        ] {
            assert!(serde_json::from_str::<ObjectMeta>(&format!("{{{members}}}")).is_err(), "{members}");
        }
    }

    #[test]
    fn lists_allocate_exactly_their_length() {
        let one: ObjectMeta = serde_json::from_str(r#"{"ownerReferences":[{}],"finalizers":["a","b"]}"#).unwrap();
        assert_eq!((one.owner_references.capacity(), one.finalizers.capacity()), (1, 2));
    }
}
