//! Quota scopes.

use pintle_json::Json;

use super::pod_usage;
use crate::Attempt;

/// Returns `true` if all scopes of the quota include the object. Only pods and PersistentVolumeClaims can be in the
/// scope of a quota.
pub(super) fn covers(quota: &Json, attempt: &Attempt<'_>, object: &Json) -> bool {
    let mut scopes = quota.list("/spec/scopes").map(|scope| (scope.as_str().unwrap_or_default(), None));
    let mut selected = quota
        .list("/spec/scopeSelector/matchExpressions")
        .map(|requirement| (requirement.text("/scopeName"), Some(requirement)));
    let is_in = |(scope, requirement): (&str, Option<&Json>)| match attempt.resource.resource.as_str() {
        _ if !attempt.resource.group.is_empty() => false,
        "pods" => pod_matches_scope(object, scope, requirement),
        "persistentvolumeclaims" if scope == "VolumeAttributesClass" => {
            matches_names(requirement, &attributes_classes(object))
        }
        _ => false,
    };
    scopes.all(is_in) && selected.all(is_in)
}

fn pod_matches_scope(pod: &Json, scope: &str, requirement: Option<&Json>) -> bool {
    let best_effort = || pod.text("/status/qosClass") == "BestEffort";
    match scope {
        "Terminating" => pod_usage::has_deadline(pod),
        "NotTerminating" => !pod_usage::has_deadline(pod),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = pod.text("/spec/priorityClassName");
            matches_names(requirement, if class.is_empty() { &[] } else { std::slice::from_ref(&class) })
        }
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        _ => false,
    }
}

/// Returns `true` if a scope requirement matches an object. `names` contains a pod's priority class or a
/// PersistentVolumeClaim's volume attributes classes. If `requirement` is `None`, the scope includes every object
/// with a class.
fn matches_names(requirement: Option<&Json>, names: &[&str]) -> bool {
    let listed = |name: &str| requirement.is_some_and(|one| one.list("/values").any(|value| value == name));
    match requirement.map_or("Exists", |requirement| requirement.text("/operator")) {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(|name| listed(name)),
        "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
        _ => false,
    }
}

fn attributes_classes(claim: &Json) -> Vec<&str> {
    let pointers = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    pointers.iter().map(|pointer| claim.text(pointer)).filter(|name| !name.is_empty()).collect()
}

fn reaches_other_namespaces(pod: &Json) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let affinity_path = |when: &str| format!("/spec/affinity/{side}/{when}DuringSchedulingIgnoredDuringExecution");
        let weighted = affinity_path("preferred");
        let preferred = pod.list(&weighted).filter_map(|weighted| weighted.get("podAffinityTerm"));
        pod.list(&affinity_path("required"))
            .chain(preferred)
            .any(|term| term.list("/namespaces").next().is_some() || term.has("/namespaceSelector"))
    })
}
