//! The core `Node` kind.

use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::{condition, duplicates};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors, label_value_faults};
use pintle_json::{Json, Text, json};
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::{Strategy, Stream};

use super::proxy;
use crate::network_rules::cidr_errors;
use crate::resource_quantities::quantity_errors;
use crate::warnings;
use std::collections::HashSet;

pub(crate) struct Node;

impl Strategy for Node {
    fn stream(&self, subresource: Subresource) -> Option<Stream> {
        (subresource == Subresource::Proxy).then_some(proxy::OF_NODE)
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, subresource: Subresource) -> Vec<String> {
        if subresource != Subresource::None {
            return Vec::new();
        }
        let mut found = Vec::new();
        if object.has("/spec/configSource") {
            found.push("spec.configSource: the feature is removed".into());
        }
        if !object.text("/spec/externalID").is_empty() {
            found.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".into());
        }
        found.extend(warnings::blocks(object, "/spec/podCIDRs", "spec.podCIDRs"));
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            complete_ranges(spec);
        }
        if let Some(status) = object.member("status")
            && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
        {
            status.set_default("allocatable", capacity);
        }
    }

    /// Removes the fields of dynamic kubelet configuration, which Kubernetes no longer supports.
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        drop_kubelet_configuration(object, &Json::Null);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, _: Subresource) {
        drop_kubelet_configuration(new, old);
    }

    fn admit(&self, _: &dyn Cluster, object: &mut Json, old: Option<&Json>, _: Subresource) -> Outcome<()> {
        let taint = "node.kubernetes.io/not-ready";
        let there = object.list("/spec/taints").any(|known| known.text("/key") == taint);
        if old.is_none() && !there {
            let mut taints: Vec<Json> = object.list("/spec/taints").cloned().collect();
            taints.push(json!({"key": taint, "effect": "NoSchedule"}));
            if let Some(spec) = object.member("spec") {
                spec.set("taints", taints);
            }
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        taint_errors(object).and(amount_errors(object)).and(report_errors(object)).and(range_errors(object))
    }

    /// Validates an update. For a write that is not limited to the status, first applies the rules for new nodes. The
    /// update rules, which check the taints and quantities again, apply to all writes.
    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        let mut errors =
            if subresource == Subresource::Status { FieldErrors::default() } else { self.validate_create(new) };
        errors.extend(amount_errors(new).and(feature_errors(new)));
        let mut seen = HashSet::new();
        for (at, address) in new.list("/status/addresses").enumerate() {
            errors.duplicate_if(!seen.insert(address), format!("status.addresses[{at}]"), address);
        }
        errors.extend(fixed_errors(new, old));
        errors.extend(taint_errors(new));
        if new.text("/spec/externalID") != old.text("/spec/externalID") {
            errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
        }
        errors
    }

    fn field(&self, object: &Json, label: &str) -> Option<String> {
        (label == "spec.unschedulable").then(|| object.is_true("/spec/unschedulable").to_string())
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Status", Cell::Computed(ready_status)),
            ("Roles", Cell::Computed(|node| roles(node).into())),
            ("Internal-IP", Cell::Computed(|node| address(node, "InternalIP"))),
            ("External-IP", Cell::Computed(|node| address(node, "ExternalIP"))),
            ("Kernel-Version", Cell::Computed(kernel)),
        ]
    }
}

fn ready_status(node: &Json) -> Json {
    let status = match condition(node, "Ready").map(|ready| ready.text("/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node.is_true("/spec/unschedulable") { format!("{status},SchedulingDisabled").into() } else { status.into() }
}

fn address(node: &Json, kind: &str) -> Json {
    let found = node.list("/status/addresses").find(|address| address.text("/type") == kind);
    found.map_or("<none>", |address| address.text("/address")).into()
}

fn kernel(node: &Json) -> Json {
    let info = |key: &str| node.text(&format!("/status/nodeInfo/{key}"));
    let version = Some(info("kernelVersion")).filter(|version| !version.is_empty()).unwrap_or("<unknown>");
    match info("architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}

/// Removes the fields of dynamic kubelet configuration that the old object does not have.
fn drop_kubelet_configuration(object: &mut Json, old: &Json) {
    for (part, key) in [("spec", "configSource"), ("status", "config")] {
        if !old[part].has(&format!("/{key}"))
            && let Some(part) = object.get_mut(part)
        {
            part.unset(key);
        }
    }
}

/// Synchronizes `podCIDR` with the first item of `podCIDRs`. If both fields are set and differ, `podCIDR` is kept.
fn complete_ranges(spec: &mut Json) {
    let (first, single) = (spec.text("/podCIDRs/0").to_owned(), spec.text("/podCIDR").to_owned());
    match () {
        () if single == first => {}
        () if single.is_empty() => spec.set("podCIDR", first),
        () => spec.set("podCIDRs", json!([single])),
    }
}

/// Validates the taints. As in kube-apiserver, the paths of taint errors begin with `metadata`.
fn taint_errors(object: &Json) -> FieldErrors {
    let taints = object.list("/spec/taints").map(|taint| (taint.text("/key"), taint.text("/effect")));
    let duplicates = duplicates(taints);
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let check = Check::at(&object["spec"], "metadata").each("taints", |taint, at| {
        let value = taint.object();
        let text = value.text("/value");
        let why = label_value_faults(text);
        let taint = taint.qualified("key").invalid_text_if(!why.is_empty(), "value", text, why.join(";"));
        taint.required_one_of("effect", &effects).refuse(duplicates[at], || {
            let message = format!("Duplicate value: {value}: taints must be unique by key and effect pair");
            FieldError::new(FieldErrorType::Duplicate, "", message)
        })
    });
    check.done()
}

fn amount_errors(object: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for side in ["capacity", "allocatable"] {
        for (name, amount) in object.members(&format!("/status/{side}")) {
            let amount = amount.as_str().unwrap_or_default();
            errors.extend(quantity_errors(&format!("status.{side}.{name}"), name, amount));
        }
    }
    errors
}

fn report_errors(object: &Json) -> FieldErrors {
    let swap = object.integer("/status/nodeInfo/swap/capacity");
    let swap = swap.filter(|swap| *swap <= 0).map(|swap| {
        // As in kube-apiserver, the path of this error begins with `metadata`.
        FieldError::invalid("metadata.nodeSwapStatus.capacity", &swap.into(), "must be greater than zero")
    });
    swap.into_iter().chain(feature_errors(object)).collect()
}

fn feature_errors(object: &Json) -> FieldErrors {
    const FIELD: &str = "status.declaredFeatures";
    const WHY: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
                       MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
    let features = object.list("/status/declaredFeatures").map(|feature| feature.as_str().unwrap_or_default());
    let features: Vec<&str> = features.collect();
    let mut errors = FieldErrors::default();
    for (at, feature) in features.iter().enumerate() {
        let is_segment = |segment: &str| {
            segment.starts_with(|c: char| c.is_ascii_alphabetic()) && segment.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        let good = feature.starts_with(|c: char| c.is_ascii_uppercase()) && feature.split('/').all(is_segment);
        let wrong = match () {
            () if feature.len() > 253 => Some("must be no more than 253 characters"),
            () if !good => Some(WHY),
            () => None,
        };
        if let Some(wrong) = wrong {
            let why = format!("invalid feature name {feature:?}: {wrong}");
            errors.push(FieldError::invalid_text(format!("{FIELD}[{at}]"), feature, why));
        }
        if let Some(next) = features.get(at + 1).filter(|next| feature >= *next) {
            let field = format!("{FIELD}[{}]", at + 1);
            errors.push(if next == feature {
                FieldError::duplicate(field, &(*next).into())
            } else {
                FieldError::invalid_text(field, next, "list must be sorted alphabetically")
            });
        }
    }
    errors
}

fn range_errors(object: &Json) -> FieldErrors {
    const FIELD: &str = "spec.podCIDRs";
    let ranges: Vec<_> = object.texts("/spec/podCIDRs").collect();
    let mut errors = FieldErrors::default();
    for (at, range) in ranges.iter().enumerate() {
        errors.extend(cidr_errors(range, &format!("{FIELD}[{at}]")));
    }
    let is_wrong = !errors.is_empty();
    if ranges.len() > 1 && is_wrong {
        let message = "Internal error: invalid PodCIDRs. failed to check with dual stack";
        errors.push(FieldError::new(FieldErrorType::Internal, FIELD, message));
    }
    let of_v6 = ranges.iter().filter(|range| range.contains(':')).count();
    if ranges.len() > 2 || ranges.len() == 2 && (is_wrong || of_v6 != 1) {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(FIELD, &ranges.into(), why));
    }
    errors
}

fn fixed_errors(new: &Json, old: &Json) -> FieldErrors {
    const FIXED: &str = "node updates may not change podCIDR except from \"\" to valid";
    let mut errors = FieldErrors::default();
    let ranges = |node: &Json| node.texts("/spec/podCIDRs").map(str::to_owned).collect::<Vec<_>>();
    let (was, is) = (ranges(old), ranges(new));
    if is.len() != was.len() && !was.is_empty() {
        errors.push(FieldError::forbidden("spec.podCIDRs", FIXED));
    } else {
        let changed = was.iter().zip(&is).filter(|(was, is)| was != is);
        errors.extend(changed.map(|_| FieldError::forbidden("spec.podCIDRs", FIXED)));
    }
    let provider = |node: &Json| node.text("/spec/providerID").to_owned();
    let why = "node updates may not change providerID except from \"\" to valid";
    errors.forbidden_if(!provider(old).is_empty() && provider(old) != provider(new), "spec.providerID", why);
    errors
}

fn roles(object: &Json) -> String {
    let labels = object.members("/metadata/labels");
    let role = |(key, value): (&Text, &Json)| match (key.strip_prefix("node-role.kubernetes.io/"), key.as_str()) {
        (Some(role), _) => Some(role.to_owned()),
        (None, "kubernetes.io/role") => value.as_str().map(Into::into),
        _ => None,
    };
    let roles: std::collections::BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}
