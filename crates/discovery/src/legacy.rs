//! Unaggregated discovery, which has separate documents for the list of groups, each group and each version.

use pintle_json::{Json, json};
use pintle_kinds::{Group, Kind, Kinds};
use pintle_meta::GroupVersion;

use super::{foreign_gvk, storage_version_hash};

/// Returns the document of `/api`, with the versions of the core group. `address` is the server's `host:port`.
pub fn api_versions(address: &str) -> Json {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

pub(crate) fn group_list(kinds: &Kinds) -> Json {
    let groups = kinds.groups().filter(|(name, _)| !name.is_empty());
    let groups: Vec<_> = groups.map(|(name, group)| group_members(name, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of `/apis/GROUP`.
pub fn group(kinds: &Kinds, name: &str) -> Option<Json> {
    let group = kinds.group(name).filter(|_| !name.is_empty())?;
    let mut value = group_members(name, group);
    value.set("kind", "APIGroup");
    value.set("apiVersion", "v1");
    Some(value)
}

/// Returns the document of `/api/v1` or `/apis/GROUP/VERSION`.
pub fn resource_list(kinds: &Kinds, group: &str, version: &str) -> Option<Json> {
    let resources: Vec<_> = kinds.version(group, version)?.kinds().flat_map(|kind| resources(kind)).collect();
    let group_version = GroupVersion::new(group, version).to_string();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list.set("apiVersion", "v1");
    }
    Some(list)
}

pub(crate) fn paths(kinds: &Kinds) -> Json {
    let mut paths: Vec<String> =
        ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"].map(Into::into).into();
    for (name, group) in kinds.groups().filter(|(name, _)| !name.is_empty()) {
        paths.push(format!("/apis/{name}"));
        paths.extend(group.versions().map(|(version, _)| format!("/apis/{name}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"].map(Into::into),
    );
    paths.sort();
    json!({"paths": paths})
}

fn group_members(name: &str, group: &Group) -> Json {
    let version = |(version, _): &(&str, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<_> = group.preferred().iter().map(version).collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn resources(kind: &Kind) -> Vec<Json> {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced(),
        "kind": kind.kind,
        "verbs": kind.discovery_verbs(),
    });
    for (key, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            entry.set(key, json!(names));
        }
    }
    if let Some(hash) = storage_version_hash(kind) {
        entry.set("storageVersionHash", hash);
    }
    let mut entries = vec![entry];
    for subresource in &kind.subresources {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.subresource.name()),
            "singularName": "",
            "namespaced": kind.is_namespaced(),
            "kind": subresource.kind.as_ref().map_or(&kind.kind, |gvk| &gvk.kind),
            "verbs": subresource.verbs,
        });
        if let Some(gvk) = foreign_gvk(kind, subresource) {
            entry.set("group", gvk.group.clone());
            entry.set("version", gvk.version.clone());
        }
        entries.push(entry);
    }
    entries
}
