//! Implements [`Object`] and [`Resource`] for all k8s-openapi types with metadata.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::object::{Metadata, Object, OwnerRef, Resource};
use crate::object_meta::{self, OwnerReference};
use crate::scope::{ClusterScope, NamespaceScope, ResourceScope};

// Without `do_not_recommend`, the compiler would report that a type without `resource!` lacks
// `k8s_openapi::Metadata`.
#[diagnostic::do_not_recommend]
impl<T> Object for T
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    fn metadata(&self) -> &dyn Metadata {
        k8s_openapi::Metadata::metadata(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T> Resource for T
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + k8s_openapi::Resource + Send + Sync + 'static,
    T::Scope: KnownScope,
{
    type Scope = <T::Scope as KnownScope>::Scope;
    const API_VERSION: &'static str = T::API_VERSION;
    const KIND: &'static str = T::KIND;
    const PLURAL: &'static str = T::URL_PATH_SEGMENT;
}

/// The scopes of k8s-openapi whose objects can be listed: the cluster scope and the namespace scope.
pub trait KnownScope {
    /// The type in this crate that represents the same scope.
    type Scope: ResourceScope;
}

impl KnownScope for k8s_openapi::ClusterResourceScope {
    type Scope = ClusterScope;
}

impl KnownScope for k8s_openapi::NamespaceResourceScope {
    type Scope = NamespaceScope;
}

static NO_TEXTS: BTreeMap<String, String> = BTreeMap::new();

impl Metadata for ObjectMeta {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.resource_version.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.generation.unwrap_or_default()
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        self.labels.as_ref().unwrap_or(&NO_TEXTS)
    }

    fn annotations(&self) -> &BTreeMap<String, String> {
        self.annotations.as_ref().unwrap_or(&NO_TEXTS)
    }

    fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    fn supports_finalizers(&self) -> bool {
        true
    }

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        let owners = self.owner_references.iter().flatten();
        let view = owners.map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller.unwrap_or(false),
        });
        view.collect()
    }
}

impl From<OwnerReference> for v1::OwnerReference {
    fn from(owner: OwnerReference) -> Self {
        let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
        Self { api_version, kind, name, uid, controller, block_owner_deletion }
    }
}

impl From<v1::OwnerReference> for OwnerReference {
    fn from(owner: v1::OwnerReference) -> Self {
        let v1::OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
        Self { api_version, kind, name, uid, controller, block_owner_deletion }
    }
}

/// Converts the fields that both types have. The fields in `other` are dropped.
impl From<object_meta::ObjectMeta> for ObjectMeta {
    fn from(meta: object_meta::ObjectMeta) -> Self {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let texts = |texts: BTreeMap<String, String>| Some(texts).filter(|texts| !texts.is_empty());
        let owners: Vec<_> = meta.owner_references.into_iter().map(Into::into).collect();
        Self {
            name: text(meta.name),
            generate_name: text(meta.generate_name),
            namespace: text(meta.namespace),
            uid: text(meta.uid),
            resource_version: text(meta.resource_version),
            generation: Some(meta.generation).filter(|generation| *generation != 0),
            creation_timestamp: meta.creation_timestamp.map(|time| v1::Time(time.0)),
            deletion_timestamp: meta.deletion_timestamp.map(|time| v1::Time(time.0)),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            labels: texts(meta.labels),
            annotations: texts(meta.annotations),
            owner_references: Some(owners).filter(|owners| !owners.is_empty()),
            finalizers: Some(meta.finalizers).filter(|finalizers| !finalizers.is_empty()),
            managed_fields: None,
            self_link: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;
    use crate::Scope;

    #[test]
    fn k8s_openapi_types_are_resources() {
        assert_eq!(Deployment::api_resource().path(Some("a")), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(Namespace::api_resource().scope, Scope::Cluster);
        let deployment = Deployment {
            metadata: ObjectMeta { name: Some("web".into()), namespace: Some("a".into()), ..Default::default() },
            ..Default::default()
        };
        assert_eq!(deployment.key().to_string(), "a/web");
    }

    #[test]
    fn owner_reference_converts_both_ways() {
        let owner = Namespace {
            metadata: ObjectMeta { name: Some("a".into()), uid: Some("4f9a".into()), ..Default::default() },
            ..Default::default()
        };
        let ours = OwnerReference::controller_of(&owner);
        let theirs: v1::OwnerReference = ours.clone().into();
        assert_eq!((theirs.api_version.as_str(), theirs.uid.as_str(), theirs.controller), ("v1", "4f9a", Some(true)));
        assert_eq!(OwnerReference::from(theirs), ours);
    }

    #[test]
    fn metadata_converts_to_the_type_of_k8s_openapi() {
        let mut ours = crate::ObjectMeta::new("a", "web");
        ours.labels.insert("app".into(), "web".into());
        ours.finalizers.push("example.com/dns".into());
        ours.generation = 3;
        ours.creation_timestamp = Some(crate::Time("2026-11-20T08:30:00Z".parse().unwrap()));
        ours.owner_references.push(OwnerReference { name: "owner".into(), ..OwnerReference::default() });
        let theirs = ObjectMeta::from(ours.clone());
        assert_eq!(serde_json::to_value(theirs).unwrap(), serde_json::to_value(ours).unwrap());
        assert_eq!(ObjectMeta::from(crate::ObjectMeta::default()), ObjectMeta::default());
    }
}
