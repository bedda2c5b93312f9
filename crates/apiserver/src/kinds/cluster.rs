//! Kinds of the core group that live outside namespaces.

use serde_json::{Value, json};

use super::core::add_finalizer;
use super::edit::{default, has, list, member, set, text_at};
use super::{Context, Strategy};

/// `v1` Node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node;

const NODE_INFO: &[&str] = &[
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

impl Strategy for Node {
    fn defaults(&self, object: &mut Value) {
        member(object, "spec");
        let Some(status) = member(object, "status") else { return };
        if let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned() {
            default(status, "allocatable", capacity);
        }
        if let Some(endpoint) =
            member(status, "daemonEndpoints").and_then(|endpoints| member(endpoints, "kubeletEndpoint"))
        {
            default(endpoint, "Port", 0);
        }
        if let Some(info) = member(status, "nodeInfo") {
            NODE_INFO.iter().for_each(|key| default(info, key, ""));
        }
    }

    fn admit(
        &self,
        _: &Context<'_>,
        object: &mut Value,
        old: Option<&Value>,
        _: Option<&str>,
    ) -> Result<(), Box<pintle_meta::Status>> {
        let taint = "node.kubernetes.io/not-ready";
        let there = list(object, "/spec/taints").any(|known| text_at(known, "/key") == taint);
        if old.is_none() && !there {
            let mut taints: Vec<Value> = list(object, "/spec/taints").cloned().collect();
            taints.push(json!({"key": taint, "effect": "NoSchedule"}));
            if let Some(spec) = member(object, "spec") {
                set(spec, "taints", taints.into());
            }
        }
        Ok(())
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.unschedulable"])
    }

    fn field(&self, object: &Value, label: &str) -> Option<String> {
        (label == "spec.unschedulable")
            .then(|| (object.pointer("/spec/unschedulable") == Some(&Value::Bool(true))).to_string())
    }
}

/// `v1` PersistentVolume.
#[derive(Clone, Copy, Debug)]
pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default(spec, "persistentVolumeReclaimPolicy", "Retain");
            default(spec, "volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath") {
                default(path, "type", "");
            }
        }
        if let Some(status) = member(object, "status") {
            if text_at(status, "/phase").is_empty() {
                set(status, "phase", "Pending".into());
            }
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": context.time()}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Value, old: &Value, subresource: Option<&str>) {
        if subresource == Some("status") && text_at(new, "/status/phase") != text_at(old, "/status/phase") {
            if let Some(status) = new.get_mut("status") {
                let sent =
                    text_at(status, "/lastPhaseTransitionTime") != text_at(old, "/status/lastPhaseTransitionTime");
                if !sent || !has(status, "/lastPhaseTransitionTime") {
                    set(status, "lastPhaseTransitionTime", context.time().into());
                }
            }
        }
    }

    fn admit(
        &self,
        _: &Context<'_>,
        object: &mut Value,
        old: Option<&Value>,
        _: Option<&str>,
    ) -> Result<(), Box<pintle_meta::Status>> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        Ok(())
    }
}
