//! What the rows of the built-in kinds say.

mod cluster;
mod events;
mod networking;
mod pods;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::durations;
use crate::object::{integer_at, list, text_at};

/// The cells of one row of a built-in kind, as many as it has columns. `object` is in the served version.
pub(crate) fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = || Value::from(text_at(object, "/metadata/name"));
    let age = || Value::from(since(object.pointer("/metadata/creationTimestamp"), now, "<unknown>"));
    let count = |pointer: &str| object.pointer(pointer).map_or(0, size);
    let text = |pointer: &str| Value::from(text_at(object, pointer));
    match (group, kind) {
        ("", "Pod") => pods::cells(object, now),
        ("", "Event") => events::cells(object, now),
        ("events.k8s.io", "Event") => events::new_cells(object, now),
        ("", "Node") => cluster::node(object, age()),
        ("", "Service") => networking::service(object, age()),
        ("", "Endpoints") => vec![name(), networking::endpoints(object), age()],
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object, age()),
        ("networking.k8s.io", "Ingress") => networking::ingress(object, age()),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object, age()),
        ("networking.k8s.io", "NetworkPolicy") => {
            vec![name(), selector(object.pointer("/spec/podSelector")).into(), age()]
        }
        ("networking.k8s.io", "IPAddress") => vec![name(), cluster::parent(object).into()],
        ("networking.k8s.io", "ServiceCIDR") => vec![name(), joined(object, "/spec/cidrs", ",").into(), age()],
        ("", "PersistentVolume") => storage::volume(object, age()),
        ("", "PersistentVolumeClaim") => storage::claim(object, age()),
        ("storage.k8s.io", _) => storage::others(kind, object, age()),
        ("autoscaling", "Scale") => {
            let replicas = |pointer: &str| Value::from(integer_at(object, pointer).unwrap_or(0));
            vec![name(), replicas("/spec/replicas"), replicas("/status/replicas"), age()]
        }
        ("" | "apps" | "batch" | "autoscaling" | "policy", _) if workloads::knows(kind) => {
            workloads::cells(kind, object, now, age())
        }
        ("", "ConfigMap") => vec![name(), (count("/data") + count("/binaryData")).into(), age()],
        ("", "Secret") => vec![name(), text("/type"), count("/data").into(), age()],
        ("", "Namespace") => vec![name(), text("/status/phase"), age()],
        ("", "ServiceAccount") => vec![name(), age()],
        ("", "ResourceQuota") => cluster::quota(object, age()),
        ("", "PodTemplate") => {
            let (names, images) = workloads::containers(object.pointer("/template/spec"));
            let labels = labels(object.pointer("/template/metadata/labels"));
            vec![name(), names.into(), images.into(), labels.into()]
        }
        ("", "ComponentStatus") => cluster::component(object),
        ("coordination.k8s.io", "Lease") => vec![name(), text("/spec/holderIdentity"), age()],
        ("node.k8s.io", "RuntimeClass") => vec![name(), text("/handler"), age()],
        ("scheduling.k8s.io", "PriorityClass") => {
            let default = object.get("globalDefault") == Some(&Value::Bool(true));
            vec![
                name(),
                integer_at(object, "/value").unwrap_or(0).into(),
                default.into(),
                age(),
                text("/preemptionPolicy"),
            ]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::binding(object, age()),
        ("admissionregistration.k8s.io", _) => cluster::admission(kind, object, age()),
        ("apiregistration.k8s.io", _) => cluster::api_service(object, age()),
        ("certificates.k8s.io", _) => cluster::signing_request(object, age()),
        ("flowcontrol.apiserver.k8s.io", _) => cluster::flow_control(kind, object, age()),
        ("resource.k8s.io", _) => cluster::devices(kind, object, age()),
        _ => vec![name(), json!(text_at(object, "/metadata/creationTimestamp"))],
    }
}

/// How long ago a time is.
fn since(time: Option<&Value>, now: Timestamp, unset: &str) -> String {
    let time = time.and_then(Value::as_str).and_then(|time| time.parse::<Timestamp>().ok());
    time.map_or_else(|| unset.into(), |time| durations::age(time, now))
}

/// How many members or items.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// The texts of a list, with something between them.
fn joined(object: &Value, pointer: &str, between: &str) -> String {
    list(object, pointer).filter_map(Value::as_str).collect::<Vec<_>>().join(between)
}

/// Some of many: the first three, and how many more.
fn some(items: &[String], count: usize) -> String {
    match items.is_empty() {
        true => "<none>".into(),
        false if count > items.len() => format!("{} + {} more...", items.join(","), count - items.len()),
        false => items.join(","),
    }
}

/// A map of labels as a text.
fn labels(labels: Option<&Value>) -> String {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<_> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

/// A structured selector as a text.
fn selector(selector: Option<&Value>) -> String {
    let text = selector.map(crate::kinds::selector_text).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text }
}

/// A boolean as Go prints it.
fn boolean(value: Option<&Value>) -> Value {
    let text = match value {
        Some(Value::Bool(true)) => "true",
        Some(Value::Bool(false)) => "false",
        _ => "<unset>",
    };
    text.into()
}
