//! The admission plugin RuntimeClass, which sets the overhead and node constraints of new pods.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::validate::{NameRule, name_errors};
use pintle_json::{Json, json};
use pintle_meta::GroupResource;
use pintle_schema::quantity;

use super::forbidden;

/// Applies the pod's RuntimeClass. Fails if the RuntimeClass does not exist or conflicts with the pod.
pub(super) fn admit(cluster: &dyn Cluster, pod: &mut Json) -> Outcome<()> {
    let Some(class) = class_of(cluster, pod)? else { return Ok(()) };
    if class.has("/overhead") {
        if !amounts(pod, "/spec/overhead").is_empty() {
            compare_overhead(pod, Some(&class))?;
        }
        if let (Some(fixed), Some(spec)) = (class.at("/overhead/podFixed"), pod.member("spec")) {
            spec.set("overhead", fixed.clone());
        }
    }
    set_scheduling(pod, &class)
}

/// Returns an error if the overhead of a new pod differs from the overhead of its RuntimeClass.
pub(super) fn check_overhead(cluster: &dyn Cluster, pod: &Json) -> Outcome<()> {
    compare_overhead(pod, class_of(cluster, pod)?.as_deref())
}

fn class_of(cluster: &dyn Cluster, pod: &Json) -> Outcome<Option<Arc<Json>>> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    let faults = name_errors(NameRule::PathSegment, name, false);
    match () {
        () if name.is_empty() => Err(Failure::plain(500, "resource name may not be empty")),
        () if !faults.is_empty() => {
            Err(Failure::plain(500, format!("invalid resource name {name:?}: [{}]", faults.join(" "))))
        }
        () => {
            let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
            let missing = || forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"));
            cluster.object(&classes, "", name).ok_or_else(missing).map(Some)
        }
    }
}

fn compare_overhead(pod: &Json, class: Option<&Json>) -> Outcome<()> {
    let sent = amounts(pod, "/spec/overhead");
    match class.filter(|class| class.has("/overhead")) {
        None if !sent.is_empty() => {
            Err(forbidden(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
        }
        Some(class) if sent != amounts(class, "/overhead/podFixed") => {
            Err(forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
        }
        _ => Ok(()),
    }
}

/// Parses quantities for a comparison, because one quantity can have several text forms.
fn amounts<'a>(object: &'a Json, pointer: &str) -> BTreeMap<&'a str, Option<i128>> {
    let members = object.members(pointer);
    members.map(|(name, amount)| (name.as_str(), amount.as_str().and_then(quantity::nanos))).collect()
}

fn set_scheduling(pod: &mut Json, class: &Json) -> Outcome<()> {
    let selector = class.members("/scheduling/nodeSelector");
    let mut selected = pod["spec"]["nodeSelector"].as_object().cloned().unwrap_or_default();
    for (key, value) in selector {
        let known = selected.insert(key.clone(), value.clone());
        if let Some(known) = known.filter(|known| known != value) {
            let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
            let (class, pod_has) = (text(value), text(&known));
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {class}; pod.spec.nodeSelector[{key}] = {pod_has}"
            );
            return Err(forbidden(pod, &why));
        }
    }
    let mut seen = HashSet::new();
    let both = pod.list("/spec/tolerations").chain(class.list("/scheduling/tolerations"));
    let tolerations: Vec<Json> = both.filter(|toleration| seen.insert(toleration.to_string())).cloned().collect();
    if let Some(spec) = pod.member("spec") {
        if !selected.is_empty() {
            spec.set("nodeSelector", selected);
        }
        if !tolerations.is_empty() {
            spec.set("tolerations", json!(tolerations));
        }
    }
    Ok(())
}
