use serde_json::{Value, json};

use super::validate;
use crate::kinds::edit::{items, list, put_back, put_back_all_but, set, text_at};
use crate::validate::FieldFault;

/// `podIP` fills `podIPs`, and wins over their first.
pub(super) fn keep_addresses_in_step(pod: &mut Value, _old: &Value) {
    let Some(status) = pod.get_mut("status") else { return };
    let first = list(status, "/podIPs").next().map(|address| text_at(address, "/ip").to_owned());
    match (text_at(status, "/podIP").to_owned(), first) {
        (address, None) if !address.is_empty() => set(status, "podIPs", json!([{"ip": address}])),
        (address, Some(first)) if address.is_empty() => set(status, "podIP", first.into()),
        (address, Some(first)) if address != first => set(status, "podIPs", json!([{"ip": address}])),
        _ => {}
    }
}

/// Only the ephemeral containers of the new object count.
pub(super) fn take_ephemeral_containers(pod: &mut Value, old: &Value) {
    let containers = pod.pointer("/spec/ephemeralContainers").cloned();
    put_back_all_but(pod, old, &["apiVersion", "kind", "metadata"]);
    if let (Some(spec), Some(containers)) = (pod.get_mut("spec"), containers) {
        set(spec, "ephemeralContainers", containers);
    }
}

/// Only the resources of the containers count.
pub(super) fn take_resources(pod: &mut Value, old: &Value) {
    let new = pod.clone();
    put_back_all_but(pod, old, &["apiVersion", "kind", "metadata"]);
    let Some(spec) = pod.get_mut("spec") else { return };
    for key in ["containers", "initContainers"] {
        for container in items(spec, key) {
            let name = container.get("name").cloned();
            let pointer = format!("/spec/{key}");
            let sent = list(&new, &pointer).find(|sent| sent.get("name") == name.as_ref());
            if let Some(sent) = sent {
                put_back(container, sent, "resources");
                put_back(container, sent, "resizePolicy");
            }
        }
    }
}

/// What a Pod may not change.
pub(super) fn faults(new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
    match subresource {
        None => spec_faults(new, old),
        Some("status") => status_faults(new, old),
        Some("ephemeralcontainers") => validate::pod(new),
        Some(_) => Vec::new(),
    }
}

fn spec_faults(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = validate::pod(new);
    let names = |pod: &Value, pointer: &str| list(pod, pointer).count();
    for key in ["containers", "initContainers"] {
        let pointer = format!("/spec/{key}");
        if names(new, &pointer) != names(old, &pointer) {
            let why = "pod updates may not add or remove containers";
            faults.push(FieldFault::forbidden(format!("spec.{key}"), why));
            return faults;
        }
    }
    let removed = list(old, "/spec/tolerations").any(|toleration| {
        !list(new, "/spec/tolerations").any(|other| without_seconds(other) == without_seconds(toleration))
    });
    if removed {
        let tolerations = new.pointer("/spec/tolerations").cloned().unwrap_or_default();
        let why = "existing toleration can not be modified except its tolerationSeconds";
        let _ = tolerations;
        faults.push(FieldFault::forbidden("spec.tolerations", why));
    }
    let fixed = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for key in ["containers", "initContainers"] {
            items(&mut spec, key).for_each(|container| set(container, "image", Value::Null));
        }
        for key in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"] {
            set(&mut spec, key, Value::Null);
        }
        spec
    };
    let gates_added =
        list(new, "/spec/schedulingGates").any(|gate| !list(old, "/spec/schedulingGates").any(|known| known == gate));
    let grace = |pod: &Value| pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let grace_changed = grace(new) != grace(old) && !(grace(new) == Some(1) && grace(old).is_some_and(|old| old < 0));
    if fixed(new) != fixed(old) || gates_added || grace_changed {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                   `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        faults.push(FieldFault::forbidden("spec", why));
    }
    faults
}

fn without_seconds(toleration: &Value) -> Value {
    let mut toleration = toleration.clone();
    set(&mut toleration, "tolerationSeconds", Value::Null);
    toleration
}

fn status_faults(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let (before, after) = (text_at(old, "/status/qosClass"), text_at(new, "/status/qosClass"));
    if !before.is_empty() && !after.is_empty() && before != after {
        faults.push(FieldFault::invalid_text("status.qosClass", after, "field is immutable"));
    }
    if !text_at(new, "/spec/nodeName").is_empty() {
        let nominated = text_at(new, "/status/nominatedNodeName");
        if nominated != text_at(old, "/status/nominatedNodeName") && !nominated.is_empty() {
            faults.push(FieldFault::forbidden(
                "status.nominatedNodeName",
                "may not be set on pods that already have a nodeName",
            ));
        }
    }
    faults
}
