//! ResourceQuota.

use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::object::text;
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_schema::quantity;

const MODES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Resources that can be limited without being qualified.
const STANDARD: &[&str] = &[
    "configmaps",
    "count",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Of these, what is counted.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// What both requests and limits are counted of.
const REQUESTED: &[&str] = &["cpu", "memory", "storage", "ephemeral-storage"];

/// A quota whose requests may be more than its limits.
fn more_than_allowed(quota: &Json, resource: &str) -> Option<String> {
    let hard = quota.at("/spec/hard")?;
    let there = |key: &String| hard.get(key).is_some();
    let bare = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
    let requests = Some(format!("requests.{resource}")).filter(there).or(bare.filter(there))?;
    let limits = format!("limits.{resource}");
    let (request, limit) = (hard.text(&format!("/{requests}")), hard.get(&limits)?.as_str()?);
    let (request, limit) = (quantity::canonical(request)?, quantity::canonical(limit)?);
    let more = quantity::nanos(&request)? > quantity::nanos(&limit)?;
    more.then(|| format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

/// `v1` ResourceQuota.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn is_read_often(&self) -> bool {
        true
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Part) -> Vec<String> {
        match old {
            None => REQUESTED.iter().filter_map(|resource| more_than_allowed(object, resource)).collect(),
            Some(_) => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        object.member("spec");
        object.member("status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({}));
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let mut faults = FieldFaults::default();
        for (resource, amount) in object.members("/spec/hard") {
            let field = format!("spec.hard[{resource}]");
            let amount = amount.as_str().unwrap_or_default();
            let known =
                STANDARD.contains(&resource.as_str()) || resource.contains('/') || resource.contains("hugepages-");
            if !known {
                for why in
                    ["must be a standard resource type or fully qualified", "must be a standard resource for quota"]
                {
                    faults.push(FieldFault::invalid_text(field.as_str(), resource, why));
                }
            }
            let nanos = quantity::nanos(amount).unwrap_or(0);
            if nanos < 0 {
                faults.push(FieldFault::invalid_text(field.as_str(), amount, "must be greater than or equal to 0"));
            }
            if COUNTED.contains(&resource.as_str()) && nanos % 1_000_000_000 != 0 {
                faults.push(FieldFault::invalid_text(field, amount, "must be an integer"));
            }
        }
        let odd = object.list("/spec/scopes").any(|scope| !scope.as_str().is_some_and(|scope| MODES.contains(&scope)));
        if odd {
            let scopes = object["spec"]["scopes"].clone();
            faults.push(FieldFault::invalid("spec.scopes", &scopes, "unsupported scope"));
        }
        faults
    }

    fn validate_update(&self, new: &Json, _: &Json, part: Part) -> FieldFaults {
        if part != Part::Object { FieldFaults::default() } else { self.validate_create(new) }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Request, Limit, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in object.members("/status/hard") {
            let used = object.at("/status/used").and_then(|used| used.get(resource));
            let used = used.map_or_else(|| "0".into(), |used| text(Some(used)));
            let entry = format!("{resource}: {used}/{}", text(Some(hard)));
            if resource.starts_with("limits") { limits.push(entry) } else { requests.push(entry) }
        }
        vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
    }
}
