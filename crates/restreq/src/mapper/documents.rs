//! The two formats of discovery documents. An aggregated document describes many groups, whereas an unaggregated
//! document describes one group version.

use pintle_meta::__private::or_empty;
use pintle_meta::{ApiResource, GroupVersion, Scope};
use serde::Deserialize;

use super::DiscoveredResource;

/// The response to a request for `/api` or `/apis`.
#[derive(Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Root {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated(Aggregated),
    #[serde(rename = "APIVersions")]
    Core(CoreVersions),
    #[serde(rename = "APIGroupList")]
    Groups(Groups),
}

#[derive(Deserialize)]
pub(super) struct Aggregated {
    #[serde(default, deserialize_with = "or_empty")]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default, deserialize_with = "or_empty")]
    metadata: GroupName,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default, deserialize_with = "or_empty")]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    /// The kind of the objects, or `None` if an aggregated API server does not send the kind.
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

#[derive(Deserialize)]
struct AggregatedSubresource {
    subresource: String,
}

impl Aggregated {
    pub(super) fn resources(self) -> (Vec<DiscoveredResource>, Vec<GroupVersion>) {
        let (mut resources, mut missing) = (Vec::new(), Vec::new());
        for group in self.items {
            for version in group.versions {
                let group_version = GroupVersion::new(&group.metadata.name, &version.version);
                if version.freshness == "Stale" && version.resources.is_empty() {
                    missing.push(group_version);
                    continue;
                }
                resources.extend(version.resources.into_iter().filter_map(|entry| entry.discovered(&group_version)));
            }
        }
        (resources, missing)
    }
}

impl AggregatedResource {
    fn discovered(self, group_version: &GroupVersion) -> Option<DiscoveredResource> {
        let scope = if self.scope == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        let kind = self.response_kind?.kind;
        Some(DiscoveredResource {
            resource: ApiResource { group_version: group_version.clone(), kind, plural: self.resource, scope },
            singular: self.singular_resource,
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: self.subresources.into_iter().map(|entry| entry.subresource).collect(),
        })
    }
}

/// The response to a request for `/api` from a server without aggregated discovery.
#[derive(Deserialize)]
pub(super) struct CoreVersions {
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<String>,
}

impl CoreVersions {
    pub(super) fn group_versions(self) -> Vec<GroupVersion> {
        self.versions.into_iter().map(|version| GroupVersion::new("", version)).collect()
    }
}

/// The response to a request for `/apis` from a server without aggregated discovery.
#[derive(Deserialize)]
pub(super) struct Groups {
    #[serde(default, deserialize_with = "or_empty")]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<Version>,
    preferred_version: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Groups {
    pub(super) fn group_versions(self) -> Vec<GroupVersion> {
        let of_group = |group: Group| {
            let preferred = group.preferred_version.map(|version| version.version);
            let others = group.versions.into_iter().map(|version| version.version);
            let others: Vec<_> = others.filter(|version| Some(version) != preferred.as_ref()).collect();
            let versions = preferred.into_iter().chain(others);
            versions.map(|version| GroupVersion::new(&group.name, version)).collect::<Vec<_>>()
        };
        self.groups.into_iter().flat_map(of_group).collect()
    }
}

/// The response to a request for `/api/VERSION` or `/apis/GROUP/VERSION`.
#[derive(Deserialize)]
pub(super) struct Resources {
    #[serde(default, deserialize_with = "or_empty")]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    /// A resource such as `pods`, or a subresource such as `pods/status`.
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    categories: Vec<String>,
}

impl Resources {
    pub(super) fn resources(self, group_version: &GroupVersion) -> Vec<DiscoveredResource> {
        let (whole, parts): (Vec<_>, Vec<_>) = self.resources.into_iter().partition(|entry| !entry.name.contains('/'));
        let discovered = |entry: Resource| {
            let subresource = |part: &Resource| {
                let (name, subresource) = part.name.split_once('/')?;
                (name == entry.name).then(|| subresource.to_owned())
            };
            let subresources = parts.iter().filter_map(subresource).collect();
            let scope = if entry.namespaced { Scope::Namespaced } else { Scope::Cluster };
            DiscoveredResource {
                resource: ApiResource {
                    group_version: group_version.clone(),
                    kind: entry.kind,
                    plural: entry.name,
                    scope,
                },
                singular: entry.singular_name,
                short_names: entry.short_names,
                categories: entry.categories,
                verbs: entry.verbs,
                subresources,
            }
        };
        whole.into_iter().map(discovered).collect()
    }
}
