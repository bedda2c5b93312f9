//! The metadata of objects.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::null::{Few, OrEmpty, Texts, or_empty};
use crate::object::{Metadata, OwnerRef};
use crate::{Resource, Time};

/// What each object says of itself, under `metadata`.
///
/// Fields that are absent or `null` on the wire are empty here, and are left out again when written; so is, as in Go, a `null` in a
/// map or list of strings. A field that this version does not know is kept in `other`, so that reading and writing back loses
/// nothing, but for one:
///
/// `managedFields` is skipped. It is often the larger part of an object, controllers do not read it, and a server keeps what it
/// has where a write brings none (`docs/reference/using-api/server-side-apply`, "clearing managedFields"). Who wants to look at it
/// decodes the object as a type that has it.
///
/// # Cost
///
/// A struct with this and nothing else, decoded from a pod of 7 KB, allocates at most 2,000 bytes in 31 pieces, itself included:
/// that pod has five labels, three annotations and an owner. Its 3 KB of managed fields leave nothing behind. More than half are the
/// two maps: each takes 544 bytes for up to eleven entries, beside their texts. Four fields of one's own, as a [`Metadata`] that
/// keeps no more, take at most 231 bytes. `tests/memory.rs` holds these figures with an allocator that counts.
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
    /// The name, unique within namespace and resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix to which the server appends five characters, where `name` is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The identity of this very object, never used again after its deletion. Set by the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision of the object's last change. Opaque, but comparable for equality.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts the changes of the desired state. Set by the server; 0 where it keeps none.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// When the object was created. Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When deletion was asked for, or, with a grace period, when it will come about. Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Seconds that the object is given to end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// What selectors match on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Notes for tools.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The objects that this one depends on: it is deleted after the last of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The object stays until this list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Fields that this struct does not name. Boxed, since there are none as a rule.
    #[serde(flatten)]
    pub other: Option<Box<BTreeMap<String, Value>>>,
}

impl ObjectMeta {
    /// Metadata for a new object. An empty namespace means cluster scope.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ..Self::default() }
    }
}

/// By hand, since a derived one that keeps unknown fields has to hold every object as a tree first.
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

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        self.owner_references.iter().map(OwnerReference::as_ref).collect()
    }
}

/// A reference from a dependent to its owner. Both live in one namespace, or the owner is cluster-scoped.
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
    /// `version` or `group/version` of the owner.
    #[serde(default, deserialize_with = "or_empty")]
    pub api_version: String,
    /// The kind of the owner.
    #[serde(default, deserialize_with = "or_empty")]
    pub kind: String,
    /// The name of the owner.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// The uid of the owner: a later object of the same name is another owner.
    #[serde(default, deserialize_with = "or_empty")]
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
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub kind: String,
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
    fn managed_fields_are_skipped() {
        let text = r#"{"name":"a","managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{}}}]}"#;
        assert_eq!(serde_json::from_str::<ObjectMeta>(text).unwrap(), ObjectMeta::new("", "a"));
    }

    #[test]
    fn null_is_the_empty_value_as_in_go() {
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
    fn what_is_of_another_type_is_refused() {
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
    fn lists_take_what_they_have() {
        let one: ObjectMeta = serde_json::from_str(r#"{"ownerReferences":[{}],"finalizers":["a","b"]}"#).unwrap();
        assert_eq!((one.owner_references.capacity(), one.finalizers.capacity()), (1, 2));
    }
}
