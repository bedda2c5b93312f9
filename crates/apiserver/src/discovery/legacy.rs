//! Unaggregated discovery: one document each for the groups, a group and a version.

use pintle_json::{Json, json};

use super::{elsewhere, storage_version_hash};
use crate::kinds::{Kind, Kinds};

/// `/api`: the versions of the core group. `address` is where the server listens, as `host:port`.
pub(crate) fn api_versions(address: &str) -> Json {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all other groups.
pub(crate) fn group_list(kinds: &Kinds) -> Json {
    let groups = kinds.groups().into_iter().filter(|(group, _)| !group.is_empty());
    let groups: Vec<_> = groups.map(|(group, versions)| group_members(group, &versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(kinds: &Kinds, name: &str) -> Option<Json> {
    let (group, versions) = kinds.groups().into_iter().find(|(group, _)| *group == name && !group.is_empty())?;
    let mut value = group_members(group, &versions);
    value.set("kind", "APIGroup");
    value.set("apiVersion", "v1");
    Some(value)
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resource_list(kinds: &Kinds, group: &str, version: &str) -> Option<Json> {
    let kinds = kinds.version(group, version);
    let first = kinds.first()?;
    let group_version = first.api_version();
    let resources: Vec<_> = kinds.iter().flat_map(|kind| resources(kind)).collect();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list.set("apiVersion", "v1");
    }
    Some(list)
}

/// `/`: where else to look.
pub(crate) fn paths(kinds: &Kinds) -> Json {
    let mut paths: Vec<String> =
        ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"].map(Into::into).into();
    for (group, versions) in kinds.groups().into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"].map(Into::into),
    );
    paths.sort();
    json!({"paths": paths})
}

fn group_members(group: &str, versions: &[&str]) -> Json {
    let version = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<_> = versions.iter().map(version).collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

/// The entries of a kind: itself, and its subresources.
fn resources(kind: &Kind) -> Vec<Json> {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced(),
        "kind": kind.kind,
        "verbs": kind.shown_verbs(),
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
            "name": format!("{}/{}", kind.plural, subresource.part.name()),
            "singularName": "",
            "namespaced": kind.namespaced(),
            "kind": subresource.kind.as_ref().map_or(&kind.kind, |gvk| &gvk.kind),
            "verbs": subresource.verbs,
        });
        if let Some(gvk) = elsewhere(kind, subresource) {
            entry.set("group", gvk.group.clone());
            entry.set("version", gvk.version.clone());
        }
        entries.push(entry);
    }
    entries
}
