//! Validates updates of pods and their subresources, and determines the fields that an update may change.

use std::collections::HashSet;

use pintle_apimachinery::object::restore_except;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::{Json, json};

use super::status_resources::by_name;
use super::{gated, resize, spec};
use super::{status_errors, status_resources};

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn keep_class(pod: &mut Json, old: &Json) {
    let class = old.at("/status/qosClass").cloned();
    let Some(status) = pod.get_mut("status") else { return };
    if let (Some(class), true) = (class, status.text("/qosClass").is_empty()) {
        status.set("qosClass", class);
    }
}

/// Synchronizes `podIP` with the first item of `podIPs`, but keeps a `podIP` that differs.
pub(super) fn complete_addresses(pod: &mut Json) {
    let Some(status) = pod.get_mut("status") else { return };
    let first = status.list("/podIPs").next().map(|address| address.text("/ip").to_owned());
    match (status.text("/podIP").to_owned(), first) {
        (address, None) if !address.is_empty() => status.set("podIPs", json!([{"ip": address}])),
        (address, Some(first)) if address.is_empty() => status.set("podIP", first),
        (address, Some(first)) if address != first => status.set("podIPs", json!([{"ip": address}])),
        _ => {}
    }
}

/// Restores everything except the ephemeral containers from the old object.
pub(super) fn take_ephemeral_containers(pod: &mut Json, old: &Json) {
    let containers = pod.at("/spec/ephemeralContainers").cloned();
    restore_except(pod, old, &["apiVersion", "kind", "metadata"]);
    if let Some(spec) = pod.get_mut("spec") {
        match containers {
            Some(containers) => spec.set("ephemeralContainers", containers),
            None => spec.unset("ephemeralContainers"),
        }
    }
}

pub(super) fn errors(new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
    match subresource {
        Subresource::None => spec_errors(new, old),
        Subresource::Status => status_errors(new, old),
        Subresource::EphemeralContainers => ephemeral_errors(new, old),
        Subresource::Resize => resize::errors(new, old),
        _ => FieldErrors::default(),
    }
}

fn ephemeral_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = spec::pod(new);
    let now = by_name(new, "/spec/ephemeralContainers");
    for container in old.list("/spec/ephemeralContainers") {
        let name = container.text("/name");
        let why = match now.get(name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(now) if *now != container => format!("existing ephemeral containers {name:?} may not be changed\n"),
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
    errors
}

fn spec_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = spec::pod(new);
    for key in ["containers", "initContainers"] {
        let images = |pod: &Json| {
            pod.list(&format!("/spec/{key}")).map(|container| container.text("/image").to_owned()).collect::<Vec<_>>()
        };
        let images_of = (images(new), images(old));
        if images_of.0.len() != images_of.1.len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{key}"), why));
            return errors;
        }
        // kube-apiserver validates images twice: once as mutable fields, and once with the container.
        for (at, image) in images_of.0.iter().enumerate() {
            let field = format!("spec.{key}[{at}].image");
            errors.required_if(image.is_empty(), &field, "");
            errors.invalid_text_if(image.trim() != image, field, image, "must not have leading or trailing whitespace");
        }
    }
    let (deadline, is_over) = deadline_error(new, old);
    errors.extend(deadline);
    if is_over {
        return errors;
    }
    let tolerations: HashSet<Json> = new.list("/spec/tolerations").map(without_seconds).collect();
    if !old.list("/spec/tolerations").all(|toleration| tolerations.contains(&without_seconds(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", why));
    }
    let gates: HashSet<&str> = old.list("/spec/schedulingGates").map(|gate| gate.text("/name")).collect();
    for (at, gate) in new.list("/spec/schedulingGates").map(|gate| gate.text("/name")).enumerate() {
        if !gates.contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.push(FieldError::forbidden(format!("spec.schedulingGates[{at}].name"), why));
        }
    }
    // Allow stricter node constraints while the pod has scheduling gates.
    let is_gated = !gates.is_empty();
    if is_gated {
        errors.extend(gated::errors(new, old));
    }
    let fixed = |pod: &Json| {
        let mut spec = pod["spec"].clone();
        for key in ["containers", "initContainers"] {
            spec.items_mut(key).for_each(|container| container.set("image", Json::Null));
        }
        for key in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"] {
            spec.set(key, Json::Null);
        }
        if is_gated {
            gated::remove_narrowable(&mut spec);
        }
        spec
    };
    let grace = |pod: &Json| pod.integer("/spec/terminationGracePeriodSeconds");
    let grace_changed = grace(new) != grace(old) && !(grace(new) == Some(1) && grace(old).is_some_and(|old| old < 0));
    errors.forbidden_if(fixed(new) != fixed(old) || grace_changed, "spec", FIXED);
    errors
}

/// Validates a change of `activeDeadlineSeconds`. The returned boolean is `true` if the validation must stop after this
/// error.
fn deadline_error(new: &Json, old: &Json) -> (Option<FieldError>, bool) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    const RANGE: &str = "must be between 0 and 2147483647, inclusive";
    let deadline = |pod: &Json| pod.integer("/spec/activeDeadlineSeconds");
    let (why, is_over) = match (deadline(new), deadline(old)) {
        (None, Some(_)) => ("must not update from a positive integer to nil value", false),
        (Some(after), _) if !(0..=i64::from(i32::MAX)).contains(&after) => (RANGE, true),
        (Some(after), Some(before)) if after > before => ("must be less than or equal to previous value", true),
        _ => return (None, false),
    };
    (Some(FieldError::invalid(FIELD, &new["spec"]["activeDeadlineSeconds"], why)), is_over)
}

fn without_seconds(toleration: &Json) -> Json {
    let mut toleration = toleration.clone();
    toleration.set("tolerationSeconds", Json::Null);
    toleration
}

fn status_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = status_errors::condition_errors(new);
    let nominated = new.text("/status/nominatedNodeName");
    if nominated != old.text("/status/nominatedNodeName") && !nominated.is_empty() {
        let why = name_errors(NameRule::Subdomain, nominated, false);
        errors.extend(why.iter().map(|why| FieldError::invalid_text("status.nominatedNodeName", nominated, why)));
        let why = "may not be set on pods that are already bound to a node";
        errors.forbidden_if(!new.text("/spec/nodeName").is_empty(), "status.nominatedNodeName", why);
    }
    let observed = new.integer("/status/observedGeneration").unwrap_or(0);
    if observed < 0 {
        let why = "must be a non-negative integer";
        errors.push(FieldError::invalid("status.observedGeneration", &observed.into(), why));
    }
    let (before, after) = (old.text("/status/qosClass"), new.text("/status/qosClass"));
    if !before.is_empty() && !after.is_empty() && before != after {
        errors.push(FieldError::invalid_text("status.qosClass", after, "field is immutable"));
    }
    errors
        .and(status_errors::restart_errors(new, old))
        .and(status_resources::generated_claim_errors(new))
        .and(status_resources::extended_claim_errors(new))
        .and(status_errors::address_errors(new, old))
        .and(status_errors::user_errors(new))
        .and(status_resources::allocated_errors(new))
}
