//! The grammar of paths.

use percent_encoding::percent_decode;

/// What a path names. Whether it exists is another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api/v1/…` or `/apis/group/version/…`.
    Resource(ResourcePath),
    /// Everything else, with its decoded parts.
    Other(Vec<String>),
    /// `/api/v1/watch`, or `/api/v1/proxy`, and nothing after it.
    Undeterminable,
}

/// `/{api/v1|apis/g/v}/[namespaces/NS/]resource[/name[/subresource]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty across namespaces and in cluster scope. A namespace's own path names itself, as authorisers want it.
    pub(crate) namespace: String,
    /// The plural.
    pub(crate) resource: String,
    /// Empty for the collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// What follows the subresource.
    pub(crate) rest: Vec<String>,
    /// The path named a namespace before the resource.
    pub(crate) in_namespace: bool,
    /// The deprecated spelling `/api/v1/watch/…`.
    pub(crate) old_watch: bool,
    /// The spelling `/api/v1/proxy/…`, which no longer leads anywhere. What follows the name is for who it is passed on to.
    pub(crate) old_proxy: bool,
}

impl Target {
    /// Reads a path. Its parts are decoded once, before they are told apart, so `%2F` separates too.
    pub(crate) fn parse(path: &str) -> Self {
        let decoded = percent_decode(path.as_bytes()).decode_utf8_lossy();
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
    /// `parts` begin with the version and have at least one more.
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

    /// The resource as messages and rules name it: `pods/status`.
    pub(crate) fn full_resource(&self) -> String {
        match self.subresource.is_empty() {
            true => self.resource.clone(),
            false => format!("{}/{}", self.resource, self.subresource),
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
    fn each_part_of_a_path_has_its_place() {
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
    fn short_paths_name_no_resource() {
        for path in ["/", "/api", "/api/v1", "/api/v1/", "/apis/apps", "/apis/apps/v1", "/version", "//api/v1/pods"] {
            assert!(matches!(Target::parse(path), Target::Other(_)), "{path}");
        }
        assert_eq!(Target::parse("/api/v1/watch"), Target::Undeterminable);
        assert_eq!(Target::parse("/apis/apps/v1/proxy/"), Target::Undeterminable);
    }
}
