//! Aggregated discovery: a single document with all groups, versions and resources.

use pintle_json::{Json, json};
use pintle_kinds::{Kind, Kinds, Origin, VersionKinds};
use pintle_meta::Scope;

use super::foreign_gvk;

pub(crate) fn aggregated(kinds: &Kinds, core: bool) -> Json {
    let groups = kinds.groups().filter(|(name, _)| name.is_empty() == core);
    let items: Vec<_> = groups
        .map(|(name, group)| {
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            let versions: Vec<_> =
                group.preferred().into_iter().map(|(name, kinds)| one_version(name, kinds)).collect();
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn one_version(name: &str, kinds: &VersionKinds) -> Json {
    let resources: Vec<_> = kinds.kinds().map(|kind| resource(kind)).collect();
    json!({"version": name, "resources": resources, "freshness": "Current"})
}

fn resource(kind: &Kind) -> Json {
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": own_kind(kind, &kind.kind),
        "scope": if kind.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
        "singularResource": kind.singular,
        "verbs": kind.discovery_verbs(),
    });
    for (key, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            entry.set(key, json!(names));
        }
    }
    let subresources: Vec<_> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let response = match foreign_gvk(kind, subresource) {
                Some(gvk) => json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind}),
                None => own_kind(kind, subresource.kind.as_ref().map_or(&kind.kind, |gvk| &gvk.kind)),
            };
            json!({"subresource": subresource.subresource.name(), "responseKind": response, "verbs": subresource.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry.set("subresources", subresources);
    }
    entry
}

/// Returns the type of a kind in an aggregated discovery document. For a built-in kind, the group and version are
/// empty, and clients replace them with the group and version of the document.
fn own_kind(kind: &Kind, name: &str) -> Json {
    match kind.origin() {
        Origin::Custom => json!({"group": kind.group, "version": kind.version, "kind": name}),
        Origin::BuiltIn => json!({"group": "", "version": "", "kind": name}),
    }
}
