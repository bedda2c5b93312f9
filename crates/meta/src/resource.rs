//! Groups, versions, kinds and resources.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::group_resource::GroupResource;
use crate::scope::Scope;

/// An API group and version, such as `apps/v1`. The core group has an empty name, and its string form is only the
/// version, such as `v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The API group, or an empty string for the core group.
    pub group: String,
    /// The version, such as `v1` or `v1beta1`.
    pub version: String,
}

impl GroupVersion {
    /// Creates a `GroupVersion`. Pass an empty group for the core group.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Returns `true` if [`parse`](str::parse) accepts `text`. The macro [`resource!`](crate::resource) calls this
    /// `const` function at compile time.
    pub const fn is_valid(text: &str) -> bool {
        let (bytes, mut slashes, mut at, mut since) = (text.as_bytes(), 0, 0, 0);
        while at < bytes.len() {
            if bytes[at] == b'/' {
                slashes += 1;
                since = at + 1;
            }
            at += 1;
        }
        slashes <= 1 && since < bytes.len()
    }

    /// Returns the URL path of this group and version, such as `/api/v1` or `/apis/apps/v1`.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// Returns the [`GroupVersionKind`] of the kind `kind` in this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// Returns the [`GroupVersionResource`] of `resource` in this group and version.
    pub fn with_resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

impl FromStr for GroupVersion {
    type Err = InvalidGroupVersion;

    /// Parses `version` or `group/version`.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` contains more than one slash or an empty version.
    fn from_str(text: &str) -> Result<Self, InvalidGroupVersion> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.is_empty() || version.contains('/') {
            return Err(InvalidGroupVersion { text: text.into() });
        }
        Ok(Self::new(group, version))
    }
}

impl Serialize for GroupVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The error when a string cannot be parsed as `version` or `group/version`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not an API version: expected \"version\" or \"group/version\"")]
pub struct InvalidGroupVersion {
    text: Box<str>,
}

/// A kind with its group and version, such as `apps/v1, Kind=Deployment`.
///
/// # Examples
///
/// ```
/// use pintle_meta::GroupVersionKind;
///
/// let deployment = GroupVersionKind::new("apps", "v1", "Deployment");
/// assert_eq!(deployment.to_string(), "apps/v1, Kind=Deployment");
/// assert_eq!(deployment.group_version(), "apps/v1".parse()?);
/// # Ok::<(), pintle_meta::InvalidGroupVersion>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The API group, or an empty string for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind in upper camel case, such as `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Creates a `GroupVersionKind`. Pass an empty group for the core group.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the group and version, which is the `apiVersion` of the objects.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.group_version(), self.kind)
    }
}

/// A resource, such as `apps/v1/deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The API group, or an empty string for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The lower-case plural name, such as `deployments`.
    pub resource: String,
}

impl GroupVersionResource {
    /// Creates a `GroupVersionResource`. Pass an empty group for the core group.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Returns the group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Returns the resource without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group_version(), self.resource)
    }
}

impl GroupResource {
    /// Returns this resource with a version.
    pub fn with_version(&self, version: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, version, &self.resource)
    }
}

/// A resource with its kind and scope, which a client needs to send requests.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiResource, Scope};
///
/// let deployments = ApiResource::new("apps/v1", "Deployment", "deployments", Scope::Namespaced);
/// assert_eq!(deployments.to_string(), "deployments.apps");
/// assert_eq!(deployments.path(Some("team-a")), "/apis/apps/v1/namespaces/team-a/deployments");
/// assert_eq!(deployments.gvk().kind, "Deployment");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiResource {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The kind of the objects, such as `Deployment`.
    pub kind: String,
    /// The plural name that is used in URLs, such as `deployments`.
    pub plural: String,
    /// Whether the objects are namespaced or cluster-scoped.
    pub scope: Scope,
}

impl ApiResource {
    /// Creates an `ApiResource`. The argument `api_version` has the form `version` or `group/version`.
    ///
    /// # Panics
    ///
    /// Panics if `api_version` is invalid. To avoid a panic for untrusted input, parse the input as a [`GroupVersion`]
    /// first.
    pub fn new(api_version: &str, kind: &str, plural: &str, scope: Scope) -> Self {
        let group_version = match api_version.parse() {
            Ok(parsed) => parsed,
            Err(error) => panic!("{error}"),
        };
        Self { group_version, kind: kind.into(), plural: plural.into(), scope }
    }

    /// Returns the group, version and plural name.
    pub fn gvr(&self) -> GroupVersionResource {
        self.group_version.with_resource(&self.plural)
    }

    /// Returns the resource without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group_version.group, &self.plural)
    }

    /// Returns the group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        self.group_version.with_kind(&self.kind)
    }

    /// Returns the URL path for listing and creating objects, such as `/apis/apps/v1/namespaces/a/deployments`. Pass
    /// `None` for all namespaces or for a cluster-scoped resource.
    pub fn path(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("{}/namespaces/{namespace}/{}", self.group_version.path(), self.plural),
            None => format!("{}/{}", self.group_version.path(), self.plural),
        }
    }
}

impl fmt::Display for ApiResource {
    /// Formats the resource as in Kubernetes messages, such as `deployments.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.group_resource().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_valid_agrees_with_parsing() {
        for text in ["", "/", "v1", "apps/v1", "apps/", "/v1", "a/b/c", "a//v1", "ä/ö"] {
            assert_eq!(GroupVersion::is_valid(text), text.parse::<GroupVersion>().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn group_resource_ignores_the_version() {
        let resource = ApiResource::new("apps/v1", "Deployment", "deployments", Scope::Namespaced);
        assert_eq!(resource.to_string(), "deployments.apps");
        assert_eq!(resource.group_resource(), resource.gvr().group_resource());
        assert_eq!(resource.group_resource().with_version("v1"), resource.gvr());
    }
}
