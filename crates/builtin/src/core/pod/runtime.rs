//! The admission plugin RuntimeClass, which sets the overhead and node constraints of new pods.

use std::collections::{BTreeMap, HashSet};

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::validate::{NameRule, name_errors};
use pintle_json::{Json, Map, json};
use pintle_kinds::Strategy;
use pintle_meta::GroupResource;
use pintle_schema::quantity;

use super::{Pod, forbidden};

/// Applies the pod's RuntimeClass. Fails if the RuntimeClass does not exist or conflicts with the pod.
pub(super) fn admit(context: &Context<'_>, pod: &mut Json) -> Outcome<()> {
    let class = match pod["spec"]["runtimeClassName"].as_str() {
        None => None,
        Some("") => return Err(Failure::plain(500, "resource name may not be empty")),
        Some(name) if !name_errors(NameRule::PathSegment, name, false).is_empty() => {
            return Err(invalid_name_error(name));
        }
        Some(name) => {
            let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
            let missing = || forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"));
            Some(context.cluster.object(&classes, "", name).ok_or_else(missing)?)
        }
    };
    set_overhead(pod, class.as_deref())?;
    match class {
        Some(class) => set_scheduling(pod, &class),
        None => Ok(()),
    }
}

fn invalid_name_error(name: &str) -> Failure {
    let why = name_errors(NameRule::PathSegment, name, false).join(" ");
    Failure::plain(500, format!("invalid resource name {name:?}: [{why}]"))
}

fn set_overhead(pod: &mut Json, class: Option<&Json>) -> Outcome<()> {
    let sent = pod["spec"]["overhead"].as_object().filter(|sent| !sent.is_empty());
    let given = class.and_then(|class| class.get("overhead")).filter(|given| !given.is_null());
    match (sent, given) {
        // kube-apiserver checks the overhead after the validation, so validation errors take precedence.
        (Some(_), None) if Pod.validate_create(pod).is_empty() => {
            Err(forbidden(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
        }
        (Some(sent), Some(given))
            if amounts(sent) != given["podFixed"].as_object().map(amounts).unwrap_or_default() =>
        {
            Err(forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
        }
        (_, Some(given)) if given["podFixed"].is_object() => {
            let amounts = given["podFixed"].clone();
            if let Some(spec) = pod.member("spec") {
                spec.set("overhead", amounts);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Parses quantities for a comparison, because one quantity can have several text forms.
fn amounts(amounts: &Map) -> BTreeMap<&str, Option<i128>> {
    amounts.iter().map(|(name, amount)| (name.as_str(), amount.as_str().and_then(quantity::nanos))).collect()
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
