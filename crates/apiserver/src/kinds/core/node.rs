//! Node.

use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::networking::is_cidr;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy, warnings};
use crate::object::{condition, default, doubles, has, is_true, list, member, set, text_at};
use crate::request::Part;
use crate::validate::{FaultReason, FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::{Json, Text, json};

/// `v1` Node.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Node;

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
    fn keeps_sent_status(&self) -> bool {
        true
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, part: Part) -> Vec<String> {
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

    fn defaults(&self, object: &mut Json) {
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

    fn admit(&self, _: &Context<'_>, object: &mut Json, old: Option<&Json>, _: Part) -> Outcome<()> {
        let taint = "node.kubernetes.io/not-ready";
        let there = list(object, "/spec/taints").any(|known| text_at(known, "/key") == taint);
        if old.is_none() && !there {
            let mut taints: Vec<Json> = list(object, "/spec/taints").cloned().collect();
            taints.push(json!({"key": taint, "effect": "NoSchedule"}));
            if let Some(spec) = member(object, "spec") {
                set(spec, "taints", taints.into());
            }
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let taints = list(object, "/spec/taints").map(|taint| (text_at(taint, "/key"), text_at(taint, "/effect")));
        let doubles = doubles(taints);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let ranges: Vec<_> = list(object, "/spec/podCIDRs").filter_map(Json::as_str).collect();
        let spec = object.get("spec").unwrap_or(&Json::Null);
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

    fn field(&self, object: &Json, label: &str) -> Option<String> {
        (label == "spec.unschedulable").then(|| is_true(object, "/spec/unschedulable").to_string())
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, \
             Kernel-Version*, Container-Runtime*",
        )
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let ready = condition(object, "Ready");
        let mut status = match ready {
            Some(ready) if text_at(ready, "/status") == "True" => "Ready".to_owned(),
            Some(_) => "NotReady".to_owned(),
            None => "Unknown".to_owned(),
        };
        if is_true(object, "/spec/unschedulable") {
            status.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            let found = list(object, "/status/addresses").find(|address| text_at(address, "/type") == kind);
            found.map_or_else(|| "<none>".into(), |address| Json::from(text_at(address, "/address")))
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
            row.name(),
            status.into(),
            roles(object).into(),
            row.age(),
            row.text("/status/nodeInfo/kubeletVersion"),
            address("InternalIP"),
            address("ExternalIP"),
            info("osImage").into(),
            kernel.into(),
            info("containerRuntimeVersion").into(),
        ]
    }
}

fn roles(object: &Json) -> String {
    let labels = object.at("/metadata/labels").and_then(Json::as_object).into_iter().flatten();
    let role = |(key, value): (&Text, &Json)| match (key.strip_prefix("node-role.kubernetes.io/"), key.as_str()) {
        (Some(role), _) => Some(role.to_owned()),
        (None, "kubernetes.io/role") => value.as_str().map(Into::into),
        _ => None,
    };
    let roles: std::collections::BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}
