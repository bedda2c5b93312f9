//! What an object of the API is: anything that carries metadata.

use std::collections::BTreeMap;

use crate::{ApiResource, ObjectKey, ResourceScope};

/// An object of the API: anything that carries metadata.
///
/// Implement it with [`resource!`](crate::resource) in one line, or by hand with one method.
///
/// # Examples
///
/// ```
/// use pintle_meta::{Metadata, Object, ObjectKey, ObjectMeta};
///
/// struct Website { meta: ObjectMeta }
///
/// impl Object for Website {
///     fn metadata(&self) -> &dyn Metadata {
///         &self.meta
///     }
/// }
///
/// let blog = Website { meta: ObjectMeta::new("team-a", "blog") };
/// assert_eq!(blog.key(), ObjectKey::new("team-a", "blog"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object of the Kubernetes API",
    label = "it has no metadata that Pintle knows of",
    note = "for a struct with a `metadata: ObjectMeta` field, add `resource!({Self}, \"example.com/v1\", \"Kind\", \"plural\", Namespaced);`",
    note = "for a type of k8s-openapi, enable the feature `k8s-openapi`"
)]
pub trait Object: Send + Sync + 'static {
    /// The object's metadata, of whichever type.
    fn metadata(&self) -> &dyn Metadata;

    /// The name.
    fn name(&self) -> &str {
        self.metadata().name()
    }

    /// The namespace, absent for a cluster-scoped object.
    fn namespace(&self) -> Option<&str> {
        Some(self.metadata().namespace()).filter(|namespace| !namespace.is_empty())
    }

    /// The uid; empty before the server has seen the object.
    fn uid(&self) -> &str {
        self.metadata().uid()
    }

    /// The resourceVersion; empty before the server has seen the object.
    fn resource_version(&self) -> &str {
        self.metadata().resource_version()
    }

    /// The key of the object within its resource.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.metadata().namespace(), self.metadata().name())
    }
}

/// An object whose resource is known at compile time: what it is called, and whether it lives in namespaces.
///
/// Implement it with [`resource!`](crate::resource) in one line.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ObjectMeta, Resource};
///
/// struct Website { metadata: ObjectMeta }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// fn path<T: Resource>(object: &T) -> String {
///     format!("{}/{}", T::api_resource().path(object.namespace()), object.name())
/// }
///
/// let blog = Website { metadata: ObjectMeta::new("team-a", "blog") };
/// assert_eq!(path(&blog), "/apis/example.com/v1/namespaces/team-a/websites/blog");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which resource of the Kubernetes API it is",
    label = "no apiVersion, kind and plural are known of it",
    note = "for a struct with a `metadata: ObjectMeta` field, add `resource!({Self}, \"example.com/v1\", \"Kind\", \"plural\", Namespaced);`",
    note = "for a type of k8s-openapi, enable the feature `k8s-openapi`; for a `DynamicObject`, use the methods named `dynamic`"
)]
pub trait Resource: Object {
    /// [`NamespaceScope`](crate::NamespaceScope) or [`ClusterScope`](crate::ClusterScope): which calls make sense.
    type Scope: ResourceScope;

    /// `version` or `group/version`.
    const API_VERSION: &'static str;

    /// The kind, in upper camel case.
    const KIND: &'static str;

    /// The plural, in lower case: the path segment.
    const PLURAL: &'static str;

    /// The same as a value.
    ///
    /// # Panics
    ///
    /// If `API_VERSION` is no version.
    fn api_resource() -> ApiResource {
        ApiResource::new(Self::API_VERSION, Self::KIND, Self::PLURAL, Self::Scope::SCOPE)
    }
}

/// Read access to metadata: [`ObjectMeta`](crate::ObjectMeta), the type of another library that means the same, or one that keeps
/// only what its program reads.
///
/// A field that is absent, or that the type does not keep, reads as empty or 0.
///
/// # Examples
///
/// Of a million pods, all that is to be in memory is who they are and where they run:
///
/// ```
/// use pintle_meta::{Metadata, Object, ObjectKey};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Identity {
///     name: String,
///     namespace: String,
///     uid: String,
///     resource_version: String,
/// }
///
/// impl Metadata for Identity {
///     fn name(&self) -> &str {
///         &self.name
///     }
///     fn namespace(&self) -> &str {
///         &self.namespace
///     }
///     fn uid(&self) -> &str {
///         &self.uid
///     }
///     fn resource_version(&self) -> &str {
///         &self.resource_version
///     }
/// }
///
/// #[derive(Deserialize)]
/// struct Pod {
///     metadata: Identity,
/// }
/// pintle_meta::resource!(Pod, "v1", "Pod", "pods", Namespaced);
///
/// let json = r#"{"metadata": {"name": "web", "namespace": "a", "uid": "4f9a", "resourceVersion": "7", "labels": {"b": "c"}}}"#;
/// let pod: Pod = serde_json::from_str(json)?;
/// assert_eq!(pod.key(), ObjectKey::new("a", "web"));
/// assert!(pod.metadata().labels().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait Metadata {
    /// The name.
    fn name(&self) -> &str;
    /// The namespace; empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
    /// The uid.
    fn uid(&self) -> &str;
    /// The resourceVersion.
    fn resource_version(&self) -> &str;
    /// The generation of the desired state.
    fn generation(&self) -> i64 {
        0
    }
    /// Whether deletion has been asked for.
    fn is_terminating(&self) -> bool {
        false
    }
    /// The labels.
    fn labels(&self) -> &BTreeMap<String, String> {
        &NONE
    }
    /// The annotations.
    fn annotations(&self) -> &BTreeMap<String, String> {
        &NONE
    }
    /// The finalizers.
    fn finalizers(&self) -> &[String] {
        &[]
    }
    /// The owners.
    fn owners(&self) -> Vec<OwnerRef<'_>> {
        Vec::new()
    }

    /// The one owner that manages the object, if any.
    fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owners().into_iter().find(|owner| owner.controller)
    }
}

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// A borrowed view of an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// `version` or `group/version` of the owner.
    pub api_version: &'a str,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
    /// The uid of the owner.
    pub uid: &'a str,
    /// Whether the owner manages the object.
    pub controller: bool,
}

impl OwnerRef<'_> {
    /// The group of the owner. Dependents outlive a change of version, so owners are matched by group and kind.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Makes a struct with a `metadata` field an [`Object`] and a [`Resource`].
///
/// Takes the type, its `apiVersion`, kind, plural, and its [`Scope`](crate::Scope): `Namespaced` or `Cluster`. An `apiVersion` that is not
/// `version` or `group/version` does not compile:
///
/// ```compile_fail,E0080
/// use pintle_meta::ObjectMeta;
///
/// struct Widget { metadata: ObjectMeta }
/// pintle_meta::resource!(Widget, "example.com/", "Widget", "widgets", Namespaced);
/// ```
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectMeta;
///
/// struct Widget { metadata: ObjectMeta }
/// pintle_meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);
/// ```
#[macro_export]
macro_rules! resource {
    ($type:ty, $api_version:expr, $kind:expr, $plural:expr, Namespaced) => {
        $crate::resource!($type, $api_version, $kind, $plural, in $crate::NamespaceScope);
    };
    ($type:ty, $api_version:expr, $kind:expr, $plural:expr, Cluster) => {
        $crate::resource!($type, $api_version, $kind, $plural, in $crate::ClusterScope);
    };
    ($type:ty, $api_version:expr, $kind:expr, $plural:expr, in $scope:ty) => {
        impl $crate::Object for $type {
            fn metadata(&self) -> &dyn $crate::Metadata {
                &self.metadata
            }
        }

        // Looked at here, so that a bad version is an error also where nobody uses it.
        const _: &str = <$type as $crate::Resource>::API_VERSION;

        impl $crate::Resource for $type {
            type Scope = $scope;
            const API_VERSION: &'static str = {
                assert!(
                    $crate::GroupVersion::is_valid($api_version),
                    "an apiVersion is \"version\" or \"group/version\", such as \"v1\" or \"apps/v1\""
                );
                $api_version
            };
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
        }
    };
}
