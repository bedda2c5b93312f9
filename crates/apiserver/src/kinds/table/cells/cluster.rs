//! Table cells of nodes, quotas, bindings, and other kinds that concern the whole cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use super::size;
use crate::object::{has, integer_at, list, text, text_at};

pub(super) fn node(object: &Value, age: Value) -> Vec<Value> {
    let ready = list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == "Ready");
    let mut status = match ready {
        Some(ready) if text_at(ready, "/status") == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").find(|address| text_at(address, "/type") == kind);
        found.map_or_else(|| "<none>".into(), |address| Value::from(text_at(address, "/address")))
    };
    let info = |key: &str| match text_at(object, &format!("/status/nodeInfo/{key}")) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let kernel = match (info("kernelVersion"), text_at(object, "/status/nodeInfo/architecture")) {
        (kernel, "") => kernel,
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    vec![
        text_at(object, "/metadata/name").into(),
        status.into(),
        roles(object).into(),
        age,
        text_at(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn roles(object: &Value) -> String {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match (key.strip_prefix("node-role.kubernetes.io/"), key.as_str()) {
        (Some(role), _) => Some(role.to_owned()),
        (None, "kubernetes.io/role") => value.as_str().map(Into::into),
        _ => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

pub(super) fn quota(object: &Value, age: Value) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = object.pointer("/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".into(), |used| text(Some(used)));
        let entry = format!("{resource}: {used}/{}", text(Some(hard)));
        if resource.starts_with("limits") { limits.push(entry) } else { requests.push(entry) }
    }
    vec![text_at(object, "/metadata/name").into(), requests.join(", ").into(), limits.join(", ").into(), age]
}

pub(super) fn component(object: &Value) -> Vec<Value> {
    let healthy = list(object, "/conditions").find(|condition| text_at(condition, "/type") == "Healthy");
    let status = match healthy.map(|condition| text_at(condition, "/status")) {
        Some("True") => "Healthy",
        Some("False") => "Unhealthy",
        _ => "Unknown",
    };
    let part = |pointer: &str| Value::from(healthy.map_or("", |condition| text_at(condition, pointer)));
    vec![text_at(object, "/metadata/name").into(), status.into(), part("/message"), part("/error")]
}

pub(super) fn binding(object: &Value, age: Value) -> Vec<Value> {
    let role = format!("{}/{}", text_at(object, "/roleRef/kind"), text_at(object, "/roleRef/name"));
    let of_kind = |kind: &str| {
        let subjects = list(object, "/subjects").filter(|subject| text_at(subject, "/kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text_at(subject, "/namespace"), text_at(subject, "/name")),
            _ => text_at(subject, "/name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        text_at(object, "/metadata/name").into(),
        role.into(),
        age,
        of_kind("User"),
        of_kind("Group"),
        of_kind("ServiceAccount"),
    ]
}

pub(super) fn admission(kind: &str, object: &Value, age: Value) -> Vec<Value> {
    let name = Value::from(text_at(object, "/metadata/name"));
    let count = |pointer: &str| Value::from(object.pointer(pointer).map_or(0, size));
    let parameter = || match text_at(object, "/spec/paramKind/kind") {
        "" => Value::from("<unset>"),
        kind => format!("{}/{kind}", text_at(object, "/spec/paramKind/apiVersion")).into(),
    };
    match kind {
        "MutatingAdmissionPolicy" => vec![name, count("/spec/mutations"), parameter(), age],
        "ValidatingAdmissionPolicy" => vec![name, count("/spec/validations"), parameter(), age],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => vec![name, count("/webhooks"), age],
        _ => {
            let reference = match (text_at(object, "/spec/paramRef/namespace"), text_at(object, "/spec/paramRef/name"))
            {
                ("", "") => "<unset>".into(),
                ("", name) => name.into(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            vec![name, text_at(object, "/spec/policyName").into(), reference.into(), age]
        }
    }
}

pub(super) fn api_service(object: &Value, age: Value) -> Vec<Value> {
    let service = match has(object, "/spec/service") {
        true => format!("{}/{}", text_at(object, "/spec/service/namespace"), text_at(object, "/spec/service/name")),
        false => "Local".into(),
    };
    let available = list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == "Available");
    let available = available.map_or_else(
        || "Unknown".into(),
        |condition| match text_at(condition, "/status") {
            "True" => "True".to_owned(),
            status => format!("{status} ({})", text_at(condition, "/reason")),
        },
    );
    vec![text_at(object, "/metadata/name").into(), service.into(), available.into(), age]
}

pub(super) fn signing_request(object: &Value, age: Value) -> Vec<Value> {
    let holds = |kind: &str| list(object, "/status/conditions").any(|condition| text_at(condition, "/type") == kind);
    let mut condition = match () {
        () if holds("Denied") => "Denied",
        () if holds("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if holds("Failed") {
        condition.push_str(",Failed");
    }
    if !text_at(object, "/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    let wanted = integer_at(object, "/spec/expirationSeconds");
    let wanted = wanted.map_or_else(|| "<none>".into(), crate::kinds::table::durations::seconds);
    let signer = match text_at(object, "/spec/signerName") {
        "" => "<none>",
        signer => signer,
    };
    let name = text_at(object, "/metadata/name").into();
    vec![name, age, signer.into(), text_at(object, "/spec/username").into(), wanted.into(), condition.into()]
}

pub(super) fn flow_control(kind: &str, object: &Value, age: Value) -> Vec<Value> {
    let name = Value::from(text_at(object, "/metadata/name"));
    let or_none = |pointer: &str| match object.pointer(pointer) {
        Some(value) if !value.is_null() => Value::from(text(Some(value))),
        _ => Value::from("<none>"),
    };
    match kind {
        "FlowSchema" => {
            let dangling =
                list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == "Dangling");
            let missing = dangling.map_or("?", |condition| text_at(condition, "/status"));
            vec![
                name,
                text_at(object, "/spec/priorityLevelConfiguration/name").into(),
                or_none("/spec/matchingPrecedence"),
                or_none("/spec/distinguisherMethod/type"),
                age,
                missing.into(),
            ]
        }
        _ => {
            let part = |key: &str| or_none(&format!("/spec/limited/limitResponse/queuing/{key}"));
            vec![
                name,
                text_at(object, "/spec/type").into(),
                or_none("/spec/limited/nominalConcurrencyShares"),
                part("queues"),
                part("handSize"),
                part("queueLengthLimit"),
                age,
            ]
        }
    }
}

pub(super) fn devices(kind: &str, object: &Value, age: Value) -> Vec<Value> {
    let name = Value::from(text_at(object, "/metadata/name"));
    match kind {
        "ResourceClaim" => {
            let mut states = Vec::new();
            if has(object, "/metadata/deletionTimestamp") {
                states.push("deleted");
            }
            states.push(if has(object, "/status/allocation") { "allocated" } else { "pending" });
            if list(object, "/status/reservedFor").next().is_some() {
                states.push("reserved");
            }
            vec![name, states.join(",").into(), age]
        }
        "ResourceSlice" => {
            let spec = |key: &str| Value::from(text_at(object, &format!("/spec/{key}")));
            vec![name, spec("nodeName"), spec("driver"), spec("pool/name"), age]
        }
        _ => vec![name, age],
    }
}

/// What an IP address belongs to.
pub(super) fn parent(object: &Value) -> String {
    let part = |key: &str| text_at(object, &format!("/spec/parentRef/{key}"));
    let resource = if part("group").is_empty() {
        part("resource").into()
    } else {
        format!("{}.{}", part("resource"), part("group"))
    };
    let parts = [resource.as_str(), part("namespace"), part("name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
