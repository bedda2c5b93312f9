//! Kinds of the core group that live outside namespaces.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::check::Check;
use super::core::add_finalizer;
use super::{Context, Strategy, warnings};
use crate::object::{default, doubles, has, list, member, set, text_at};
use crate::request::Part;
use crate::validate::{FaultReason, FieldFault, NameRule};

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
    fn warnings(&self, object: &Value, _: Option<&Value>, part: Part) -> Vec<String> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut found = Vec::new();
        if has(object, "/spec/configSource") {
            found.push("spec.configSource: the feature is removed".into());
        }
        if !text_at(object, "/spec/externalID").is_empty() {
            found.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".into());
        }
        found.extend(warnings::blocks(object, "/spec/podCIDRs", "spec.podCIDRs"));
        found
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            let first = text_at(spec, "/podCIDR").to_owned();
            if !first.is_empty() {
                default(spec, "podCIDRs", json!([first]));
            }
        }
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
        _: Part,
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

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let taints = list(object, "/spec/taints").map(|taint| (text_at(taint, "/key"), text_at(taint, "/effect")));
        let doubles = doubles(taints);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let ranges: Vec<_> = list(object, "/spec/podCIDRs").filter_map(Value::as_str).collect();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut faults = Check::at(spec, "metadata")
            .each("taints", |taint, at| {
                let value = taint.object();
                taint.required("key").required("effect").one_of("effect", &effects).refuse(doubles[at], || {
                    let message = format!("Duplicate value: {value}: taints must be unique by key and effect pair");
                    FieldFault::new(FaultReason::Duplicate, "", message)
                })
            })
            .done();
        for (at, range) in ranges.iter().enumerate().filter(|(_, range)| !is_cidr(range)) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            faults.push(FieldFault::invalid_text(format!("spec.podCIDRs[{at}]"), range, why));
        }
        faults
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.unschedulable"])
    }

    fn field(&self, object: &Value, label: &str) -> Option<String> {
        (label == "spec.unschedulable")
            .then(|| (object.pointer("/spec/unschedulable") == Some(&Value::Bool(true))).to_string())
    }
}

/// The annotation that named the storage class before there was a field.
pub(super) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// `v1` PersistentVolume.
#[derive(Clone, Copy, Debug)]
pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn warnings(&self, object: &Value, _: Option<&Value>, part: Part) -> Vec<String> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (key, why) in [
            (BETA_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
            (
                "volume.beta.kubernetes.io/mount-options",
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ),
        ] {
            if warnings::is_annotated(object, key) {
                found.push(format!("metadata.annotations[{key}]: {why}"));
            }
        }
        if text_at(object, "/spec/persistentVolumeReclaimPolicy") == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            found.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
        }
        for (at, term) in list(object, "/spec/nodeAffinity/required/nodeSelectorTerms").enumerate() {
            let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{at}]");
            found.extend(warnings::selector_term(term, &path, false));
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let plugins = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
        found.extend(plugins.iter().filter_map(|plugin| warnings::plugin(spec, plugin, "spec")));
        found
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default(spec, "persistentVolumeReclaimPolicy", "Retain");
            default(spec, "volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath") {
                default(path, "type", "");
            }
        }
        if let Some(status) = member(object, "status")
            && text_at(status, "/phase").is_empty()
        {
            set(status, "phase", "Pending".into());
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": context.time()}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Value, old: &Value, part: Part) {
        if part == Part::Status
            && text_at(new, "/status/phase") != text_at(old, "/status/phase")
            && let Some(status) = new.get_mut("status")
        {
            let sent = text_at(status, "/lastPhaseTransitionTime") != text_at(old, "/status/lastPhaseTransitionTime");
            if !sent || !has(status, "/lastPhaseTransitionTime") {
                set(status, "lastPhaseTransitionTime", context.time().into());
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        let odd =
            list(object, "/spec/accessModes").find(|mode| !mode.as_str().is_some_and(|mode| modes.contains(&mode)));
        let capacity = object.pointer("/spec/capacity").filter(|capacity| !crate::object::is_empty(capacity));
        let storage = has(object, "/spec/capacity/storage");
        let there = sources(object);
        let check = Check::of(object)
            .required("spec.accessModes")
            .refuse(odd.is_some(), || FieldFault::unsupported("spec.accessModes", odd.unwrap_or(&Value::Null), &modes))
            .required("spec.capacity")
            .refuse(!storage, || {
                let value = capacity.unwrap_or(&Value::Null);
                FieldFault::unsupported("spec.capacity", value, &["storage"])
            });
        let check = there.iter().skip(1).fold(check, |check, (source, _)| {
            let field = format!("spec.{source}");
            check.refuse(true, || FieldFault::forbidden(field, "may not specify more than 1 volume type"))
        });
        check
            .refuse(there.is_empty(), || FieldFault::required("spec", "must specify a volume type"))
            .one_of("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"])
            .one_of("spec.volumeMode", &["Block", "Filesystem"])
            .name("spec.storageClassName", NameRule::Subdomain)
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut faults = self.validate_create(new);
        if sources(new) != sources(old) {
            let why = "spec.persistentvolumesource is immutable after creation";
            faults.push(FieldFault::forbidden("spec.persistentvolumesource", why));
        }
        if text_at(new, "/spec/volumeMode") != text_at(old, "/spec/volumeMode") {
            let mode = text_at(new, "/spec/volumeMode");
            faults.push(FieldFault::invalid_text("volumeMode", mode, "field is immutable"));
        }
        faults
    }

    fn admit(
        &self,
        _: &Context<'_>,
        object: &mut Value,
        old: Option<&Value>,
        _: Part,
    ) -> Result<(), Box<pintle_meta::Status>> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        Ok(())
    }
}

/// The members of a volume's spec that say where it is stored.
fn sources(object: &Value) -> Vec<(&String, &Value)> {
    const OTHERS: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let members = object.get("spec").and_then(Value::as_object).into_iter().flatten();
    members.filter(|(key, value)| !OTHERS.contains(&key.as_str()) && !value.is_null()).collect()
}

/// Whether a text is a range of addresses.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}
