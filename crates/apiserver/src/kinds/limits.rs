//! Limits and quotas as objects; what they let through is the matter of [`admission`](crate::admission).

use serde_json::{Value, json};

use super::check::Check;
use super::{Context, Strategy};
use crate::object::{items, list, member, set, text_at};
use crate::request::Part;
use crate::schema::quantity;
use crate::validate::{FieldFault, qualified_name_faults};

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

/// `v1` LimitRange.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = member(object, "spec") else { return };
        for limit in items(spec, "limits").filter(|limit| text_at(limit, "/type") == "Container") {
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                let amounts = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
                for (resource, amount) in amounts {
                    if let Some(to) = member(limit, to) {
                        crate::object::default(to, &resource, amount);
                    }
                }
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object).each("spec.limits", |limit, _| one_limit(limit)).done()
    }
}

fn one_limit(limit: Check<'_>) -> Check<'_> {
    let object = limit.object();
    let kind = text_at(object, "/type");
    let known = ["Container", "PersistentVolumeClaim", "Pod"].contains(&kind);
    let why = if known { Vec::new() } else { qualified_name_faults(kind) };
    let mut limit =
        why.iter().fold(limit, |check, why| check.refuse(true, || FieldFault::invalid_text("type", kind, why)));
    if kind == "Pod" {
        for key in ["default", "defaultRequest"] {
            let there = object.get(key).is_some_and(|amounts| !crate::object::is_empty(amounts));
            let fault = || FieldFault::forbidden(key, "may not be specified when `type` is 'Pod'");
            limit = limit.refuse(there, fault);
        }
    }
    let mut resources: Vec<&String> = Vec::new();
    for key in ["max", "min", "default", "defaultRequest"] {
        resources.extend(object.get(key).and_then(Value::as_object).into_iter().flat_map(|amounts| amounts.keys()));
    }
    resources.sort();
    resources.dedup();
    for resource in resources {
        let amount = |key: &str| object.get(key).and_then(|amounts| amounts.get(resource)).and_then(Value::as_str);
        // The value that is told is not always that of the field.
        for (smaller, greater, field, shown, words) in [
            ("min", "max", "min", "min", "min value"),
            ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value"),
            ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value"),
            ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value"),
            ("min", "default", "default", "min", "min value"),
            ("default", "max", "default", "max", "default value"),
        ] {
            let (Some(small), Some(great)) = (amount(smaller), amount(greater)) else { continue };
            if quantity::nanos(small) <= quantity::nanos(great) {
                continue;
            }
            let other = match greater {
                "max" => "max value",
                "default" => "default value",
                _ => "default request value",
            };
            let why = format!("{words} {small} is greater than {other} {great}");
            let value = amount(shown).unwrap_or_default();
            limit = limit.refuse(true, || FieldFault::invalid_text(format!("{field}[{resource}]"), value, why));
        }
    }
    limit
}

/// What both requests and limits are counted of.
const REQUESTED: &[&str] = &["cpu", "memory", "storage", "ephemeral-storage"];

/// A quota whose requests may be more than its limits.
fn more_than_allowed(quota: &Value, resource: &str) -> Option<String> {
    let hard = quota.pointer("/spec/hard")?;
    let there = |key: &String| hard.get(key).is_some();
    let bare = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
    let requests = Some(format!("requests.{resource}")).filter(there).or(bare.filter(there))?;
    let limits = format!("limits.{resource}");
    let (request, limit) = (text_at(hard, &format!("/{requests}")), hard.get(&limits)?.as_str()?);
    let (request, limit) = (quantity::canonical(request)?, quantity::canonical(limit)?);
    let more = quantity::nanos(&request)? > quantity::nanos(&limit)?;
    more.then(|| format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

/// `v1` ResourceQuota.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => REQUESTED.iter().filter_map(|resource| more_than_allowed(object, resource)).collect(),
            Some(_) => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Value) {
        member(object, "spec");
        member(object, "status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        for (resource, amount) in object.pointer("/spec/hard").and_then(Value::as_object).into_iter().flatten() {
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
        let odd = list(object, "/spec/scopes").any(|scope| !scope.as_str().is_some_and(|scope| MODES.contains(&scope)));
        if odd {
            let scopes = object.pointer("/spec/scopes").cloned().unwrap_or_default();
            faults.push(FieldFault::invalid("spec.scopes", &scopes, "unsupported scope"));
        }
        faults
    }

    fn validate_update(&self, new: &Value, _: &Value, part: Part) -> Vec<FieldFault> {
        if part != Part::Object { Vec::new() } else { self.validate_create(new) }
    }
}
