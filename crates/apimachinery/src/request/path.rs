//! Parses request paths.

use std::borrow::Cow;
use std::sync::LazyLock;

use percent_encoding::percent_decode;

/// The target of a request path, which may be a resource that the server does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path below `/api/v1/` or `/apis/GROUP/VERSION/`.
    Resource(ResourcePath),
    /// Any other path. The list contains the decoded segments of the path.
    Other(Vec<String>),
    /// The path `/api/v1/watch` or `/api/v1/proxy`, without a resource.
    Undeterminable,
}

/// A path `/{api/v1|apis/g/v}/[namespaces/NS/]resource[/name[/subresource]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    /// The namespace, or an empty string for cluster-scoped paths and for requests across all namespaces. For a
    /// Namespace, this field contains the name of the object, as authorizers expect.
    pub namespace: String,
    /// The plural name, such as `pods`.
    pub resource: String,
    /// The name of the object, or an empty string for a collection.
    pub name: String,
    pub subresource: String,
    /// The path segments after the subresource.
    pub rest: Vec<String>,
    /// Whether the path contains a namespace before the resource.
    pub in_namespace: bool,
    /// Whether the path has the deprecated form `/api/v1/watch/…`.
    pub old_watch: bool,
    /// Whether the path has the deprecated form `/api/v1/proxy/…`, which the server does not serve. If `true`, `rest`
    /// contains the path segments after the name.
    pub old_proxy: bool,
}

/// Decodes the percent-encoded characters of a path.
pub fn decoded(path: &str) -> Cow<'_, str> {
    percent_decode(path.as_bytes()).decode_utf8_lossy()
}

impl Default for Target {
    fn default() -> Self {
        Self::Other(Vec::new())
    }
}

impl Target {
    /// Returns the path of the resource, or an empty path for other targets.
    pub fn resource(&self) -> &ResourcePath {
        static NONE: LazyLock<ResourcePath> = LazyLock::new(ResourcePath::default);
        match self {
            Self::Resource(path) => path,
            Self::Other(_) | Self::Undeterminable => &NONE,
        }
    }

    /// Returns the path of the resource, or an empty path for other targets.
    pub fn into_resource(self) -> ResourcePath {
        match self {
            Self::Resource(path) => path,
            Self::Other(_) | Self::Undeterminable => ResourcePath::default(),
        }
    }

    /// Parses a path. The path is decoded before it is split, so `%2F` also separates segments.
    pub fn parse(path: &str) -> Self {
        let decoded = decoded(path);
        let trimmed = decoded.strip_prefix('/').unwrap_or(&decoded);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let parts: Vec<&str> = trimmed.split('/').collect();
        let (group, tail) = match parts[..] {
            ["api", _, _, ..] => ("", &parts[1..]),
            ["apis", group, _, _, ..] => (group, &parts[2..]),
            _ => return Self::Other(parts.into_iter().map(Into::into).collect()),
        };
        ResourcePath::parse(group, tail).map_or(Self::Undeterminable, Self::Resource)
    }
}

impl ResourcePath {
    /// Parses the path segments after the group. The first segment is the version, and at least one more segment must
    /// follow.
    fn parse(group: &str, parts: &[&str]) -> Option<Self> {
        let mut path = Self { group: group.into(), version: parts[0].into(), ..Self::default() };
        let mut parts = &parts[1..];
        (path.old_watch, path.old_proxy) = (parts[0] == "watch", parts[0] == "proxy");
        if path.old_watch || path.old_proxy {
            parts = &parts[1..];
        }
        let first = parts.first()?;
        if *first == "namespaces" && parts.len() > 1 {
            path.namespace = parts[1].into();
            let is_subresource = matches!(parts.get(2), None | Some(&("status" | "finalize")));
            if !is_subresource {
                path.in_namespace = true;
                parts = &parts[2..];
            }
        }
        let mut parts = parts.iter().map(|part| (*part).to_owned());
        path.resource = parts.next().unwrap_or_default();
        path.name = parts.next().unwrap_or_default();
        path.subresource = parts.next().filter(|_| !path.old_proxy).unwrap_or_default();
        path.rest = parts.collect();
        Some(path)
    }

    /// Returns the resource with its subresource, such as `pods/status`. Messages and RBAC rules use this form.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: [&str; 6]) {
        let Target::Resource(read) = Target::parse(path) else { panic!("{path} is a resource") };
        let ResourcePath { group, version, namespace, resource, name, subresource, .. } = &read;
        assert_eq!([group, version, namespace, resource, name, subresource].map(String::as_str), expected, "{path}");
    }

    #[test]
    fn path_segments_are_assigned_to_their_fields() {
        check("/api/v1/pods", ["", "v1", "", "pods", "", ""]);
        check("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]);
        check("/api/v1/namespaces/a", ["", "v1", "a", "namespaces", "a", ""]);
        check("/api/v1/namespaces/a/status", ["", "v1", "a", "namespaces", "a", "status"]);
        check("/api/v1/namespaces/a/finalize", ["", "v1", "a", "namespaces", "a", "finalize"]);
        check("/api/v1/namespaces/a/pods", ["", "v1", "a", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/", ["", "v1", "a", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/b/log", ["", "v1", "a", "pods", "b", "log"]);
        check("/api/v1//configmaps", ["", "v1", "", "", "configmaps", ""]);
        check("/apis/apps/v1/namespaces/a/deployments/b/scale", ["apps", "v1", "a", "deployments", "b", "scale"]);
        check("/api/v1/namespaces/a/config%6daps/a%2Fb", ["", "v1", "a", "configmaps", "a", "b"]);
        check("/api/v1/watch/namespaces/a/pods", ["", "v1", "a", "pods", "", ""]);
        check("/api/v1/proxy/namespaces/a/pods/b/log/c", ["", "v1", "a", "pods", "b", ""]);
    }

    #[test]
    fn short_paths_are_not_resources() {
        for path in ["/", "/api", "/api/v1", "/api/v1/", "/apis/apps", "/apis/apps/v1", "/version", "//api/v1/pods"] {
            assert!(matches!(Target::parse(path), Target::Other(_)), "{path}");
        }
        assert_eq!(Target::parse("/api/v1/watch"), Target::Undeterminable);
        assert_eq!(Target::parse("/apis/apps/v1/proxy/"), Target::Undeterminable);
    }
}
