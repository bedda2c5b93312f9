//! Traits for API objects and for their metadata.

use std::collections::BTreeMap;

use crate::key::ObjectKey;
use crate::resource::ApiResource;
use crate::scope::ResourceScope;

/// An API object. This trait can be implemented for any type that contains metadata.
///
/// The macro [`resource!`](crate::resource) implements this trait in one line. Without the macro, implement only the
/// method [`metadata`](Self::metadata).
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
    label = "this type has no known metadata",
    note = "for a custom resource, add `#[derive(Resource)]` and `#[resource(group = \"example.com\", version = \"v1\")]` to the struct",
    note = "for another struct with a `metadata: ObjectMeta` field, add `resource!({Self}, \"example.com/v1\", \"Kind\", \"plural\", Namespaced);`",
    note = "for a type of k8s-openapi, enable the feature `k8s-openapi`"
)]
pub trait Object: Send + Sync + 'static {
    /// Returns the object's metadata.
    fn metadata(&self) -> &dyn Metadata;

    /// Returns the name.
    fn name(&self) -> &str {
        self.metadata().name()
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    fn namespace(&self) -> Option<&str> {
        Some(self.metadata().namespace()).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the object's uid, or an empty string before the server has stored the object.
    fn uid(&self) -> &str {
        self.metadata().uid()
    }

    /// Returns the object's resourceVersion, or an empty string before the server has stored the object.
    fn resource_version(&self) -> &str {
        self.metadata().resource_version()
    }

    /// Returns the key that identifies the object within its resource.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.metadata().namespace(), self.metadata().name())
    }
}

/// An object whose resource is known at compile time.
///
/// The macro [`resource!`](crate::resource) implements this trait in one line.
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
    message = "`{Self}` has no known Kubernetes API resource",
    label = "apiVersion, kind and plural are unknown",
    note = "for a custom resource, add `#[derive(Resource)]` and `#[resource(group = \"example.com\", version = \"v1\")]` to the struct",
    note = "for another struct with a `metadata: ObjectMeta` field, add `resource!({Self}, \"example.com/v1\", \"Kind\", \"plural\", Namespaced);`",
    note = "for a type of k8s-openapi, enable the feature `k8s-openapi`; for a `DynamicObject`, use the methods whose names contain `dynamic`"
)]
pub trait Resource: Object {
    /// [`NamespaceScope`](crate::NamespaceScope) or [`ClusterScope`](crate::ClusterScope). Some client methods are only
    /// available for one of the scopes.
    type Scope: ResourceScope;

    /// `version` or `group/version`.
    const API_VERSION: &'static str;

    /// The kind in upper camel case, such as `Deployment`.
    const KIND: &'static str;

    /// The lower-case plural name that is used in URLs, such as `deployments`.
    const PLURAL: &'static str;

    /// Returns the [`ApiResource`] of this type.
    ///
    /// # Panics
    ///
    /// Panics if `API_VERSION` is invalid.
    fn api_resource() -> ApiResource {
        ApiResource::new(Self::API_VERSION, Self::KIND, Self::PLURAL, Self::Scope::SCOPE)
    }
}

/// Read access to the metadata of an object. [`ObjectMeta`](crate::ObjectMeta) and the metadata types of other
/// libraries implement this trait. To save memory, a program can implement it for a smaller metadata type.
///
/// The method for a field that the object lacks returns an empty value or 0.
///
/// # Examples
///
/// For example, a program that stores a million pods can use a metadata type with only the identity fields:
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
    /// Returns the name.
    fn name(&self) -> &str;
    /// Returns the namespace, which is empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
    /// Returns the uid.
    fn uid(&self) -> &str;
    /// Returns the resourceVersion.
    fn resource_version(&self) -> &str;
    /// Returns the generation, which the server increments when the desired state of the object changes.
    fn generation(&self) -> i64 {
        0
    }
    /// Returns `true` if the deletion of the object has been requested.
    fn is_terminating(&self) -> bool {
        false
    }
    /// Returns the labels.
    fn labels(&self) -> &BTreeMap<String, String> {
        &NONE
    }
    /// Returns the annotations.
    fn annotations(&self) -> &BTreeMap<String, String> {
        &NONE
    }
    /// Returns the finalizers.
    fn finalizers(&self) -> &[String] {
        &[]
    }
    /// Returns `true` if [`finalizers`](Self::finalizers) and [`is_terminating`](Self::is_terminating) return the values
    /// of the stored object. The default is `false`.
    ///
    /// A controller writes finalizers only for types that return `true`. For other types, the write would delete the
    /// finalizers of other controllers, and the controller would never notice the deletion of an object.
    fn supports_finalizers(&self) -> bool {
        false
    }
    /// Returns the owners.
    fn owners(&self) -> Vec<OwnerRef<'_>> {
        Vec::new()
    }

    /// Returns the owner reference whose `controller` field is `true`, if any.
    fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owners().into_iter().find(|owner| owner.controller)
    }
}

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// A borrowed owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// The owner's API version, as `version` or `group/version`.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether the owner is the object's controller.
    pub controller: bool,
}

impl OwnerRef<'_> {
    /// Returns the owner's API group. Compare owners by group and kind, because the version in an owner reference can
    /// change.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Implements [`Object`] and [`Resource`] for a struct with a `metadata` field.
///
/// The arguments are the type, its `apiVersion`, its kind, its plural name, and its [`Scope`](crate::Scope)
/// (`Namespaced` or `Cluster`). The macro call does not compile if the `apiVersion` is invalid:
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

        // Use the constant, so that an invalid `apiVersion` is a compile-time error even if no other code uses it.
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
